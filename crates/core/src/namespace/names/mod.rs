//! Names: the tree of directories, walked, changed, checked and mended.

pub(super) mod check;
pub(super) mod continuation;
pub(super) mod create;
pub(super) mod listing;
pub(super) mod mend;
pub(super) mod naming;
pub(super) mod passes;
pub(super) mod peers;
pub(super) mod questions;
pub(super) mod remove;
pub(super) mod rename;
pub(super) mod resumption;
pub(super) mod walk;
