//! System calls without libc: safe in signal handlers, never a cancellation point, never a symbol of this library.

use libc::{c_char, c_int, c_long};
use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};

/// Highest error number that the kernel returns, negated, in place of a result.
const ERRNO_MAX: isize = 4095;

/// Makes a system call with six arguments. Answers the kernel's own result, which may be a negative error number.
///
/// # Safety
/// As for the system call `number` with these arguments.
pub(crate) unsafe fn raw(number: c_long, a: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is the kernel's calling convention, which clobbers rcx and r11 only. The caller vouches for the call.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: this is the kernel's calling convention, which clobbers x0 only. The caller vouches for the call.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// The result of a system call, or its error number.
pub(crate) fn checked(result: isize) -> Result<usize, c_int> {
    if (-ERRNO_MAX..0).contains(&result) {
        Err(-result as c_int)
    } else {
        Ok(result as usize)
    }
}

/// `system_call!(SYS_name, a, b…)`: [`raw`] with arguments of any integer or pointer type, as `Result<usize, c_int>`.
macro_rules! system_call {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        let given = [$($argument as usize),*];
        let mut all = [0_usize; 6];
        all[..given.len()].copy_from_slice(&given);
        $crate::host::kernel::checked($crate::host::kernel::raw($number, all))
    }};
}
pub(crate) use system_call;

/// Sets the kernel's file offset.
pub(crate) fn seek(descriptor: c_int, offset: i64, whence: c_int) -> Result<u64, c_int> {
    // SAFETY: no memory is passed.
    unsafe { system_call!(libc::SYS_lseek, descriptor, offset, whence) }.map(|offset| offset as u64)
}

/// `statx(2)`: the attributes of a path below `descriptor`, or of `descriptor` itself for the empty path where `flags` allow
/// it.
pub(crate) fn statx(
    descriptor: c_int,
    path: &std::ffi::CStr,
    flags: c_int,
    mask: u32,
) -> Result<libc::statx, c_int> {
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a zero byte and the answer has the size of the kernel's structure.
    unsafe {
        system_call!(libc::SYS_statx, descriptor, path.as_ptr(), flags, mask, answer.as_mut_ptr())?;
        Ok(answer.assume_init())
    }
}

/// The attributes that the kernel has of `descriptor` (with the empty path) or of a path below it. The file system's server
/// is not asked.
pub(crate) fn identify(descriptor: c_int, path: &std::ffi::CStr, mask: u32) -> Result<libc::statx, c_int> {
    statx(descriptor, path, libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT, mask)
}

/// The inode of `descriptor`. The file system's server is not asked.
pub(crate) fn inode_of(descriptor: c_int) -> Option<u64> {
    identify(descriptor, c"", libc::STATX_INO).ok().map(|found| found.stx_ino)
}

/// Status flags of a descriptor.
pub(crate) fn status_flags(descriptor: c_int) -> Result<c_int, c_int> {
    // SAFETY: no memory is passed.
    unsafe { system_call!(libc::SYS_fcntl, descriptor, libc::F_GETFL) }.map(|flags| flags as c_int)
}

/// The flags of a descriptor (`F_GETFD`), none for one that is not open.
pub(crate) fn descriptor_flags(descriptor: c_int) -> c_int {
    // SAFETY: no memory is passed.
    unsafe { system_call!(libc::SYS_fcntl, descriptor, libc::F_GETFD) }.map_or(0, |flags| flags as c_int)
}

/// Sets the flags of a descriptor (`F_SETFD`).
pub(crate) fn set_descriptor_flags(descriptor: c_int, flags: c_int) {
    // SAFETY: no memory is passed.
    let _ = unsafe { system_call!(libc::SYS_fcntl, descriptor, libc::F_SETFD, flags) };
}

/// Whether this process may execute the file at a path of the host.
pub(crate) fn may_execute(path: &std::ffi::CStr) -> bool {
    // SAFETY: the path ends with a zero byte.
    unsafe { system_call!(libc::SYS_faccessat2, libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) }
        .is_ok()
}

/// Whether a program at a path of the host runs with more rights than its caller, and so without this library.
pub(crate) fn gains_privileges(path: &std::ffi::CStr) -> bool {
    let found = identify(libc::AT_FDCWD, path, libc::STATX_MODE);
    let bits = libc::S_ISUID | libc::S_ISGID;
    found.is_ok_and(|found| libc::mode_t::from(found.stx_mode) & bits != 0)
}

/// Closes a descriptor of the library.
pub(crate) fn close(descriptor: c_int) {
    // SAFETY: no memory is passed. After an error nothing is left to do: Linux has closed the descriptor all the same.
    let _ = unsafe { system_call!(libc::SYS_close, descriptor) };
}

