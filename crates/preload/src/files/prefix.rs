//! Descriptors without a mount: placeholders stand among those of the host.

use crate::files::{promotion, table};
use crate::host::guard::{self, attempt, Outcome};
use crate::store::session::{self, Mode};
use libc::c_int;

/// Whether `descriptor` may be a placeholder: a few instructions.
pub(crate) fn may_hold(descriptor: c_int) -> bool {
    descriptor >= 0
        && session::mode() == Mode::Prefix
        && !table::is_foreign(descriptor)
        && !guard::is_inside()
}

/// Whether any descriptor may be a placeholder.
pub(crate) fn is_in_use() -> bool {
    session::mode() == Mode::Prefix && !guard::is_inside()
}

/// Whether `descriptor` is a placeholder that was opened with `O_PATH`.
pub(crate) fn is_place(descriptor: c_int) -> bool {
    let is_place = || Some(Ok(promotion::discovered(descriptor)?.placeholder()?.is_path_only()));
    may_hold(descriptor) && attempt(is_place) == Some(Ok(true))
}

/// Whether `descriptor` is a placeholder.
pub(crate) fn holds(descriptor: c_int) -> bool {
    may_hold(descriptor)
        && attempt(|| Some(Ok(promotion::discovered(descriptor).is_some()))) == Some(Ok(true))
}

/// Whether `descriptor` is a placeholder of a regular file.
pub(crate) fn is_file(descriptor: c_int) -> bool {
    let is_file = || Some(Ok(promotion::discovered(descriptor)?.placeholder()?.is_file()));
    may_hold(descriptor) && attempt(is_file) == Some(Ok(true))
}

/// Refuses a call on a placeholder that no client can do, with `number`, so that programs go another way.
pub(crate) fn refuse_either(first: c_int, second: c_int, number: c_int) -> Outcome<()> {
    let held = promotion::discovered(first).is_some() || promotion::discovered(second).is_some();
    held.then_some(Err(number))
}
