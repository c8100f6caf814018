//! The exported names that take paths.

use crate::calls::attributes::{self, Subject};
use crate::calls::{
    changes, control, current_directory, directories, inotify, names, process, stat, statistics, walks,
};
use crate::host::{guard, real};
use libc::{
    c_char, c_int, c_long, c_uint, c_void, dev_t, dirent, gid_t, mode_t, off_t, size_t, ssize_t, uid_t,
    AT_FDCWD, DIR,
};

type Text = *const c_char;
type Status = *mut libc::stat;

hooks! {
    [stat stat64] (path: Text, answer: Status) -> c_int = stat::stat(path, answer);
    [lstat lstat64] (path: Text, answer: Status) -> c_int = stat::lstat(path, answer);
    [fstatat fstatat64] (directory: c_int, path: Text, answer: Status, flags: c_int) -> c_int =
        stat::fstatat(directory, path, answer, flags);
    [__xstat __xstat64] (version: c_int, path: Text, answer: Status) -> c_int =
        if stat::is_known_version(version) { stat::stat(path, answer) } else { -1 };
    [__lxstat __lxstat64] (version: c_int, path: Text, answer: Status) -> c_int =
        if stat::is_known_version(version) { stat::lstat(path, answer) } else { -1 };
    [__fxstatat __fxstatat64] (version: c_int, directory: c_int, path: Text, answer: Status, flags: c_int) -> c_int =
        if stat::is_known_version(version) { stat::fstatat(directory, path, answer, flags) } else { -1 };
    [statx] (directory: c_int, path: Text, flags: c_int, mask: c_uint, answer: *mut libc::statx) -> c_int =
        stat::statx(directory, path, flags, mask, answer);
    [access] (path: Text, mode: c_int) -> c_int = stat::faccessat(AT_FDCWD, path, mode, 0);
    [euidaccess eaccess] (path: Text, mode: c_int) -> c_int = stat::euidaccess(path, mode);
    [faccessat] (directory: c_int, path: Text, mode: c_int, flags: c_int) -> c_int =
        stat::faccessat(directory, path, mode, flags);
    [statfs statfs64 __statfs] (path: Text, answer: *mut libc::statfs) -> c_int = statistics::statfs(path, answer);
    [statvfs statvfs64] (path: Text, answer: *mut libc::statvfs) -> c_int = statistics::statvfs(path, answer);

    [mkdir] (path: Text, mode: mode_t) -> c_int = names::mkdirat(AT_FDCWD, path, mode);
    [mkdirat] (directory: c_int, path: Text, mode: mode_t) -> c_int = names::mkdirat(directory, path, mode);
    [mknod] (path: Text, mode: mode_t, device: dev_t) -> c_int = names::mknodat(AT_FDCWD, path, mode, device);
    [mknodat] (directory: c_int, path: Text, mode: mode_t, device: dev_t) -> c_int =
        names::mknodat(directory, path, mode, device);
    [__xmknod] (version: c_int, path: Text, mode: mode_t, device: *const dev_t) -> c_int =
        names::xmknodat(version, AT_FDCWD, path, mode, device);
    [__xmknodat] (version: c_int, directory: c_int, path: Text, mode: mode_t, device: *const dev_t) -> c_int =
        names::xmknodat(version, directory, path, mode, device);
    [mkfifo] (path: Text, mode: mode_t) -> c_int = names::mkfifoat(AT_FDCWD, path, mode);
    [mkfifoat] (directory: c_int, path: Text, mode: mode_t) -> c_int = names::mkfifoat(directory, path, mode);
    [unlink] (path: Text) -> c_int = names::unlinkat(AT_FDCWD, path, 0);
    [rmdir] (path: Text) -> c_int = names::unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR);
    [unlinkat] (directory: c_int, path: Text, flags: c_int) -> c_int = names::unlinkat(directory, path, flags);
    [remove] (path: Text) -> c_int = names::remove(path);
    [rename] (from: Text, to: Text) -> c_int = names::renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
    [renameat] (from_directory: c_int, from: Text, to_directory: c_int, to: Text) -> c_int =
        names::renameat2(from_directory, from, to_directory, to, 0);
    [renameat2] (from_directory: c_int, from: Text, to_directory: c_int, to: Text, flags: c_uint) -> c_int =
        names::renameat2(from_directory, from, to_directory, to, flags);
    [link] (from: Text, to: Text) -> c_int = names::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    [linkat] (from_directory: c_int, from: Text, to_directory: c_int, to: Text, flags: c_int) -> c_int =
        names::linkat(from_directory, from, to_directory, to, flags);
    [symlink] (target: Text, path: Text) -> c_int = names::symlinkat(target, AT_FDCWD, path);
    [symlinkat] (target: Text, directory: c_int, path: Text) -> c_int = names::symlinkat(target, directory, path);
    [readlink] (path: Text, buffer: *mut c_char, size: size_t) -> ssize_t =
        names::readlinkat(AT_FDCWD, path, buffer, size);
    [__readlink_chk] (path: Text, buffer: *mut c_char, size: size_t, room: size_t) -> ssize_t = {
        walks::check_room(size, room);
        names::readlinkat(AT_FDCWD, path, buffer, size)
    };
    [readlinkat] (directory: c_int, path: Text, buffer: *mut c_char, size: size_t) -> ssize_t =
        names::readlinkat(directory, path, buffer, size);
    [__readlinkat_chk] (directory: c_int, path: Text, buffer: *mut c_char, size: size_t, room: size_t) -> ssize_t = {
        walks::check_room(size, room);
        names::readlinkat(directory, path, buffer, size)
    };
    [umask] (mask: mode_t) -> mode_t = names::umask(mask);

    [chmod] (path: Text, mode: mode_t) -> c_int = changes::fchmodat(AT_FDCWD, path, mode, 0);
    [lchmod] (path: Text, mode: mode_t) -> c_int =
        changes::fchmodat(AT_FDCWD, path, mode, libc::AT_SYMLINK_NOFOLLOW);
    [fchmodat] (directory: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int =
        changes::fchmodat(directory, path, mode, flags);
    [chown] (path: Text, uid: uid_t, gid: gid_t) -> c_int = changes::fchownat(AT_FDCWD, path, uid, gid, 0);
    [lchown] (path: Text, uid: uid_t, gid: gid_t) -> c_int =
        changes::fchownat(AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW);
    [fchownat] (directory: c_int, path: Text, uid: uid_t, gid: gid_t, flags: c_int) -> c_int =
        changes::fchownat(directory, path, uid, gid, flags);
    [utimensat] (directory: c_int, path: Text, times: *const libc::timespec, flags: c_int) -> c_int = {
        // The C library refuses the null path, with which the system call means the descriptor itself.
        if path.is_null() { guard::fail(libc::EINVAL) } else { changes::utimensat(directory, path, times, flags) }
    };
    [utimes] (path: Text, times: *const libc::timeval) -> c_int = changes::utimes_at(AT_FDCWD, path, times, 0);
    [lutimes] (path: Text, times: *const libc::timeval) -> c_int =
        changes::utimes_at(AT_FDCWD, path, times, libc::AT_SYMLINK_NOFOLLOW);
    [futimesat] (directory: c_int, path: Text, times: *const libc::timeval) -> c_int =
        changes::utimes_at(directory, path, times, 0);
    [utime] (path: Text, times: *const libc::utimbuf) -> c_int = changes::utime(path, times);
    [truncate truncate64] (path: Text, length: off_t) -> c_int = changes::truncate(path, length);

    [getxattr] (path: Text, name: Text, value: *mut c_void, size: size_t) -> ssize_t =
        attributes::get_attribute(Subject::Path(path), name, value, size);
    [lgetxattr] (path: Text, name: Text, value: *mut c_void, size: size_t) -> ssize_t =
        attributes::get_attribute(Subject::Link(path), name, value, size);
    [setxattr] (path: Text, name: Text, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        attributes::set_attribute(Subject::Path(path), name, value, size, flags);
    [lsetxattr] (path: Text, name: Text, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        attributes::set_attribute(Subject::Link(path), name, value, size, flags);
    [listxattr] (path: Text, list: *mut c_char, size: size_t) -> ssize_t =
        attributes::list_attributes(Subject::Path(path), list, size);
    [llistxattr] (path: Text, list: *mut c_char, size: size_t) -> ssize_t =
        attributes::list_attributes(Subject::Link(path), list, size);
    [removexattr] (path: Text, name: Text) -> c_int = attributes::remove_attribute(Subject::Path(path), name);
    [lremovexattr] (path: Text, name: Text) -> c_int = attributes::remove_attribute(Subject::Link(path), name);

    [inotify_add_watch] (instance: c_int, path: Text, mask: u32) -> c_int = inotify::add(instance, path, mask);
    [pathconf] (path: Text, name: c_int) -> c_long = control::pathconf(path, name);
    [chdir] (path: Text) -> c_int = current_directory::chdir(path);
    [chroot] (path: Text) -> c_int = process::around_view(|| real::chroot(path));
    [getcwd] (buffer: *mut c_char, size: size_t) -> *mut c_char = current_directory::getcwd(buffer, size);
    [get_current_dir_name] () -> *mut c_char = current_directory::getcwd(std::ptr::null_mut(), 0);
    [__getcwd_chk] (buffer: *mut c_char, size: size_t, room: size_t) -> *mut c_char = {
        walks::check_room(size, room);
        current_directory::getcwd(buffer, size)
    };
    [getwd] (buffer: *mut c_char) -> *mut c_char = current_directory::getwd(buffer);
    [__getwd_chk] (buffer: *mut c_char, room: size_t) -> *mut c_char = {
        walks::check_room(libc::PATH_MAX as usize, room);
        current_directory::getwd(buffer)
    };
    [realpath] (path: Text, resolved: *mut c_char) -> *mut c_char = walks::realpath(path, resolved);
    [__realpath_chk] (path: Text, resolved: *mut c_char, room: size_t) -> *mut c_char = {
        walks::check_room(libc::PATH_MAX as usize, room);
        walks::realpath(path, resolved)
    };
    [canonicalize_file_name] (path: Text) -> *mut c_char = walks::realpath(path, std::ptr::null_mut());
    [opendir] (path: Text) -> *mut DIR = directories::opendir(path);
    [scandir scandir64] (path: Text, list: *mut *mut *mut dirent, filter: real::Filter, comparison: real::Comparison) -> c_int =
        walks::scandir(path, list, filter, comparison);
    [glob glob64] (pattern: Text, flags: c_int, failed: *mut c_void, result: *mut c_void) -> c_int =
        walks::glob(pattern, flags, failed, result);
    [ftw ftw64] (path: Text, visit: walks::Visit, descriptors: c_int) -> c_int =
        walks::walk_tree(path, visit, 0, || real::ftw(path, visit as *mut c_void, descriptors));
    [nftw nftw64] (path: Text, visit: walks::Visit, descriptors: c_int, flags: c_int) -> c_int =
        walks::walk_tree(path, visit, flags, || real::nftw(path, visit as *mut c_void, descriptors, flags));
}
