//! Inodes and directories as they are held in memory.

#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::intents::{Bytes, IntentId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use weir_placement::{Layout, LayoutRequest, LayoutSpecification, TargetId};
use weir_wire::{Attributes, FileKind, Ino, Moment};

/// Cookie of `.` in every listing.
pub(crate) const COOKIE_DOT: u64 = 1;
/// Cookie of `..` in every listing.
pub(crate) const COOKIE_DOT_DOT: u64 = 2;

/// A new inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Birth {
    /// Kind, with the attributes of that kind alone.
    pub node: BirthNode,
    /// Permission bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The kind of a new inode, with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BirthNode {
    /// A regular file.
    Regular {
        /// The layout of the file's bytes.
        layout: Layout,
        /// The request for the layout; absent if there was none.
        asked: Option<Box<LayoutSpecification>>,
    },
    /// A directory.
    Directory {
        /// Defaults for the layouts of files made in the directory.
        request: LayoutRequest,
    },
    /// A symbolic link.
    Symlink {
        /// The target of the link.
        target: Bytes,
    },
    /// A pipe, socket or device node.
    Special {
        /// Kind of the node.
        kind: FileKind,
        /// Device number; 0 for pipes and sockets.
        device: u64,
    },
}

/// Unit of the estimate of allocated bytes.
const PAGE_BYTES: u64 = 4096;

/// A map by inode number. The numbers come from this server's counter, so no client can make them collide.
pub(crate) type InoMap<V> = HashMap<Ino, V, BuildHasherDefault<NumberHasher>>;

/// Scatters counters by one multiplication (Knuth, TAOCP 3, 6.4: multiplicative hashing).
#[derive(Clone, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its bucket from the low bits and its tag from the high ones: fold both into each.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    pub(crate) node: Node,
    pub(crate) permissions: u16,
    /// The number of names; for a directory 1 or 0 (its link count follows from its subdirectories).
    pub(crate) names: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: Moment,
    pub(crate) modified: Moment,
    pub(crate) changed: Moment,
    pub(crate) created: Moment,
    pub(crate) xattrs: Option<Box<Xattrs>>,
    /// As the last change left it; [`super::inodes::Inodes`] alone raises it.
    pub(crate) version: u64,
    /// Directories that hold names of the inode, derived from the entries. [`Directory::parent`] has that of a directory.
    #[serde(skip)]
    pub(crate) holders: Holders,
}

/// The directories in which a file has its names, one for each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// Nearly every file has one name.
    first: Option<Ino>,
    // A box takes eight bytes in every inode, not twenty-four.
    #[allow(clippy::box_collection)]
    more: Option<Box<Vec<Ino>>>,
    names: Names,
}

/// Extended attributes by name, and their sums: no change looks at all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Xattrs {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    names_bytes: u64,
    values_bytes: u64,
}

/// A number of names, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) count: u32,
    pub(crate) bytes: u32,
}

/// The attributes that only one kind of inode has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Node {
    Regular(RegularFile),
    Directory(Box<Directory>),
    Symlink(Box<[u8]>),
    Special { kind: FileKind, device: u64 },
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegularFile {
    pub(crate) size_bytes: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) epoch: u64,
    pub(crate) layout: Layout,
    /// The request for the layout: a detour around full targets keeps to it. Absent if there was no request.
    pub(crate) asked: Option<Box<LayoutSpecification>>,
    /// The first epoch of the layout.
    pub(crate) layout_epoch: u64,
    /// Targets beside those of the layout that may hold an object of the file: one that moved away and keeps its epoch, or a
    /// copy.
    pub(crate) former: Box<[TargetId]>,
    /// The start during which the file was made, while nothing was published or cut; otherwise 0. This number and the open descriptions
    /// of the same start prove that no object exists.
    pub(crate) untouched_start: u32,
    /// The file was made without a name and may still get one.
    pub(crate) linkable: bool,
    /// The file may have holes, so a missing object is no loss.
    pub(crate) has_holes: bool,
    /// The size that the file is about to have, derived from its pending cut; 0 without one.
    #[serde(skip)]
    pub(crate) awaited_bytes: u64,
    /// Objects that are being moved, derived from the moves.
    #[serde(skip)]
    pub(crate) moving_objects: u32,
    /// The reasons of the file's placement, as [`weir_placement::online::Record`] writes them; empty if they are not known.
    pub(crate) placement: Box<[u8]>,
}

