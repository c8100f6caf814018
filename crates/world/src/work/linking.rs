//! Names of one inode: hard links, symbolic links, renames of all modes between directories, attributes, and files that are
//! open without a name.

use super::super::task::{Failure, Open, Outcome, Task, READ, WRITE};
use super::removing::list;
use super::{directory_kind, shared_directory, EEXIST, EIO};
use std::collections::BTreeMap;
use weir_wire::{At, AttributeChange, Attributes, Errno, Ino, RenameMode, Reply, Request, XattrMode};

const OPERATIONS: u64 = 40;
/// Directories of a task, and names in each.
const DIRECTORIES: u64 = 2;
const NAMES: u64 = 4;
const ATTRIBUTES: u64 = 2;
/// The largest file, in bytes: two stripes.
const SIZE_MAX: u64 = 6 << 10;
const ENOENT: Errno = Errno(2);
const EXDEV: Errno = Errno(18);
const ENODATA: Errno = Errno(61);
const ESTALE: Errno = Errno(116);

/// A directory, and a name in it.
type Place = (u64, u64);

/// An inode of the model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    content: Vec<u8>,
    /// The target of a symbolic link.
    target: Option<Vec<u8>>,
    attributes: BTreeMap<u64, Vec<u8>>,
    permissions: Option<u16>,
    owner: Option<u32>,
}

/// A task that links and renames.
pub(crate) struct Linking {
    task: Task,
    directories: Vec<Ino>,
    names: BTreeMap<Place, Ino>,
    nodes: BTreeMap<Ino, Node>,
}

fn text((_, name): Place) -> String {
    format!("name-{name}")
}

/// The refusal of a request, none where it was done.
fn refusal(reply: &Reply) -> Option<Errno> {
    match reply {
        Reply::Failed(errno) => Some(*errno),
        _ => None,
    }
}

