//! The intention of a program that looks up a pipe or socket.
//!
//! The kernel opens pipes and sockets without a word to the mount, and without `default_permissions` it checks nothing.
//! With that option each step of each path would cost one more request. But the kernel looks up every name anew, while
//! the program sleeps in the system call that names the file. A call that opens needs the permissions, and so does an
//! unknown call. A call that only looks needs none.

use libc::{c_int, c_long};

/// Read and write, as in `access(2)`.
pub(crate) const EVERYTHING: u8 = READ | WRITE;
const READ: u8 = 4;
const WRITE: u8 = 2;

/// Paths of 64-bit programs lie above this, but for those in programs that are linked to a fixed place.
const LOW: u64 = 1 << 32;

/// Calls that take a name and open nothing.
const LOOKING: &[c_long] = &[
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_mkdirat,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_truncate,
    libc::SYS_chdir,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_inotify_add_watch,
    libc::SYS_bind,
];

/// Calls of the same kind that newer processors do without.
#[cfg(target_arch = "x86_64")]
const LOOKING_OF_OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mknod,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_readlink,
];
#[cfg(not(target_arch = "x86_64"))]
const LOOKING_OF_OLD: &[c_long] = &[];

/// The permissions that the call in this line of `/proc/PID/syscall` needs on a pipe or socket: number and arguments.
pub(crate) fn wanted(line: &str) -> u8 {
    let mut fields = line.split_ascii_whitespace();
    let Some(number) = fields.next().and_then(|field| field.parse::<c_long>().ok()) else {
        return EVERYTHING;
    };
    let hexadecimal = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
    let arguments: Vec<u64> = fields.map_while(hexadecimal).collect();
    if LOOKING.contains(&number) || LOOKING_OF_OLD.contains(&number) {
        return 0;
    }
    let argument = |index: usize| arguments.get(index).copied();
    match number {
        libc::SYS_openat => argument(2).map_or(EVERYTHING, of_flags),
        libc::SYS_connect | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => WRITE,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => argument(1).map_or(EVERYTHING, of_flags),
        // A 32-bit call of this number is mount(2), which makes a second way to the file that is not looked up.
        #[cfg(target_arch = "x86_64")]
        libc::SYS_access if argument(0).is_some_and(|path| path >= LOW) => 0,
        _ => EVERYTHING,
    }
}

/// A descriptor of `O_PATH` can be opened again by its name in `/proc`, without another look-up.
fn of_flags(flags: u64) -> u8 {
    let flags = flags as c_int;
    if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        return 0;
    }
    if flags & libc::O_PATH != 0 {
        return EVERYTHING;
    }
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => READ,
        libc::O_WRONLY => WRITE,
        _ => EVERYTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: c_long, arguments: [u64; 6]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|argument| format!("{argument:#x}")).collect();
        format!("{number} {} 0x7ffd3a4b0000 0x7f1e2c3d0000\n", arguments.join(" "))
    }

    fn opening(flags: c_int) -> u8 {
        wanted(&line(libc::SYS_openat, [0xffff_ff9c, 0x7f00_0000_0000, flags as u64, 0, 0, 0]))
    }

    #[test]
    fn an_open_needs_its_mode() {
        assert_eq!(opening(libc::O_RDONLY | libc::O_NONBLOCK), READ);
        assert_eq!(opening(libc::O_WRONLY | libc::O_CREAT), WRITE);
        assert_eq!(opening(libc::O_RDWR), EVERYTHING);
        assert_eq!(opening(libc::O_PATH), EVERYTHING);
        assert_eq!(
            opening(libc::O_CREAT | libc::O_EXCL | libc::O_RDWR),
            0,
            "it only finds that the name is taken"
        );
        assert_eq!(wanted(&line(libc::SYS_connect, [3, 0, 0, 0, 0, 0])), WRITE);
    }

    #[test]
    fn who_only_looks_needs_nothing() {
        let path = 0x7f00_0000_0000;
        for number in [libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_unlinkat, libc::SYS_renameat2] {
            assert_eq!(wanted(&line(number, [0xffff_ff9c, path, 0, 0, 0, 0])), 0);
        }
    }

    #[test]
    fn what_is_not_known_needs_everything() {
        for text in ["", "running", "-1 0x7ffd 0x7f1e", "x 0x1", "257", "257 3 4"] {
            assert_eq!(wanted(text), EVERYTHING, "{text:?}");
        }
        for number in [libc::SYS_io_uring_enter, libc::SYS_openat2, libc::SYS_mount, 1 << 30] {
            assert_eq!(wanted(&line(number, [0; 6])), EVERYTHING);
        }
    }
}