/// A directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    pub(crate) parent: Ino,
    /// Name of the directory's entry in `parent`; empty for the root.
    pub(crate) name: Box<[u8]>,
    /// The last intent of the parent's server that told of the entry.
    pub(crate) placed_by: IntentId,
    pub(crate) request: LayoutRequest,
    next_cookie: u64,
    #[serde(skip)]
    subdirectories: u32,
    /// Names of directories of other servers, whose inodes are not here.
    #[serde(skip)]
    elsewhere: Names,
    #[serde(skip)]
    order: BTreeMap<u64, Arc<[u8]>>,
    #[serde(skip)]
    entries: HashMap<Arc<[u8]>, Entry>,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    pub(crate) cookie: u64,
}

impl Inode {
    /// A new inode with one name.
    pub(crate) fn new(birth: &Birth, place: (Ino, &[u8]), start: u32, at: Moment) -> Inode {
        let node = match &birth.node {
            BirthNode::Regular { layout, asked } => Node::Regular(RegularFile {
                size_bytes: 0,
                allocated_bytes: 0,
                epoch: 0,
                layout: layout.clone(),
                asked: asked.clone(),
                layout_epoch: 0,
                former: Box::default(),
                untouched_start: start,
                linkable: false,
                has_holes: false,
                awaited_bytes: 0,
                moving_objects: 0,
                placement: Box::default(),
            }),
            BirthNode::Directory { request } => {
                Node::Directory(Box::new(Directory::new(place.0, place.1, request.clone())))
            }
            BirthNode::Symlink { target } => Node::Symlink(target.as_slice().into()),
            BirthNode::Special { kind, device } => Node::Special { kind: *kind, device: *device },
        };
        Inode {
            node,
            permissions: birth.permissions,
            names: 1,
            uid: birth.uid,
            gid: birth.gid,
            accessed: at,
            modified: at,
            changed: at,
            created: at,
            xattrs: None,
            version: 0,
            holders: Holders::default(),
        }
    }

