//! `syscall(2)`: system calls that programs make by number, and the calls to which they lead.

use crate::calls::attributes::{self, Subject};
use crate::calls::{
    asynchronous, changes, close, control, current_directory, data, directories, duplicate, exec,
    identity_changes, inotify, locks, mmap, names, open, openat2, process, seek, space, stat, statistics,
    transfers,
};
use crate::files::sharing;
use crate::host::guard::{self, returned};
use crate::host::{file_size, kernel, real};
use libc::{c_int, c_long};

/// Does the system call of this number.
pub(crate) unsafe fn dispatch(number: c_long, a: [usize; 6]) -> c_long {
    if !process::is_followed() || guard::is_inside() {
        // SAFETY: the program's own promises, here and below.
        return unsafe { real::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    }
    // SAFETY: see above; the arguments have the types of the system calls' manual pages.
    unsafe {
        on_descriptors(number, &a)
            .or_else(|| on_paths(number, &a))
            .or_else(|| on_processes(number, &a))
            .unwrap_or_else(|| {
                match number {
                    libc::SYS_io_setup | libc::SYS_io_uring_setup => asynchronous::leave_opens_to_kernel(),
                    // Most system calls on a descriptor have it in front.
                    _ => sharing::settle_stand_in(int(a[0])),
                }
                real::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5])
            })
    }
}

/// One argument as an integer of a call.
fn int(word: usize) -> c_int {
    word as c_int
}

/// One argument as a pointer of a call.
fn at<T>(word: usize) -> *mut T {
    word as *mut T
}

unsafe fn on_descriptors(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    let d = int(a[0]);
    // SAFETY: see `dispatch`.
    unsafe {
        Some(match number {
            libc::SYS_read => data::read(d, at(a[1]), a[2]) as c_long,
            libc::SYS_write => data::write(d, at(a[1]), a[2]) as c_long,
            libc::SYS_pread64 => data::pread(d, at(a[1]), a[2], a[3] as i64) as c_long,
            libc::SYS_pwrite64 => data::pwrite(d, at(a[1]), a[2], a[3] as i64) as c_long,
            libc::SYS_readv => data::readv(d, at(a[1]), int(a[2])) as c_long,
            libc::SYS_writev => data::writev(d, at(a[1]), int(a[2])) as c_long,
            libc::SYS_preadv => data::preadv(d, at(a[1]), int(a[2]), a[3] as i64) as c_long,
            libc::SYS_pwritev => data::pwritev(d, at(a[1]), int(a[2]), a[3] as i64) as c_long,
            libc::SYS_preadv2 => data::preadv2(d, at(a[1]), int(a[2]), a[3] as i64, int(a[5])) as c_long,
            libc::SYS_pwritev2 => data::pwritev2(d, at(a[1]), int(a[2]), a[3] as i64, int(a[5])) as c_long,
            libc::SYS_lseek => seek::lseek(d, a[1] as i64, int(a[2])),
            libc::SYS_close => close::close(d).into(),
            libc::SYS_close_range => close::close_range(a[0] as u32, a[1] as u32, a[2] as u32).into(),
            libc::SYS_dup => duplicate::dup(d).into(),
            libc::SYS_dup3 => duplicate::dup3(d, int(a[1]), int(a[2])).into(),
            libc::SYS_fcntl => duplicate::fcntl(d, int(a[1]), a[2] as c_long).into(),
            libc::SYS_fsync => space::fsync(d, false).into(),
            libc::SYS_fdatasync => space::fsync(d, true).into(),
            libc::SYS_flock => locks::flock(d, int(a[1])).into(),
            libc::SYS_ftruncate => changes::ftruncate(d, a[1] as i64).into(),
            libc::SYS_fallocate => space::fallocate(d, int(a[1]), a[2] as i64, a[3] as i64).into(),
            libc::SYS_fchmod => changes::fchmod(d, a[1] as u32).into(),
            libc::SYS_fchown => changes::fchown(d, a[1] as u32, a[2] as u32).into(),
            libc::SYS_fstat => stat::fstat(d, at(a[1])).into(),
            libc::SYS_fstatfs => statistics::fstatfs(d, at(a[1])).into(),
            libc::SYS_getdents64 => directories::getdents64(d, at(a[1]), a[2]) as c_long,
            libc::SYS_copy_file_range => {
                transfers::copy_file_range(d, at(a[1]), int(a[2]), at(a[3]), a[4], a[5] as u32) as c_long
            }
            libc::SYS_sendfile => transfers::sendfile(d, int(a[1]), at(a[2]), a[3]) as c_long,
            libc::SYS_splice => {
                transfers::splice(d, at(a[1]), int(a[2]), at(a[3]), a[4], a[5] as u32) as c_long
            }
            libc::SYS_fgetxattr => {
                attributes::get_attribute(Subject::Descriptor(d), at(a[1]), at(a[2]), a[3]) as c_long
            }
            libc::SYS_fsetxattr => {
                attributes::set_attribute(Subject::Descriptor(d), at(a[1]), at(a[2]), a[3], int(a[4])).into()
            }
            libc::SYS_ioctl => control::ioctl(d, a[1] as libc::c_ulong, at(a[2])).into(),
            libc::SYS_mmap => {
                mmap::mmap(at(a[0]), a[1], int(a[2]), int(a[3]), int(a[4]), a[5] as i64) as c_long
            }
            libc::SYS_munmap => mmap::munmap(at(a[0]), a[1]).into(),
            libc::SYS_mremap => mmap::mremap(at(a[0]), a[1], a[2], int(a[3]), at(a[4])) as c_long,
            _ => return other_on_descriptors(number, a),
        })
    }
}

