//! The versions of the container, by what they brought.

/// The version that this program writes.
pub const VERSION: u16 = 7;
/// The oldest version that this program reads.
pub(crate) const VERSION_OLDEST: u16 = 3;
/// Since this version most of the header is spelled shortly, blocks grow, and the transform is told.
pub(crate) const VERSION_SHORT: u16 = 5;
/// Since this version fields that follow from others take few bytes, and measured errors fall by factors.
pub(crate) const VERSION_BRIEF: u16 = 6;
/// Since this version fill values are listed.
pub(crate) const VERSION_FILLS: u16 = 7;
