//! The charge of an inode and the memory that it takes, which follow from the inode alone, and files with holes.
//!
//! A file costs its owner and its group its size in whole pages, or the room that was reserved for it if that is more. Names,
//! extended attributes and the target of a link cost pages, too, beyond those that come with each inode: on a local file system
//! they take blocks. Each inode costs one inode until it is gone, also without a name.
//!
//! The missing objects of a file with holes are no loss. A file without holes was written from front to end, so each of its objects
//! exists and reaches as far as its layout says. The records of its growth tell: a write that begins behind the end of the file
//! allocates less than the file grows by. Such a file counts as one with holes until it is emptied, although later writes may fill
//! them.

use super::inode::{allocation_of, Inode, Names, Node, RegularFile, Xattrs};
use crate::namespace::quotas::estimates::{
    layout_bytes, moved_bytes, name_bytes, request_bytes, ATTRIBUTE_BYTES, INODE_BYTES, NAME_BYTES,
};
use crate::namespace::quotas::Charge;

/// Bytes of names, attributes and link target that come with an inode: a long name and some small attributes, as local file
/// systems keep them in the inode and its directory.
const INCLUDED_BYTES: u64 = 1024;

impl Inode {
    /// The charge of the inode.
    pub(crate) fn charge(&self) -> Charge {
        let Inode { uid, gid, .. } = *self;
        Charge { uid, gid, bytes: self.charged_bytes(), kept_bytes: self.kept_bytes() }
    }

    /// The bytes that the owners pay for. A file that is about to grow costs its new size from the decision on, so that nobody else
    /// is given the same room.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.data_bytes() + charged_description(self.described_bytes())
    }

    /// The bytes that the owners pay for a file's content.
    pub(crate) fn data_bytes(&self) -> u64 {
        match &self.node {
            Node::Regular(file) => {
                allocation_of(file.size_bytes).max(file.allocated_bytes).max(file.awaited_bytes)
            }
            _ => 0,
        }
    }

    /// Memory of the inode with everything that it carries, its names included.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let carried = match &self.node {
            Node::Regular(file) => {
                let listed = (file.former.len() * size_of::<u32>() + file.placement.len()) as u64;
                let asked = request_bytes(file.asked.as_deref());
                layout_bytes(&file.layout) + asked + listed + moved_bytes(file.moving_objects as usize)
            }
            Node::Directory(directory) => request_bytes(directory.request.layout.as_ref()),
            Node::Symlink(_) | Node::Special { .. } => 0,
        };
        INODE_BYTES + carried + self.described_bytes()
    }

    /// Memory of names, extended attributes and the target of a link.
    pub(crate) fn described_bytes(&self) -> u64 {
        let described = match &self.node {
            // A directory has one name. The names of directories of other servers count for the directory with their entries.
            Node::Directory(directory) => {
                name_bytes(directory.name.len()) + names_bytes(directory.elsewhere())
            }
            Node::Symlink(target) => target.len() as u64,
            Node::Regular(_) | Node::Special { .. } => 0,
        };
        described + names_bytes(self.holders.names()) + self.xattrs.as_deref().map_or(0, xattrs_bytes)
    }
}

/// The bytes that the owners pay for names, attributes and a link target of these lengths.
pub(crate) fn charged_description(described_bytes: u64) -> u64 {
    allocation_of(described_bytes.saturating_sub(INCLUDED_BYTES))
}

impl RegularFile {
    /// Size and allocated bytes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        (self.size_bytes, self.allocated_bytes)
    }

    /// Notes whether the file has holes from now on; `before` is its extent before a change. Room that was reserved behind the end
    /// says nothing of the bytes that the file grows by: it may begin anywhere, and a cut may have freed it.
    pub(crate) fn note_holes(&mut self, before: (u64, u64)) {
        let ((size, allocated), (size_before, allocated_before)) = (self.extent(), before);
        let growth = size.saturating_sub(size_before);
        let without_holes = allocated_before.saturating_add(growth).min(allocation_of(size));
        let was_reserved = allocated_before > allocation_of(size_before);
        self.has_holes =
            size > 0 && (self.has_holes || (growth > 0 && (was_reserved || allocated < without_holes)));
    }
}

fn names_bytes(names: Names) -> u64 {
    u64::from(names.count) * NAME_BYTES + u64::from(names.bytes)
}

fn xattrs_bytes(xattrs: &Xattrs) -> u64 {
    xattrs.len() as u64 * ATTRIBUTE_BYTES + xattrs.names_bytes() + xattrs.values_bytes()
}
