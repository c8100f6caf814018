//! A client of a world: it makes, writes, reads, renames and removes names of its own directory, which a model knows, and
//! shares one file with all others.

use super::agenda::{Agenda, Happening};
use super::register::History;
use super::session::{Answered, Holdings};
use super::SETTLED;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::task::Poll;
use weir_fairshare::Nanos;
use weir_placement::{Layout, TargetId};
use weir_wire::{
    decode_body, At, AttributeChange, Capability, DirectoryEntry, Errno, Extent, Fence, HandleId, Ino,
    NodeKind, OpenFlags, Publication, RenameMode, Reply, Request,
};

const ENOENT: Errno = Errno(2);
const EIO: Errno = Errno(5);
const EEXIST: Errno = Errno(17);
const ENOTDIR: Errno = Errno(20);
const EISDIR: Errno = Errno(21);
const ESTALE: Errno = Errno(116);

/// Names of a client's directory: few, so that calls meet.
const NAMES: u64 = 5;
/// The largest file, in bytes: some stripes on each target.
const SIZE_MAX: u64 = 24 << 10;
/// The largest write, in bytes.
const WRITE_MAX: u64 = 9 << 10;
const REGISTER: &str = "register";

/// The call of a client that waits, and the answer to the one before.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) call: Option<(usize, Request, Vec<u8>)>,
    pub(super) answer: Option<Answered>,
}

/// A node of the model.
#[derive(Clone, PartialEq)]
enum Node {
    Directory(Ino),
    File(Ino, Vec<u8>),
}

impl Node {
    fn ino(&self) -> Ino {
        match self {
            Node::Directory(ino) | Node::File(ino, _) => *ino,
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Directory(ino) => write!(formatter, "directory {ino:?}"),
            Node::File(ino, content) => write!(formatter, "file {ino:?} of {} bytes", content.len()),
        }
    }
}

/// An open file.
struct Open {
    ino: Ino,
    handle: HandleId,
    capability: Capability,
    layout: Layout,
    epoch: u64,
    size_bytes: u64,
    created: bool,
}

/// The fault that a client found.
pub(super) type Outcome<T> = Result<T, String>;

/// A client, and the names that it knows to be there.
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) desk: Rc<RefCell<Desk>>,
    pub(super) holdings: Holdings,
    pub(super) history: Rc<RefCell<History>>,
    pub(super) agenda: Agenda,
    directory: Ino,
    names: BTreeMap<String, Node>,
    writes: u64,
}

impl Client {
    pub(super) fn new(
        number: usize,
        (desk, holdings): (&Rc<RefCell<Desk>>, &Holdings),
        history: &Rc<RefCell<History>>,
        agenda: &Agenda,
    ) -> Client {
        Client {
            number,
            desk: Rc::clone(desk),
            holdings: Rc::clone(holdings),
            history: Rc::clone(history),
            agenda: agenda.clone(),
            directory: Ino::ROOT,
            names: BTreeMap::new(),
            writes: 0,
        }
    }

    /// Makes so many operations, looks at everything once more, and removes everything when nothing fails any more.
    ///
    /// # Errors
    /// An answer that the store should not have given.
    pub(super) async fn work(mut self, operations: u64) -> Outcome<()> {
        let made = self.make(self.own()).await;
        self.directory = made.map_err(|errno| format!("its directory: {errno:?}"))?;
        for _ in 0..operations {
            let (name, other) = (self.any_name(), self.any_name());
            match self.agenda.below(14) {
                0..=2 => self.write(&name).await?,
                3 => self.read(&name).await?,
                4 => self.rename(&name, &other).await?,
                5 => self.remove(&name).await?,
                6 => self.make_directory(&name).await?,
                7 => self.truncate(&name).await?,
                8 => self.list().await?,
                9 | 10 => self.write_register().await?,
                _ => self.read_register().await?,
            }
        }
        for name in self.names.keys().cloned().collect::<Vec<_>>() {
            self.read(&name).await?;
        }
        self.list().await?;
        self.wait_until(SETTLED).await;
        self.remove_all().await
    }

