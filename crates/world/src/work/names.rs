//! Names: a task makes, writes, reads, renames and removes names of its own directory, which a model knows.

use super::super::task::{Open, Outcome, Task, READ, WRITE};
use super::super::SETTLED;
use super::directory_kind;
use std::collections::BTreeMap;
use std::fmt;
use weir_wire::{
    decode_body, At, AttributeChange, DirectoryEntry, Errno, Ino, OpenFlags, RenameMode, Reply, Request,
};

const ENOENT: Errno = Errno(2);
const EIO: Errno = Errno(5);
const EEXIST: Errno = Errno(17);
const ENOTDIR: Errno = Errno(20);
const EISDIR: Errno = Errno(21);

const OPERATIONS: u64 = 40;
/// Names of a task's directory: few, so that calls meet.
const NAMES: u64 = 5;
/// The largest file, in bytes: some stripes on each target.
const SIZE_MAX: u64 = 24 << 10;
/// The largest write, in bytes.
const WRITE_MAX: u64 = 9 << 10;

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

/// A task, and the names that it knows to be there.
pub(crate) struct Names {
    task: Task,
    directory: Ino,
    names: BTreeMap<String, Node>,
}

impl Names {
    pub(crate) fn new(task: Task) -> Names {
        Names { task, directory: Ino::ROOT, names: BTreeMap::new() }
    }

