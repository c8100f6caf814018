//! Files: inodes with their attributes and bytes, and their open descriptions.

pub(super) mod accounting;
pub(super) mod admission;
pub(super) mod attributes;
pub(super) mod detour;
pub(super) mod freeing;
pub(super) mod inode;
pub(super) mod inodes;
pub(super) mod inventory;
pub(super) mod layout;
pub(crate) mod leases;
pub(super) mod open;
pub(super) mod paid;
pub(super) mod permission;
pub(super) mod publish;
pub(super) mod recount;
pub(super) mod released;
pub(super) mod unpublished;
pub(super) mod xattr;
