//! Appends through descriptions that the kernel has, too. The place of appended bytes is the one that the servers' reply tells,
//! and the kernel's offset follows the reply. The size that the kernel knows may be older than the file.

use crate::files::description::{Backing, Description};
use crate::files::promotion;
use crate::host::guard::Outcome;
use crate::host::kernel;
use crate::store::session::{self, Mode};
use libc::c_int;

fn appends(descriptor: c_int) -> bool {
    kernel::status_flags(descriptor).is_ok_and(|flags| flags & libc::O_APPEND != 0)
}

/// Appends through a description that may be shared, whose offset is the kernel's. `append` answers the end of the bytes, and
/// their number. `None` where the kernel has to do the write.
///
/// Where two processes append through one description at the same moment, the offset afterwards is the end of either append.
pub(crate) fn append_shared(
    description: &Description,
    descriptor: c_int,
    append: impl FnOnce() -> Outcome<(u64, usize)>,
) -> Outcome<usize> {
    let is_kernels = matches!(description.backing, Backing::Kernel(_));
    if !is_kernels || description.is_the_kernels() {
        return None;
    }
    if !description.appends() {
        return None;
    }
    let appended = append()?;
    if let Ok((end, _)) = appended {
        // The call fails only for a descriptor that is gone: nobody can use the offset then.
        let _ = kernel::seek(descriptor, end as i64, libc::SEEK_SET);
    }
    Some(appended.map(|(_, bytes)| bytes))
}

/// Prepares a write that the kernel does. After an append, the kernel takes the offset from the size that it knows, so the
/// kernel asks for the size first.
pub(crate) fn prepare_kernel(descriptor: c_int) {
    if session::mode() == Mode::Mount && appends(descriptor) && promotion::described(descriptor).is_some() {
        kernel::refresh_size(descriptor);
    }
}