    /// Removes everything, for which no error is an excuse any more.
    async fn remove_all(&mut self) -> Outcome<()> {
        for (name, node) in self.names.clone() {
            let directory = matches!(node, Node::Directory(_));
            let reply = self.at(self.here(&name), |at| Request::Unlink { at, directory }).await.0;
            self.expected(&format!("remove {name} at the end"), None, &reply)?;
            self.names.remove(&name);
        }
        let reply = self.at(self.own(), |at| Request::Unlink { at, directory: true }).await.0;
        self.expected("remove its directory", None, &reply)
    }

    async fn wait_until(&self, moment: Nanos) {
        self.agenda.add(moment, Happening::GoOn { client: self.number });
        std::future::poll_fn(|_| if self.agenda.now() < moment { Poll::Pending } else { Poll::Ready(()) })
            .await;
    }

    /// The place of its directory.
    fn own(&self) -> At {
        At::new(Ino::ROOT, format!("client-{}", self.number))
    }

    fn any_name(&self) -> String {
        format!("name-{}", self.agenda.below(NAMES))
    }

    async fn call(&self, server: usize, request: &Request, payload: &[u8]) -> Answered {
        self.desk.borrow_mut().call = Some((server, request.clone(), payload.to_vec()));
        std::future::poll_fn(|_| match self.desk.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// A request to the homes to which a place leads.
    async fn at(&self, at: At, request: impl Fn(At) -> Request) -> Answered {
        let first = at.clone();
        let mut at = at;
        loop {
            let server = usize::from(at.ino.home().0);
            match self.call(server, &request(at), &[]).await {
                (Reply::Redirect { at: elsewhere }, _) => at = elsewhere,
                (Reply::Stale, _) => at = first.clone(),
                answered => return answered,
            }
        }
    }

    fn here(&self, name: &str) -> At {
        At::new(self.directory, name)
    }

    async fn make(&self, at: At) -> Result<Ino, Errno> {
        let kind = NodeKind::Directory;
        match self.at(at, |at| Request::Make { at, kind, permissions: 0o755 }).await.0 {
            Reply::Attributes(attributes) => Ok(attributes.ino),
            Reply::Failed(errno) => Err(errno),
            _ => Err(Errno(0)),
        }
    }

    fn expected(&self, what: &str, expected: Option<Errno>, found: &Reply) -> Outcome<()> {
        let is_so = match (expected, found) {
            (Some(errno), Reply::Failed(found)) => *found == errno,
            (None, Reply::Failed(_)) => false,
            (None, _) => true,
            (Some(_), _) => false,
        };
        match is_so {
            true => Ok(()),
            false => Err(format!(
                "client {}: {what}: {found:?}, expected {expected:?}; names {:?}",
                self.number, self.names
            )),
        }
    }

    async fn make_directory(&mut self, name: &str) -> Outcome<()> {
        let expected = self.names.contains_key(name).then_some(EEXIST);
        let kind = NodeKind::Directory;
        let reply = self.at(self.here(name), |at| Request::Make { at, kind, permissions: 0o755 }).await.0;
        if reply == Reply::Failed(EIO) && expected.is_none() {
            return self.look(name).await;
        }
        self.expected(&format!("mkdir {name}"), expected, &reply)?;
        if let Reply::Attributes(attributes) = reply {
            self.names.insert(name.into(), Node::Directory(attributes.ino));
        }
        Ok(())
    }

    async fn remove(&mut self, name: &str) -> Outcome<()> {
        let known = self.names.get(name);
        let (directory, expected) = match known {
            Some(node) => (matches!(node, Node::Directory(_)), None),
            None => (self.agenda.by_chance(50), Some(ENOENT)),
        };
        let reply = self.at(self.here(name), |at| Request::Unlink { at, directory }).await.0;
        if reply == Reply::Failed(EIO) && expected.is_none() {
            return self.look(name).await;
        }
        self.expected(&format!("remove {name}"), expected, &reply)?;
        self.names.remove(name);
        Ok(())
    }

    /// Asks whether a name is there, of which EIO left that open.
    async fn look(&mut self, name: &str) -> Outcome<()> {
        let reply = self.at(self.here(name), |at| Request::Attributes { at, follow: false }).await.0;
        match reply {
            Reply::Failed(ENOENT) => _ = self.names.remove(name),
            Reply::Attributes(found) => match self.names.get(name) {
                Some(known) if known.ino() == found.ino => {}
                Some(known) => return Err(format!("{name}: {known:?} became {found:?}")),
                None => _ = self.names.insert(name.into(), Node::Directory(found.ino)),
            },
            other => return Err(format!("{name} after EIO: {other:?}")),
        }
        Ok(())
    }

    async fn rename(&mut self, from: &str, to: &str) -> Outcome<()> {
        let moved = self.names.get(from).cloned();
        let expected = match (&moved, self.names.get(to)) {
            (None, _) => Some(ENOENT),
            (Some(Node::File(..)), Some(Node::Directory(_))) => Some(EISDIR),
            (Some(Node::Directory(_)), Some(Node::File(..))) => Some(ENOTDIR),
            _ => None,
        };
        let mode = RenameMode::Replace;
        let request = Request::Rename { from: self.here(from), to: self.here(to), mode };
        let home = usize::from(self.directory.home().0);
        let reply = self.call(home, &request, &[]).await.0;
        if reply == Reply::Failed(EIO) && expected.is_none() {
            return self.look_at_both(from, to).await;
        }
        self.expected(&format!("rename {from} {to}"), expected, &reply)?;
        if let (Some(node), None, true) = (moved, expected, from != to) {
            self.names.remove(from);
            self.names.insert(to.into(), node);
        }
        Ok(())
    }

    /// Asks where a renamed name is, of which EIO left that open.
    async fn look_at_both(&mut self, from: &str, to: &str) -> Outcome<()> {
        let reply = self.at(self.here(from), |at| Request::Attributes { at, follow: false }).await.0;
        if reply == Reply::Failed(ENOENT) {
            if let Some(node) = self.names.remove(from) {
                self.names.insert(to.into(), node);
            }
        }
        Ok(())
    }

    async fn open(&self, at: At, is_write: bool) -> Result<Open, Errno> {
        let flags = OpenFlags { read: true, write: is_write, create: is_write, ..OpenFlags::default() };
        let request = |at| Request::Open { at, flags, permissions: 0o644, layout: None };
        match self.at(at, request).await.0 {
            Reply::Opened { attributes, handle, capability, layout: Some(layout), created } => {
                self.holdings.borrow_mut().insert((attributes.ino, handle), capability);
                let (epoch, size_bytes) = (attributes.epoch, attributes.size_bytes);
                Ok(Open { ino: attributes.ino, handle, capability, layout, epoch, size_bytes, created })
            }
            Reply::Opened { attributes, handle, .. } => {
                self.close(attributes.ino, handle).await;
                Err(EISDIR)
            }
            Reply::Failed(errno) => Err(errno),
            _ => Err(Errno(0)),
        }
    }

    async fn close(&self, ino: Ino, handle: HandleId) {
        self.holdings.borrow_mut().remove(&(ino, handle));
        self.call(usize::from(ino.home().0), &Request::Close { ino, handle }, &[]).await;
    }

    /// A data request, repeated under the epoch and with the rights that its server knows.
    async fn transfer(
        &self,
        file: &mut Open,
        server: usize,
        payload: &[u8],
        request: impl Fn(&Open) -> Request,
    ) -> Outcome<Answered> {
        let home = usize::from(file.ino.home().0);
        loop {
            match self.call(server, &request(file), payload).await {
                (Reply::StaleEpoch { .. }, _) => {
                    let at = At::described(file.capability);
                    match self.call(home, &Request::Layout { at }, &[]).await.0 {
                        Reply::Layout { layout, size_bytes, epoch, .. } => {
                            (file.layout, file.size_bytes, file.epoch) = (layout, size_bytes, epoch);
                        }
                        other => return Err(format!("layout of {:?}: {other:?}", file.ino)),
                    }
                }
                (Reply::Failed(ESTALE), _) => {
                    let reclaim = Request::Reclaim { handles: vec![file.capability] };
                    match self.call(home, &reclaim, &[]).await.0 {
                        Reply::Held { .. } => {}
                        other => return Err(format!("reclaim of {:?}: {other:?}", file.ino)),
                    }
                }
                // The home was away for too long for the server of the bytes.
                (Reply::Failed(EIO), _) => {}
                answered => return Ok(answered),
            }
        }
    }

    async fn write_bytes(&self, file: &mut Open, offset: u64, bytes: &[u8]) -> Outcome<()> {
        let home = file.ino.home();
        let pieces: Vec<_> = file.layout.pieces(offset, bytes.len() as u64).collect();
        for piece in pieces {
            let target: TargetId = file.layout.targets()[piece.object];
            let end = piece.file_offset + piece.length;
            let extents = vec![Extent { offset: piece.object_offset, length: piece.length as u32 }];
            let published = |file: &Open| Publication {
                end,
                written_bytes: piece.length,
                epoch: file.epoch,
                reserved_end: 0,
            };
            let request = |file: &Open| Request::Write {
                fence: Fence::NONE,
                capability: file.capability,
                target,
                epoch: file.epoch,
                extents: extents.clone(),
                publication: (target.server == home).then(|| published(file)),
            };
            let first = (piece.file_offset - offset) as usize;
            let part = &bytes[first..first + piece.length as usize];
            let server = usize::from(target.server.0);
            let answered = self.transfer(file, server, part, request).await?;
            if !matches!(answered.0, Reply::Written { .. }) {
                return Err(format!("write to {target}: {:?}", answered.0));
            }
            if target.server == home {
                continue;
            }
            let publish =
                |file: &Open| Request::Publish { capability: file.capability, publication: published(file) };
            let answered = self.transfer(file, usize::from(home.0), &[], publish).await?;
            if !matches!(answered.0, Reply::Written { .. }) {
                return Err(format!("publish of {:?}: {:?}", file.ino, answered.0));
            }
        }
        Ok(())
    }

    async fn read_bytes(&self, file: &mut Open, length: u64) -> Outcome<Vec<u8>> {
        let mut bytes = Vec::new();
        let pieces: Vec<_> = file.layout.pieces(0, length).collect();
        for piece in pieces {
            let target = file.layout.targets()[piece.object];
            let request = |file: &Open| Request::Read {
                fence: Fence::NONE,
                capability: file.capability,
                target,
                epoch: file.epoch,
                extents: vec![Extent { offset: piece.object_offset, length: piece.length as u32 }],
            };
            let server = usize::from(target.server.0);
            match self.transfer(file, server, &[], request).await? {
                (Reply::Data { .. }, part) => bytes.extend(part),
                (other, _) => return Err(format!("read of {:?}: {other:?}", file.ino)),
            }
        }
        Ok(bytes)
    }

    fn opened(&mut self, name: &str, file: &Open) -> Outcome<()> {
        let is_new = file.created;
        match self.names.get(name) {
            None if is_new => _ = self.names.insert(name.into(), Node::File(file.ino, Vec::new())),
            Some(Node::File(ino, _)) if !is_new && *ino == file.ino => {}
            known => return Err(format!("{name} is {:?}, made {is_new}, and was {known:?}", file.ino)),
        }
        Ok(())
    }

    async fn write(&mut self, name: &str) -> Outcome<()> {
        let is_directory = matches!(self.names.get(name), Some(Node::Directory(_)));
        let mut file = match self.open(self.here(name), true).await {
            Err(EISDIR) if is_directory => return Ok(()),
            Err(errno) => return Err(format!("open {name}: {errno:?}; {:?}", self.names.get(name))),
            Ok(file) => file,
        };
        self.opened(name, &file)?;
        let offset = self.agenda.below(SIZE_MAX - WRITE_MAX);
        let length = 1 + self.agenda.below(WRITE_MAX);
        let bytes: Vec<u8> = (0..length).map(|_| 1 + self.agenda.below(255) as u8).collect();
        self.write_bytes(&mut file, offset, &bytes).await?;
        if let Some(Node::File(_, content)) = self.names.get_mut(name) {
            let end = (offset + length) as usize;
            content.resize(content.len().max(end), 0);
            content[offset as usize..end].copy_from_slice(&bytes);
        }
        self.close(file.ino, file.handle).await;
        Ok(())
    }

    async fn read(&mut self, name: &str) -> Outcome<()> {
        let Some(Node::File(ino, content)) = self.names.get(name).cloned() else { return Ok(()) };
        let mut file =
            self.open(self.here(name), false).await.map_err(|errno| format!("{name}: {errno:?}"))?;
        if (file.ino, file.size_bytes) != (ino, content.len() as u64) {
            return Err(format!(
                "{name} is {:?} of {} bytes, and was {ino:?} of {}",
                file.ino,
                file.size_bytes,
                content.len()
            ));
        }
        let found = self.read_bytes(&mut file, content.len() as u64).await?;
        if found != content {
            let at = found.iter().zip(&content).position(|(found, known)| found != known);
            return Err(format!("{name} ({ino:?}) has other bytes from {at:?} on than were written"));
        }
        self.close(file.ino, file.handle).await;
        Ok(())
    }

    async fn truncate(&mut self, name: &str) -> Outcome<()> {
        let size_bytes = self.agenda.below(SIZE_MAX);
        let Some(Node::File(..)) = self.names.get(name) else { return Ok(()) };
        let change = AttributeChange { size_bytes: Some(size_bytes), ..AttributeChange::default() };
        let request = |at| Request::Change { at, follow: false, change };
        loop {
            let reply = self.at(self.here(name), request).await.0;
            match reply {
                Reply::Attributes(found) if found.size_bytes == size_bytes => break,
                // A cut is made once the servers of the bytes have heard of it, and may be asked for again.
                Reply::Failed(EIO) => {}
                other => return Err(format!("truncate {name} to {size_bytes}: {other:?}")),
            }
        }
        if let Some(Node::File(_, content)) = self.names.get_mut(name) {
            content.resize(size_bytes as usize, 0);
        }
        Ok(())
    }

    async fn list(&mut self) -> Outcome<()> {
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let (ino, home) = (self.directory, usize::from(self.directory.home().0));
        let request = Request::Open { at: At::inode(ino), flags, permissions: 0, layout: None };
        let Reply::Opened { handle, capability, .. } = self.call(home, &request, &[]).await.0 else {
            return Err("its directory cannot be opened".into());
        };
        self.holdings.borrow_mut().insert((ino, handle), capability);
        let list = Request::List { ino, handle, cookie: 0, bytes: 1 << 20, attributes: false };
        let (reply, payload) = self.call(home, &list, &[]).await;
        if reply != (Reply::Listing { end: true }) {
            return Err(format!("list: {reply:?}"));
        }
        let entries: Vec<DirectoryEntry> =
            decode_body(&payload, "listing").map_err(|error| error.to_string())?;
        let own = entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b"..");
        let found: BTreeMap<String, Ino> =
            own.map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.ino)).collect();
        let known: BTreeMap<String, Ino> =
            self.names.iter().map(|(name, node)| (name.clone(), node.ino())).collect();
        if found != known {
            return Err(format!("the directory has {found:?}, and should have {known:?}"));
        }
        self.close(ino, handle).await;
        Ok(())
    }

    /// A value that no other write has.
    fn take_value(&mut self) -> u64 {
        self.writes += 1;
        (self.number as u64 + 1) << 32 | self.writes
    }

    async fn write_register(&mut self) -> Outcome<()> {
        let file = self.open(At::new(Ino::ROOT, REGISTER), true).await;
        let mut file = file.map_err(|errno| format!("the register: {errno:?}"))?;
        let (value, began) = (self.take_value(), self.agenda.now());
        self.write_bytes(&mut file, 0, &value.to_le_bytes()).await?;
        self.history.borrow_mut().wrote(value, began, self.agenda.now());
        self.close(file.ino, file.handle).await;
        Ok(())
    }

    async fn read_register(&mut self) -> Outcome<()> {
        let file = self.open(At::new(Ino::ROOT, REGISTER), true).await;
        let mut file = file.map_err(|errno| format!("the register: {errno:?}"))?;
        let began = self.agenda.now();
        let bytes = self.read_bytes(&mut file, 8).await?;
        let value = u64::from_le_bytes(bytes.try_into().map_err(|_| "a short read")?);
        self.history.borrow_mut().read(value, began, self.agenda.now());
        self.close(file.ino, file.handle).await;
        Ok(())
    }
}
