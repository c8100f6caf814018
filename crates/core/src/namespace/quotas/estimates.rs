//! Estimates of the memory that kept things take: no less than they really take (`crates/server/tests/kept_memory.rs`).

use crate::namespace::files::inode::{Inode, Names, Node, Xattrs};
use crate::namespace::intents::intent::Intent;
use weir_placement::{ComponentSpecification, Layout, LayoutSpecification, Stripes};

/// An inode with its places in the tables, without its names and what it carries.
pub(crate) const INODE_BYTES: u64 = 640;
/// A name with its entry, without its text.
pub(crate) const NAME_BYTES: u64 = 192;
/// An extended attribute without its name and value.
const ATTRIBUTE_BYTES: u64 = 128;
/// An intent with its places in the tables, without what it carries.
pub(crate) const INTENT_BYTES: u64 = 320;
/// An object in an intent.
const INTENT_OBJECT_BYTES: u64 = 24;
/// An object of a move.
const MOVED_OBJECT_BYTES: u64 = 64;
/// A target of a layout, which holds it in each of its indexes.
const LAYOUT_TARGET_BYTES: u64 = 48;
/// A component of a layout, or of a request for one.
const LAYOUT_COMPONENT_BYTES: u64 = 256;
/// An open description.
pub(crate) const DESCRIPTION_BYTES: u64 = 300;
/// A remembered reply.
pub(crate) const REPLY_BYTES: u64 = 256;
/// A client, with or without a connection.
pub(crate) const SESSION_BYTES: u64 = 1024;
/// A client that was released and may not know it.
pub(crate) const RELEASED_BYTES: u64 = 64;

impl Inode {
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

impl Intent {
    /// Memory of the intent.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let carried = match self {
            Intent::Cut { objects, .. } | Intent::Fence { objects, .. } | Intent::Seal { objects, .. } => {
                objects.len() as u64 * INTENT_OBJECT_BYTES
            }
            Intent::Remove { targets, .. } => targets.len() as u64 * INTENT_OBJECT_BYTES,
            Intent::MakeDirectory { name, .. }
            | Intent::RemoveDirectory { name, .. }
            | Intent::Reparent { name, .. } => 2 * name.len() as u64,
            Intent::ForgetDirectory { .. } | Intent::Freeze { .. } => 0,
        };
        INTENT_BYTES + carried
    }
}

/// Memory of a name of this length, with its entry.
pub(crate) fn name_bytes(length: usize) -> u64 {
    NAME_BYTES + length as u64
}

fn names_bytes(names: Names) -> u64 {
    u64::from(names.count) * NAME_BYTES + u64::from(names.bytes)
}

/// Memory of an extended attribute.
pub(crate) fn attribute_bytes(name_length: usize, value_length: usize) -> u64 {
    ATTRIBUTE_BYTES + (name_length + value_length) as u64
}

fn xattrs_bytes(xattrs: &Xattrs) -> u64 {
    xattrs.len() as u64 * ATTRIBUTE_BYTES + xattrs.names_bytes() + xattrs.values_bytes()
}

/// Memory of a layout.
pub(crate) fn layout_bytes(layout: &Layout) -> u64 {
    let components = layout.components().len() as u64 * LAYOUT_COMPONENT_BYTES;
    components + layout.targets().len() as u64 * LAYOUT_TARGET_BYTES
}

/// Memory of a request for a layout.
pub(crate) fn request_bytes(request: Option<&LayoutSpecification>) -> u64 {
    let components = request.map_or(&[][..], |request| &request.components);
    let targets = |component: &ComponentSpecification| match &component.stripes {
        Stripes::Targets(targets) => targets.len() as u64 * LAYOUT_TARGET_BYTES,
        Stripes::Default | Stripes::Count(_) | Stripes::All => 0,
    };
    components.iter().map(|component| LAYOUT_COMPONENT_BYTES + targets(component)).sum()
}

/// Memory of a move of so many objects.
pub(crate) fn moved_bytes(objects: usize) -> u64 {
    objects as u64 * MOVED_OBJECT_BYTES
}
