//! Questions to the mount about an open file, by `ioctl`.

use crate::host::file_size;
use crate::host::kernel::{self, system_call};
use crate::store::session;
use libc::c_int;
use std::ffi::CString;
use weir_client::wire::Capability;
use weir_client::{File, HandleState, HANDLE_STATE_BYTES};

/// `_IOR('W', 1, [u8; 4096])`: the mount's state of an open regular file.
const WEIR_IOC_HANDLE: u64 = (2 << 30) | (4096 << 16) | ((b'W' as u64) << 8) | 1;
const ANSWER_BYTES: usize = 4096;
/// `_IO('W', 2)`: the program is about to map pages of the file.
const WEIR_IOC_MAP: u64 = ((b'W' as u64) << 8) | 2;

/// Asks the mount for the handle of an open file.
pub(crate) fn promote(descriptor: c_int) -> Option<File> {
    let store = session::store()?;
    // The kernel enforces `ulimit -f`, with the signal.
    if file_size::limit().is_some() {
        return None;
    }
    let mut answer = [0_u8; ANSWER_BYTES];
    // SAFETY: the request's size is the buffer's.
    unsafe { system_call!(libc::SYS_ioctl, descriptor, WEIR_IOC_HANDLE, answer.as_mut_ptr()) }.ok()?;
    let length = usize::from(u16::from_le_bytes([answer[0], answer[1]]));
    if length > HANDLE_STATE_BYTES {
        return None;
    }
    let state = HandleState::decode(&answer[2..2 + length]).ok()?;
    Some(File::from_state(store, state))
}

/// Has the mount take over a description that this client opened, and the kernel open it. A file without a name, or with rights that
/// its path no longer gives, is opened so.
///
/// # Errors
/// EACCES for the description of another user or with fewer rights, ESTALE for one that is gone.
pub(crate) fn claim(capability: &Capability, flags: c_int) -> Result<c_int, c_int> {
    let mut path = session::root().to_vec();
    path.push(b'/');
    path.append(&mut capability.claim_name());
    let path = CString::new(path).map_err(|_| libc::EINVAL)?;
    // SAFETY: the path ends with a zero byte.
    let opened = unsafe { kernel::open(path.as_ptr(), flags | libc::O_CREAT) }?;
    // Somebody may have made a file of this name.
    if kernel::inode_of(opened) != Some(capability.ino.0) {
        kernel::close(opened);
        return Err(libc::ESTALE);
    }
    Ok(opened)
}

/// Tells the mount that pages of an open file are about to be mapped. The servers then refuse writes beside the mount, also
/// before the first touch of a page. A mount that gets no such call learns of the mapping from the first page.
pub(crate) fn announce_pages(descriptor: c_int) {
    // SAFETY: no memory is passed.
    let _ = unsafe { system_call!(libc::SYS_ioctl, descriptor, WEIR_IOC_MAP, 0) };
}