impl Linking {
    pub(crate) fn new(task: Task) -> Linking {
        Linking { task, directories: Vec::new(), names: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        let top = format!("links-{}", self.task.number);
        self.make(At::new(Ino::ROOT, top.as_str())).await?;
        for directory in 0..DIRECTORIES {
            let made = self.make(At::new(Ino::ROOT, format!("{top}/{directory}"))).await?;
            self.directories.push(made);
        }
        for _ in 0..OPERATIONS {
            let (place, other) = (self.any_place(), self.any_place());
            match self.task.agenda.below(10) {
                0 | 1 => self.write(place).await?,
                2 => self.link(place, other).await?,
                3 => self.symlink(place).await?,
                4 => self.unlink(place).await?,
                5 => self.rename(place, other).await?,
                6 => self.unlink_open(place).await?,
                7 => self.attribute(place).await?,
                8 => self.change(place).await?,
                _ => self.move_away(place).await?,
            }
            self.look(place).await?;
        }
        for directory in 0..DIRECTORIES {
            self.check_listing(directory).await?;
        }
        Ok(())
    }

    fn any_place(&self) -> Place {
        (self.task.agenda.below(DIRECTORIES), self.task.agenda.below(NAMES))
    }

    fn at(&self, place: Place) -> At {
        At::new(self.directories[place.0 as usize], text(place))
    }

    fn home(&self) -> usize {
        usize::from(self.directories[0].home().0)
    }

    fn node_of(&self, place: Place) -> Option<(Ino, &Node)> {
        let ino = *self.names.get(&place)?;
        Some((ino, self.nodes.get(&ino)?))
    }

    /// Nobody reaches a node without a name any more.
    fn forget_unnamed(&mut self) {
        let names = &self.names;
        self.nodes.retain(|ino, _| names.values().any(|named| named == ino));
    }

    async fn make(&self, at: At) -> Outcome<Ino> {
        let what = format!("{at:?}");
        let kind = directory_kind(&self.task);
        let make = |at| Request::Make { at, kind, permissions: 0o755 };
        loop {
            match self.task.at(at.clone(), make).await.0 {
                Reply::Attributes(attributes) => return Ok(attributes.ino),
                Reply::Failed(EIO) => {}
                // It was made when EIO left that open.
                Reply::Failed(EEXIST) => return Ok(self.attributes(at).await?.ino),
                other => return Err(format!("mkdir {what}: {other:?}")),
            }
        }
    }

    async fn attributes(&self, at: At) -> Outcome<Attributes> {
        let what = format!("{at:?}");
        match self.task.at(at, |at| Request::Attributes { at, follow: false }).await.0 {
            Reply::Attributes(attributes) => Ok(attributes),
            other => Err(format!("stat {what}: {other:?}")),
        }
    }

    fn expect(&self, what: &str, expected: Option<Errno>, reply: &Reply) -> Outcome<()> {
        match refusal(reply) == expected {
            true => Ok(()),
            false => Err(format!("{what}: {reply:?}, expected {expected:?}; names {:?}", self.names)),
        }
    }

    /// Compares what the store tells of a name with the model.
    async fn look(&self, place: Place) -> Outcome<()> {
        let reply = self.task.at(self.at(place), |at| Request::Attributes { at, follow: false }).await.0;
        let Some((ino, node)) = self.node_of(place) else {
            return self.expect(&format!("stat {place:?}"), Some(ENOENT), &reply);
        };
        let Reply::Attributes(found) = reply else { return Err(format!("stat {place:?}: {reply:?}")) };
        let links = self.names.values().filter(|named| **named == ino).count() as u32;
        let size_bytes = node.target.as_ref().unwrap_or(&node.content).len() as u64;
        let known = (ino, links, size_bytes);
        let told = (found.ino, found.links, found.size_bytes);
        let is_same = told == known
            && node.permissions.is_none_or(|permissions| permissions == found.permissions)
            && node.owner.is_none_or(|owner| owner == found.uid);
        match is_same {
            true => Ok(()),
            false => Err(format!("{place:?} is {found:?}, and should be {known:?}, {node:?}")),
        }
    }

    async fn open(&self, place: Place, is_new: bool) -> Outcome<Open> {
        let flags = if is_new { WRITE } else { weir_wire::OpenFlags { write: true, ..READ } };
        let opened = self.task.open(self.at(place), flags).await;
        opened.map_err(|errno| format!("open {place:?}: {errno:?}; names {:?}", self.names))
    }

    /// Writes a file anew from its begin, and reads all of it.
    async fn write(&mut self, place: Place) -> Outcome<()> {
        let known = self.node_of(place).map(|(ino, node)| (ino, node.clone()));
        if known.as_ref().is_some_and(|(_, node)| node.target.is_some()) {
            return Ok(());
        }
        let starts = self.task.histories.borrow().holders.starts_of(self.home());
        let mut file = self.open(place, known.is_none()).await?;
        match known {
            Some((ino, _)) if ino != file.ino => {
                return Err(format!("{place:?} is {:?}, and was {ino:?}", file.ino));
            }
            _ => _ = self.names.insert(place, file.ino),
        }
        self.overwrite(&mut file).await?;
        self.task.close(file.ino, file.handle).await;
        self.use_closed(&file, starts).await
    }

    /// Writes through a description, also of a file without a name, and reads the file.
    async fn overwrite(&mut self, file: &mut Open) -> Result<(), Failure> {
        let length = 1 + self.task.agenda.below(SIZE_MAX);
        let bytes: Vec<u8> = (0..length).map(|_| 1 + self.task.agenda.below(255) as u8).collect();
        self.task.write_bytes(file, 0, &bytes).await?;
        let node = self.nodes.entry(file.ino).or_default();
        node.content.resize(node.content.len().max(bytes.len()), 0);
        node.content[..bytes.len()].copy_from_slice(&bytes);
        let known = self.nodes[&file.ino].content.clone();
        match self.task.read_bytes(file, known.len() as u64).await? == known {
            true => Ok(()),
            false => Err(Failure::Fault(format!("{:?} has other bytes than were written", file.ino))),
        }
    }

    /// Uses a description of a file that has so many names.
    async fn use_open(&mut self, file: &mut Open, links: u32) -> Result<(), Failure> {
        self.overwrite(file).await?;
        let at = At::described(file.capability);
        match self.task.at(at, |at| Request::Attributes { at, follow: false }).await.0 {
            Reply::Attributes(found) if found.links == links => Ok(()),
            Reply::Failed(errno) => Err(Failure::Refused(errno)),
            other => Err(Failure::Fault(format!("{other:?} of {:?} with {links} names", file.ino))),
        }
    }

    /// A right that was closed gives nothing at the home, unless the home started since: descriptions of earlier starts count as open
    /// for a while.
    async fn use_closed(&self, file: &Open, starts: u64) -> Outcome<()> {
        if !self.task.agenda.by_chance(20) {
            return Ok(());
        }
        let append = Request::AppendBegin { capability: file.capability };
        match self.task.call(file.home(), append, &[]).await.0 {
            Reply::Failed(ESTALE) => Ok(()),
            _ if self.task.histories.borrow().holders.starts_of(self.home()) != starts => Ok(()),
            other => Err(format!("a closed description of {:?} gives {other:?}", file.ino)),
        }
    }

    async fn link(&mut self, from: Place, to: Place) -> Outcome<()> {
        let known = self.node_of(from).map(|(ino, _)| ino);
        let expected = match known {
            None => Some(ENOENT),
            Some(_) => self.names.contains_key(&to).then_some(EEXIST),
        };
        let request = Request::Link { from: self.at(from), follow: false, to: self.at(to) };
        let reply = self.task.call(self.home(), request, &[]).await.0;
        self.expect(&format!("link {from:?} {to:?}"), expected, &reply)?;
        if let (Some(ino), None) = (known, expected) {
            self.names.insert(to, ino);
        }
        Ok(())
    }

    async fn symlink(&mut self, place: Place) -> Outcome<()> {
        let expected = self.names.contains_key(&place).then_some(EEXIST);
        let target = format!("../{}/{}", self.task.agenda.below(DIRECTORIES), text(self.any_place()));
        let target = target.into_bytes();
        let reply =
            self.task.at(self.at(place), |at| Request::Symlink { at, target: target.clone() }).await.0;
        self.expect(&format!("symlink {place:?}"), expected, &reply)?;
        if let Reply::Attributes(made) = reply {
            self.names.insert(place, made.ino);
            self.nodes.insert(made.ino, Node { target: Some(target.clone()), ..Node::default() });
            let found = self.task.at(self.at(place), |at| Request::ReadLink { at }).await.0;
            if found != (Reply::Link { target }) {
                return Err(format!("readlink {place:?}: {found:?}"));
            }
        }
        Ok(())
    }

    async fn unlink(&mut self, place: Place) -> Outcome<()> {
        let expected = (!self.names.contains_key(&place)).then_some(ENOENT);
        let reply = self.task.at(self.at(place), |at| Request::Unlink { at, directory: false }).await.0;
        self.expect(&format!("unlink {place:?}"), expected, &reply)?;
        self.names.remove(&place);
        self.forget_unnamed();
        Ok(())
    }

    async fn rename(&mut self, from: Place, to: Place) -> Outcome<()> {
        let mode = match self.task.agenda.below(3) {
            0 => RenameMode::Replace,
            1 => RenameMode::NoReplace,
            _ => RenameMode::Exchange,
        };
        let (moved, replaced) = (self.names.get(&from).copied(), self.names.get(&to).copied());
        let expected = match (moved, replaced, mode) {
            (None, _, _) | (_, None, RenameMode::Exchange) => Some(ENOENT),
            (_, Some(_), RenameMode::NoReplace) => Some(EEXIST),
            _ => None,
        };
        let request = Request::Rename { from: self.at(from), to: self.at(to), mode };
        let reply = self.task.call(self.home(), request, &[]).await.0;
        self.expect(&format!("rename {from:?} {to:?} {mode:?}"), expected, &reply)?;
        match (expected, moved, replaced, mode) {
            (None, Some(moved), Some(replaced), RenameMode::Exchange) => {
                self.names.insert(to, moved);
                self.names.insert(from, replaced);
            }
            // rename(2): two names of one file stay.
            (None, moved, replaced, _) if moved == replaced => {}
            (None, Some(moved), _, _) => {
                self.names.remove(&from);
                self.names.insert(to, moved);
            }
            _ => {}
        }
        self.forget_unnamed();
        Ok(())
    }

    /// Removes the name of a file that is open, and goes on with the file.
    async fn unlink_open(&mut self, place: Place) -> Outcome<()> {
        let Some((ino, node)) = self.node_of(place).map(|(ino, node)| (ino, node.clone())) else {
            return Ok(());
        };
        if node.target.is_some() {
            return Ok(());
        }
        let home = self.home();
        let absences = self.task.client.borrow_mut().absences(home);
        let mut file = self.open(place, false).await?;
        self.unlink(place).await?;
        self.nodes.insert(ino, node);
        let links = self.names.values().filter(|named| **named == ino).count() as u32;
        match self.use_open(&mut file, links).await {
            // Without a connection for a while the client loses its descriptions, and with them a file that has no name.
            Err(Failure::Refused(ESTALE))
                if links == 0 && self.task.client.borrow_mut().absences(home) > absences => {}
            used => used?,
        }
        self.task.close(file.ino, file.handle).await;
        self.forget_unnamed();
        Ok(())
    }

    /// Sets, reads and removes an extended attribute.
    async fn attribute(&mut self, place: Place) -> Outcome<()> {
        let Some((ino, node)) = self.node_of(place) else { return Ok(()) };
        if node.target.is_some() {
            return Ok(());
        }
        let which = self.task.agenda.below(ATTRIBUTES);
        let name = format!("user.attribute-{which}").into_bytes();
        let known = node.attributes.get(&which).cloned();
        let get = |at| Request::XattrGet { at, follow: false, name: name.clone() };
        let found = self.task.at(self.at(place), get).await;
        match (&known, found) {
            (None, (Reply::Failed(ENODATA), _)) => {}
            (Some(known), (Reply::Value, found)) if *known == found => {}
            (known, found) => return Err(format!("getxattr {place:?} {which}: {found:?}, set {known:?}")),
        }
        let is_removal = self.task.agenda.by_chance(30);
        let value: Vec<u8> = (0..self.task.agenda.below(40)).map(|number| number as u8).collect();
        let (reply, expected) = if is_removal {
            let remove = |at| Request::XattrRemove { at, follow: false, name: name.clone() };
            (self.task.at(self.at(place), remove).await.0, known.is_none().then_some(ENODATA))
        } else {
            let mode = if self.task.agenda.by_chance(30) { XattrMode::Create } else { XattrMode::Set };
            let set = |at| Request::XattrSet { at, follow: false, name: name.clone(), mode };
            let expected = (mode == XattrMode::Create && known.is_some()).then_some(EEXIST);
            (self.task.at_with(self.at(place), set, &value).await.0, expected)
        };
        self.expect(&format!("setxattr {place:?} {which}"), expected, &reply)?;
        let attributes = &mut self.nodes.entry(ino).or_default().attributes;
        match (expected, is_removal) {
            (Some(_), _) => {}
            (None, true) => _ = attributes.remove(&which),
            (None, false) => _ = attributes.insert(which, value),
        }
        Ok(())
    }

    /// Changes permissions and owner.
    async fn change(&mut self, place: Place) -> Outcome<()> {
        let Some((ino, node)) = self.node_of(place) else { return Ok(()) };
        if node.target.is_some() {
            return Ok(());
        }
        let permissions = self.task.agenda.below(0o1000) as u16;
        let uid = self.task.agenda.below(3) as u32;
        let change = AttributeChange {
            permissions: Some(permissions),
            uid: Some(uid),
            gid: Some(uid),
            ..AttributeChange::default()
        };
        let reply = self.task.at(self.at(place), |at| Request::Change { at, follow: false, change }).await.0;
        self.expect(&format!("chmod {place:?}"), None, &reply)?;
        let node = self.nodes.entry(ino).or_default();
        (node.permissions, node.owner) = (Some(permissions), Some(uid));
        Ok(())
    }

    /// Renames into a directory that may have another home, and back.
    async fn move_away(&mut self, place: Place) -> Outcome<()> {
        let shared = shared_directory(&self.task).await?;
        let shared = self.attributes(At::new(Ino::ROOT, shared)).await?.ino;
        let away = At::new(shared, format!("stray-{}", self.task.number));
        let expected = match self.names.contains_key(&place) {
            _ if shared.home() != self.directories[0].home() => Some(EXDEV),
            true => None,
            false => Some(ENOENT),
        };
        let mode = RenameMode::Replace;
        let request = Request::Rename { from: self.at(place), to: away.clone(), mode };
        let reply = self.task.call(self.home(), request, &[]).await.0;
        self.expect(&format!("rename {place:?} {away:?}"), expected, &reply)?;
        if expected.is_none() {
            let request = Request::Rename { from: away, to: self.at(place), mode };
            let reply = self.task.call(self.home(), request, &[]).await.0;
            self.expect(&format!("rename {place:?} back"), None, &reply)?;
        }
        Ok(())
    }

    async fn check_listing(&self, directory: u64) -> Outcome<()> {
        let at = At::inode(self.directories[directory as usize]);
        let found: BTreeMap<String, Ino> = list(&self.task, at)
            .await?
            .into_iter()
            .map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.ino))
            .collect();
        let of = self.names.iter().filter(|((of, _), _)| *of == directory);
        let known: BTreeMap<String, Ino> = of.map(|(place, ino)| (text(*place), *ino)).collect();
        match found == known {
            true => Ok(()),
            false => Err(format!("directory {directory} has {found:?}, and should have {known:?}")),
        }
    }
}
