//! Stand-ins: the numbers of files that the client opened, and the kernel did not.
//!
//! With a mount, a file of the store that one process opens and closes needs no kernel. Its number is a duplicate of one
//! `O_PATH` descriptor, which costs one system call. The kernel opens the file once it has to do a call on the number, and
//! before any other process may get the number ([`crate::files::description::Description::settle`]). A stand-in never
//! leaves its process.

use crate::files::table;
use crate::files::tree;
pub(crate) use crate::files::unopened::{
    are_allowed, are_any, child_begins, child_was_made, reset_in_child, stop, Locked, Unopened,
};
use crate::host::kernel;
use libc::c_int;

/// Whether `descriptor` is a stand-in.
pub(crate) fn hold(descriptor: c_int) -> bool {
    are_any()
        && match table::look_up(descriptor) {
            table::Entry::Known(description) => description.is_stand_in(),
            _ => false,
        }
}

/// The stand-in that a path in `/proc` or `/dev` names.
pub(crate) fn named(path: &[u8]) -> Option<c_int> {
    if !are_any() {
        return None;
    }
    let own = format!("/proc/{}/fd/", kernel::process_id());
    let number = match path.strip_prefix(own.as_bytes()) {
        Some(number) => std::str::from_utf8(number).ok()?.parse().ok()?,
        None => tree::descriptor_named(path)?,
    };
    hold(number).then_some(number)
}