    /// Makes some operations, looks at everything once more, and removes everything when nothing fails any more.
    ///
    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        self.directory = self.make_own().await?;
        for _ in 0..OPERATIONS {
            let (name, other) = (self.any_name(), self.any_name());
            match self.task.agenda.below(10) {
                0..=2 => self.write(&name).await?,
                3 => self.read(&name).await?,
                4 => self.rename(&name, &other).await?,
                5 => self.remove(&name).await?,
                6 => self.make_directory(&name).await?,
                7 | 8 => self.truncate(&name).await?,
                _ => self.list().await?,
            }
        }
        for name in self.names.keys().cloned().collect::<Vec<_>>() {
            self.read(&name).await?;
        }
        self.list().await?;
        self.task.wait_until(SETTLED).await;
        self.remove_all().await
    }

    /// Removes everything, for which no error is an excuse any more.
    async fn remove_all(&mut self) -> Outcome<()> {
        for (name, node) in self.names.clone() {
            let directory = matches!(node, Node::Directory(_));
            let reply = self.task.at(self.here(&name), |at| Request::Unlink { at, directory }).await.0;
            self.expected(&format!("remove {name} at the end"), None, &reply)?;
            self.names.remove(&name);
        }
        let reply = self.task.at(self.own(), |at| Request::Unlink { at, directory: true }).await.0;
        self.expected("remove its directory", None, &reply)
    }

    /// The place of its directory.
    fn own(&self) -> At {
        At::new(Ino::ROOT, format!("task-{}", self.task.number))
    }

    fn any_name(&self) -> String {
        format!("name-{}", self.task.agenda.below(NAMES))
    }

    fn here(&self, name: &str) -> At {
        At::new(self.directory, name)
    }

    /// Makes its directory, which it asks for again where another home was away for too long.
    async fn make_own(&self) -> Outcome<Ino> {
        let kind = directory_kind(&self.task);
        let make = |at| Request::Make { at, kind, permissions: 0o755 };
        let look = |at| Request::Attributes { at, follow: false };
        loop {
            match self.task.at(self.own(), make).await.0 {
                Reply::Attributes(attributes) => return Ok(attributes.ino),
                Reply::Failed(EIO) => {}
                // It was made when EIO left that open.
                Reply::Failed(EEXIST) => match self.task.at(self.own(), look).await.0 {
                    Reply::Attributes(attributes) => return Ok(attributes.ino),
                    other => return Err(format!("stat of its directory: {other:?}")),
                },
                other => return Err(format!("its directory: {other:?}")),
            }
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
                "task {}: {what}: {found:?}, expected {expected:?}; names {:?}",
                self.task.number, self.names
            )),
        }
    }

    async fn make_directory(&mut self, name: &str) -> Outcome<()> {
        let expected = self.names.contains_key(name).then_some(EEXIST);
        let kind = directory_kind(&self.task);
        let reply =
            self.task.at(self.here(name), |at| Request::Make { at, kind, permissions: 0o755 }).await.0;
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
            None => (self.task.agenda.by_chance(50), Some(ENOENT)),
        };
        let reply = self.task.at(self.here(name), |at| Request::Unlink { at, directory }).await.0;
        if reply == Reply::Failed(EIO) && expected.is_none() {
            return self.look(name).await;
        }
        self.expected(&format!("remove {name}"), expected, &reply)?;
        self.names.remove(name);
        Ok(())
    }

    /// Asks whether a name is there, of which EIO left that open.
    async fn look(&mut self, name: &str) -> Outcome<()> {
        let reply = self.task.at(self.here(name), |at| Request::Attributes { at, follow: false }).await.0;
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
        let reply = self.task.call(home, request, &[]).await.0;
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
        let reply = self.task.at(self.here(from), |at| Request::Attributes { at, follow: false }).await.0;
        if reply == Reply::Failed(ENOENT) {
            if let Some(node) = self.names.remove(from) {
                self.names.insert(to.into(), node);
            }
        }
        Ok(())
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
        let mut file = match self.task.open(self.here(name), WRITE).await {
            Err(EISDIR) if is_directory => return Ok(()),
            Err(errno) => return Err(format!("open {name}: {errno:?}; {:?}", self.names.get(name))),
            Ok(file) => file,
        };
        self.opened(name, &file)?;
        let offset = self.task.agenda.below(SIZE_MAX - WRITE_MAX);
        let length = 1 + self.task.agenda.below(WRITE_MAX);
        let bytes: Vec<u8> = (0..length).map(|_| 1 + self.task.agenda.below(255) as u8).collect();
        self.task.write_bytes(&mut file, offset, &bytes).await?;
        if let Some(Node::File(_, content)) = self.names.get_mut(name) {
            let end = (offset + length) as usize;
            content.resize(content.len().max(end), 0);
            content[offset as usize..end].copy_from_slice(&bytes);
        }
        self.task.close(file.ino, file.handle).await;
        Ok(())
    }

    async fn read(&mut self, name: &str) -> Outcome<()> {
        let Some(Node::File(ino, content)) = self.names.get(name).cloned() else { return Ok(()) };
        let mut file =
            self.task.open(self.here(name), READ).await.map_err(|errno| format!("{name}: {errno:?}"))?;
        if (file.ino, file.size_bytes) != (ino, content.len() as u64) {
            return Err(format!(
                "{name} is {:?} of {} bytes, and was {ino:?} of {}",
                file.ino,
                file.size_bytes,
                content.len()
            ));
        }
        let found = self.task.read_bytes(&mut file, content.len() as u64).await?;
        if found != content {
            let at = found.iter().zip(&content).position(|(found, known)| found != known);
            return Err(format!("{name} ({ino:?}) has other bytes from {at:?} on than were written"));
        }
        self.task.close(file.ino, file.handle).await;
        Ok(())
    }

    async fn truncate(&mut self, name: &str) -> Outcome<()> {
        let size_bytes = self.task.agenda.below(SIZE_MAX);
        let Some(Node::File(..)) = self.names.get(name) else { return Ok(()) };
        let change = AttributeChange { size_bytes: Some(size_bytes), ..AttributeChange::default() };
        let request = |at| Request::Change { at, follow: false, change };
        loop {
            let reply = self.task.at(self.here(name), request).await.0;
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
        let Reply::Opened { handle, capability, .. } = self.task.call(home, request, &[]).await.0 else {
            return Err("its directory cannot be opened".into());
        };
        self.task.client.borrow_mut().opened(handle, capability);
        let list = Request::List { ino, handle, cookie: 0, bytes: 1 << 20, attributes: false };
        let (reply, payload) = self.task.call(home, list, &[]).await;
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
        self.task.close(ino, handle).await;
        Ok(())
    }
}