/// Moves a descriptor of the library to `lowest` or above, where there is room. Answers its number. Only a descriptor that goes
/// with an exec may move, because the moved one does.
pub(crate) fn out_of_the_way(low: c_int, lowest: c_int) -> c_int {
    // SAFETY: no memory is passed.
    match unsafe { system_call!(libc::SYS_fcntl, low, libc::F_DUPFD_CLOEXEC, lowest) } {
        Ok(high) => {
            close(low);
            high as c_int
        }
        Err(_) => low,
    }
}

/// The id of this process.
pub(crate) fn process_id() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { raw(libc::SYS_getpid, [0; 6]) as u32 }
}

/// The path of a descriptor, as the kernel tells it.
pub(crate) fn path_of(descriptor: c_int) -> Option<Vec<u8>> {
    let name = format!("/proc/self/fd/{descriptor}\0");
    let mut path = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the name ends with a zero byte and the buffer has this length.
    let length = unsafe {
        system_call!(libc::SYS_readlinkat, libc::AT_FDCWD, name.as_ptr(), path.as_mut_ptr(), path.len())
    };
    path.truncate(length.ok()?);
    Some(path)
}

/// Opens a path for the library's own use, close-on-exec.
///
/// # Safety
/// `path` ends with a zero byte.
pub(crate) unsafe fn open(path: *const c_char, flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: as the caller promises.
    unsafe { system_call!(libc::SYS_openat, libc::AT_FDCWD, path, flags | libc::O_CLOEXEC, 0o600) }
        .map(|descriptor| descriptor as c_int)
}

/// `st_dev` of a `statx` answer.
pub(crate) fn device_of(found: &libc::statx) -> u64 {
    libc::makedev(found.stx_dev_major, found.stx_dev_minor)
}

/// Whether the file behind `descriptor` lies on a file system of this type (`f_type`). The file system's server may be asked.
pub(crate) fn is_on_file_system(descriptor: c_int, kind: i64) -> bool {
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the answer has the size of the kernel's structure.
    let found = unsafe { system_call!(libc::SYS_fstatfs, descriptor, answer.as_mut_ptr()) };
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    found.is_ok() && unsafe { answer.assume_init() }.f_type == kind
}

/// Makes the kernel ask for a file's size, of a file that is mapped or about to be mapped: a file that grew behind the
/// kernel's back would give SIGBUS.
pub(crate) fn refresh_size(descriptor: c_int) {
    // A failure leaves the size that the kernel knows.
    let _ = statx(descriptor, c"", libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC, libc::STATX_SIZE);
}

/// Has the kernel write the dirty pages of a file, and waits for that. The file's server is not asked to keep them.
pub(crate) fn write_pages(descriptor: c_int) {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory is passed. A failed write is told by the next `fsync`.
    let _ = unsafe { system_call!(libc::SYS_sync_file_range, descriptor, 0, 0, all) };
}

/// Prints words for the user on standard error.
pub(crate) fn say(words: &str) {
    // SAFETY: the words live through the call.
    let _ = unsafe { system_call!(libc::SYS_write, libc::STDERR_FILENO, words.as_ptr(), words.len()) };
}

/// Prints words for the user on standard error, unless `told` says that they were printed.
pub(crate) fn say_once(told: &AtomicBool, words: impl FnOnce() -> String) {
    if !told.swap(true, Ordering::AcqRel) {
        say(&words());
    }
}

/// The path of the working directory.
pub(crate) fn working_directory() -> Option<Vec<u8>> {
    let mut path = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has this length. The answer's length counts the zero byte.
    let length = unsafe { system_call!(libc::SYS_getcwd, path.as_mut_ptr(), path.len()) }.ok()?;
    path.truncate(length.checked_sub(1)?);
    Some(path)
}

/// Reads a descriptor to its end, in steps that begin with `first_bytes`. Nothing where the text is longer than `bytes_max`.
pub(crate) fn read_to_end(descriptor: c_int, first_bytes: usize, bytes_max: usize) -> Option<Vec<u8>> {
    let mut text = vec![0; first_bytes];
    let mut filled = 0;
    loop {
        if filled == text.len() {
            if filled >= bytes_max {
                return None;
            }
            text.resize(filled * 2, 0);
        }
        let room = &mut text[filled..];
        // SAFETY: the room has this length.
        let count =
            unsafe { system_call!(libc::SYS_read, descriptor, room.as_mut_ptr(), room.len()) }.ok()?;
        if count == 0 {
            text.truncate(filled);
            return Some(text);
        }
        filled += count;
    }
}