/// System calls that newer machines lack.
#[cfg(target_arch = "x86_64")]
unsafe fn other_on_descriptors(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    // SAFETY: see `dispatch`.
    (number == libc::SYS_dup2).then(|| unsafe { duplicate::dup2(int(a[0]), int(a[1])) }.into())
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn other_on_descriptors(_number: c_long, _a: &[usize; 6]) -> Option<c_long> {
    None
}

unsafe fn on_paths(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    let directory = int(a[0]);
    // SAFETY: see `dispatch`.
    unsafe {
        Some(match number {
            libc::SYS_openat => open::openat(directory, at(a[1]), int(a[2]), a[3] as u32).into(),
            libc::SYS_openat2 => openat2::open_how(directory, at(a[1]), at(a[2]), a[3])?.into(),
            libc::SYS_newfstatat => stat::fstatat(directory, at(a[1]), at(a[2]), int(a[3])).into(),
            libc::SYS_statx => stat::statx(directory, at(a[1]), int(a[2]), a[3] as u32, at(a[4])).into(),
            libc::SYS_faccessat => stat::faccessat(directory, at(a[1]), int(a[2]), 0).into(),
            libc::SYS_faccessat2 => stat::faccessat(directory, at(a[1]), int(a[2]), int(a[3])).into(),
            libc::SYS_statfs => statistics::statfs(at(a[0]), at(a[1])).into(),
            libc::SYS_mkdirat => names::mkdirat(directory, at(a[1]), a[2] as u32).into(),
            libc::SYS_mknodat => names::mknodat(directory, at(a[1]), a[2] as u32, a[3] as u64).into(),
            libc::SYS_unlinkat => names::unlinkat(directory, at(a[1]), int(a[2])).into(),
            libc::SYS_renameat2 => {
                names::renameat2(directory, at(a[1]), int(a[2]), at(a[3]), a[4] as u32).into()
            }
            libc::SYS_linkat => names::linkat(directory, at(a[1]), int(a[2]), at(a[3]), int(a[4])).into(),
            libc::SYS_symlinkat => names::symlinkat(at(a[0]), int(a[1]), at(a[2])).into(),
            libc::SYS_readlinkat => names::readlinkat(directory, at(a[1]), at(a[2]), a[3]) as c_long,
            libc::SYS_fchmodat => changes::fchmodat(directory, at(a[1]), a[2] as u32, 0).into(),
            libc::SYS_fchmodat2 => changes::fchmodat2(directory, at(a[1]), a[2] as u32, int(a[3])).into(),
            libc::SYS_fchownat => {
                changes::fchownat(directory, at(a[1]), a[2] as u32, a[3] as u32, int(a[4])).into()
            }
            libc::SYS_utimensat => changes::utimensat(directory, at(a[1]), at(a[2]), int(a[3])).into(),
            libc::SYS_truncate => changes::truncate(at(a[0]), a[1] as i64).into(),
            libc::SYS_getxattr => {
                attributes::get_attribute(Subject::Path(at(a[0])), at(a[1]), at(a[2]), a[3]) as c_long
            }
            libc::SYS_setxattr => {
                let subject = Subject::Path(at(a[0]));
                attributes::set_attribute(subject, at(a[1]), at(a[2]), a[3], int(a[4])).into()
            }
            libc::SYS_inotify_add_watch => inotify::add(directory, at(a[1]), a[2] as u32).into(),
            libc::SYS_umask => names::umask(a[0] as u32).into(),
            libc::SYS_chdir => current_directory::chdir(at(a[0])).into(),
            libc::SYS_fchdir => current_directory::fchdir(directory).into(),
            libc::SYS_getcwd => current_directory::kernel_answer(at(a[0]), a[1]) as c_long,
            _ => return old_on_paths(number, a),
        })
    }
}

/// System calls without a directory, which newer machines lack.
#[cfg(target_arch = "x86_64")]
unsafe fn old_on_paths(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    use libc::AT_FDCWD;
    // SAFETY: see `dispatch`.
    unsafe {
        Some(match number {
            libc::SYS_open => open::open(at(a[0]), int(a[1]), a[2] as u32).into(),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                open::open(at(a[0]), flags, a[1] as u32).into()
            }
            libc::SYS_stat => stat::stat(at(a[0]), at(a[1])).into(),
            libc::SYS_lstat => stat::lstat(at(a[0]), at(a[1])).into(),
            libc::SYS_access => stat::faccessat(AT_FDCWD, at(a[0]), int(a[1]), 0).into(),
            libc::SYS_mkdir => names::mkdirat(AT_FDCWD, at(a[0]), a[1] as u32).into(),
            libc::SYS_mknod => names::mknodat(AT_FDCWD, at(a[0]), a[1] as u32, a[2] as u64).into(),
            libc::SYS_unlink => names::unlinkat(AT_FDCWD, at(a[0]), 0).into(),
            libc::SYS_rmdir => names::unlinkat(AT_FDCWD, at(a[0]), libc::AT_REMOVEDIR).into(),
            libc::SYS_rename => names::renameat2(AT_FDCWD, at(a[0]), AT_FDCWD, at(a[1]), 0).into(),
            libc::SYS_renameat => names::renameat2(int(a[0]), at(a[1]), int(a[2]), at(a[3]), 0).into(),
            libc::SYS_link => names::linkat(AT_FDCWD, at(a[0]), AT_FDCWD, at(a[1]), 0).into(),
            libc::SYS_symlink => names::symlinkat(at(a[0]), AT_FDCWD, at(a[1])).into(),
            libc::SYS_readlink => names::readlinkat(AT_FDCWD, at(a[0]), at(a[1]), a[2]) as c_long,
            libc::SYS_chmod => changes::fchmodat(AT_FDCWD, at(a[0]), a[1] as u32, 0).into(),
            libc::SYS_chown => changes::fchownat(AT_FDCWD, at(a[0]), a[1] as u32, a[2] as u32, 0).into(),
            libc::SYS_utimes => changes::utimes_at(AT_FDCWD, at(a[0]), at(a[1]), 0).into(),
            _ => return None,
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn old_on_paths(_number: c_long, _a: &[usize; 6]) -> Option<c_long> {
    None
}

unsafe fn on_processes(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    // SAFETY: see `dispatch`.
    unsafe {
        Some(match number {
            libc::SYS_execve => exec::execve(at(a[0]), at(a[1]), at(a[2])).into(),
            libc::SYS_execveat => exec::execveat(int(a[0]), at(a[1]), at(a[2]), at(a[3]), int(a[4])).into(),
            libc::SYS_exit_group => process::exit_now(int(a[0])),
            libc::SYS_unshare | libc::SYS_setns | libc::SYS_chroot => {
                process::around_view(|| returned(kernel::raw(number, *a))).into()
            }
            libc::SYS_setuid
            | libc::SYS_setresuid
            | libc::SYS_setreuid
            | libc::SYS_setgid
            | libc::SYS_setresgid
            | libc::SYS_setregid
            | libc::SYS_setgroups => {
                // The numbers change one thread only. The other threads keep the credential's identity, but no file
                // tells which thread calls.
                identity_changes::around_groups(|| returned(kernel::raw(number, *a))).into()
            }
            libc::SYS_setfsuid | libc::SYS_setfsgid => {
                identity_changes::set_file_system_identity(number, a[0] as u32).into()
            }
            libc::SYS_prlimit64 => {
                let result = real::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
                file_size::forget();
                result
            }
            libc::SYS_clone => process::raw_clone(*a),
            _ => return old_on_processes(number),
        })
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn old_on_processes(number: c_long) -> Option<c_long> {
    match number {
        // A vfork by number cannot be followed, because it returns twice: a fork keeps its promises.
        libc::SYS_fork | libc::SYS_vfork => {
            // SAFETY: see `dispatch`.
            Some(unsafe { process::raw_clone([libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) })
        }
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn old_on_processes(_number: c_long) -> Option<c_long> {
    None
}