    /// A copy without the entries of a directory. The journal keeps entries one by one, so that no record grows with a directory.
    pub(crate) fn without_entries(&self) -> Inode {
        let node = match &self.node {
            Node::Directory(directory) => Node::Directory(Box::new(directory.without_entries())),
            other => other.clone(),
        };
        Inode { node, xattrs: self.xattrs.clone(), holders: Holders::default(), ..*self }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match &self.node {
            Node::Regular(_) => FileKind::Regular,
            Node::Directory(_) => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Special { kind, .. } => *kind,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        match &self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(crate) fn regular(&self) -> Option<&RegularFile> {
        match &self.node {
            Node::Regular(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn regular_mut(&mut self) -> Option<&mut RegularFile> {
        match &mut self.node {
            Node::Regular(file) => Some(file),
            _ => None,
        }
    }

    /// Hard links, as `st_nlink` counts them.
    pub(crate) fn links(&self) -> u32 {
        match &self.node {
            Node::Directory(directory) if self.names > 0 => directory.subdirectories.saturating_add(2),
            _ => self.names,
        }
    }

    /// The attributes as a server knows them that is not the home. The home answers [`super::inodes::Inodes::attributes`].
    pub(crate) fn attributes(&self, ino: Ino) -> Attributes {
        let (size_bytes, allocated_bytes, epoch, layout_epoch) = match &self.node {
            Node::Regular(file) => (file.size_bytes, file.allocated_bytes, file.epoch, file.layout_epoch),
            Node::Symlink(target) => (target.len() as u64, 0, 0, 0),
            Node::Directory(directory) => (directory.len() as u64, 0, 0, 0),
            Node::Special { .. } => (0, 0, 0, 0),
        };
        Attributes {
            ino,
            kind: self.kind(),
            permissions: self.permissions,
            links: self.links(),
            uid: self.uid,
            gid: self.gid,
            device: if let Node::Special { device, .. } = self.node { device } else { 0 },
            size_bytes,
            allocated_bytes,
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: self.created,
            epoch,
            layout_epoch,
            version: 0,
        }
    }
}

impl Names {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u32;
    }

    fn remove(&mut self, bytes: usize) {
        // A damaged tree may take away more than it gave, until the sums are made anew.
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u32);
    }
}

impl Xattrs {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Vec<u8>> {
        self.values.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.values.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of all names.
    pub(crate) fn names_bytes(&self) -> u64 {
        self.names_bytes
    }

    /// Bytes of all values.
    pub(crate) fn values_bytes(&self) -> u64 {
        self.values_bytes
    }

    /// Sets an attribute, or removes it if there is no value.
    pub(crate) fn set(&mut self, name: &[u8], value: Option<&[u8]>) {
        let before = match value {
            Some(value) => {
                self.names_bytes += name.len() as u64;
                self.values_bytes += value.len() as u64;
                self.values.insert(name.to_vec(), value.to_vec())
            }
            None => self.values.remove(name),
        };
        if let Some(before) = before {
            self.names_bytes -= name.len() as u64;
            self.values_bytes -= before.len() as u64;
        }
    }
}

impl Holders {
    /// Notes a name of so many bytes in a directory.
    pub(crate) fn add(&mut self, directory: Ino, name_bytes: usize) {
        self.names.add(name_bytes);
        match self.first {
            None => self.first = Some(directory),
            Some(_) => self.more.get_or_insert_default().push(directory),
        }
    }

    /// Forgets a name of so many bytes in a directory.
    pub(crate) fn remove(&mut self, directory: Ino, name_bytes: usize) {
        let others = self.more.as_mut();
        let place = others.as_ref().and_then(|others| others.iter().position(|&other| other == directory));
        match place {
            _ if self.first == Some(directory) => self.first = others.and_then(|others| others.pop()),
            Some(place) => _ = others.map(|others| others.swap_remove(place)),
            // A replay may remove a name of which the snapshot has not told yet.
            None => return,
        }
        self.names.remove(name_bytes);
        if self.more.as_ref().is_some_and(|others| others.is_empty()) {
            self.more = None;
        }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::from(self.first.is_some()) + self.more.as_ref().map_or(0, |others| others.len() as u32)
    }

    /// The number and bytes of the names.
    pub(crate) fn names(&self) -> Names {
        self.names
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ino> + '_ {
        self.first.into_iter().chain(self.more.iter().flat_map(|others| others.iter().copied()))
    }
}

impl Directory {
    pub(crate) fn new(parent: Ino, name: &[u8], request: LayoutRequest) -> Directory {
        Directory { parent, name: name.into(), request, ..Directory::default() }
    }

    fn without_entries(&self) -> Directory {
        Directory {
            name: self.name.clone(),
            request: self.request.clone(),
            subdirectories: 0,
            elsewhere: Names::default(),
            order: BTreeMap::new(),
            entries: HashMap::new(),
            ..*self
        }
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Entry> {
        self.entries.get(name).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries after `cookie`, in the order of their cookies.
    pub(crate) fn after(&self, cookie: u64) -> impl Iterator<Item = (&[u8], Entry)> {
        self.order
            .range((Bound::Excluded(cookie), Bound::Unbounded))
            .filter_map(|(_, name)| self.entries.get(name).map(|entry| (&**name, *entry)))
    }

    /// The entries of a listing that has come to `cookie`, the newest names first. A new name has a higher cookie than all others,
    /// so it comes before every listing under way, and a listing ends whatever is made or renamed meanwhile.
    pub(crate) fn listed_from(&self, cookie: u64) -> impl Iterator<Item = (&[u8], Entry)> {
        let end = if cookie > COOKIE_DOT_DOT { cookie } else { u64::MAX };
        let listed = self.order.range(..end).rev();
        #[cfg(any(test, feature = "world"))]
        let listed = {
            let has_gone = end < u64::MAX && !self.order.contains_key(&end);
            listed.skip(usize::from(has_gone && mutants::is(Mutant::PlacesCounted)))
        };
        listed.filter_map(|(_, name)| self.entries.get(name).map(|entry| (&**name, *entry)))
    }

    /// The cookie of the next new name.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.next_cookie.max(COOKIE_DOT_DOT + 1)
    }

    /// Names of directories of other servers.
    pub(crate) fn elsewhere(&self) -> Names {
        self.elsewhere
    }

    /// Adds an entry under its cookie; `is_elsewhere` says that its inode is on another server. Only [`super::inodes::Inodes`]
    /// calls this and [`Directory::remove`], so that a snapshot misses no entry.
    pub(crate) fn put(&mut self, name: &[u8], entry: Entry, is_elsewhere: bool) {
        let name: Arc<[u8]> = name.into();
        self.next_cookie = self.next_cookie.max(entry.cookie + 1);
        if is_elsewhere {
            self.elsewhere.add(name.len());
        }
        self.order.insert(entry.cookie, Arc::clone(&name));
        self.subdirectories += u32::from(entry.kind == FileKind::Directory);
        self.entries.insert(name, entry);
    }

    /// Removes an entry; `is_elsewhere` is as it was put.
    pub(crate) fn remove(&mut self, name: &[u8], is_elsewhere: bool) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.order.remove(&entry.cookie);
        if is_elsewhere {
            self.elsewhere.remove(name.len());
        }
        self.subdirectories -= u32::from(entry.kind == FileKind::Directory);
        Some(entry)
    }
}

/// The allocated bytes of a file of `size_bytes` without holes: whole pages.
pub(crate) fn allocation_of(size_bytes: u64) -> u64 {
    size_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(size_bytes)
}
