//! Estimates of the memory that kept things take: no less than they really take (`crates/server/tests/kept_memory.rs`).

use weir_placement::{ComponentSpecification, Layout, LayoutSpecification, Stripes};

/// An inode with its places in the tables, without its names and what it carries.
pub(crate) const INODE_BYTES: u64 = 640;
/// A name with its entry, without its text.
pub(crate) const NAME_BYTES: u64 = 192;
/// An extended attribute without its name and value.
pub(crate) const ATTRIBUTE_BYTES: u64 = 128;
/// An intent with its places in the tables, without what it carries.
pub(crate) const INTENT_BYTES: u64 = 320;
/// An object in an intent.
pub(crate) const INTENT_OBJECT_BYTES: u64 = 24;
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

/// Memory of a name of this length, with its entry.
pub(crate) fn name_bytes(length: usize) -> u64 {
    NAME_BYTES + length as u64
}

/// Memory of an extended attribute.
pub(crate) fn attribute_bytes(name_length: usize, value_length: usize) -> u64 {
    ATTRIBUTE_BYTES + (name_length + value_length) as u64
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

/// The memory that a move of a number of objects takes.
pub(crate) fn moved_bytes(objects: usize) -> u64 {
    objects as u64 * MOVED_OBJECT_BYTES
}
