//! The exported names that take descriptors, streams and processes.
//!
//! A row gives the names, the C signature and the call. Variadic functions of C (`open`, `fcntl`, `syscall`) are
//! defined with the arguments they can have: on x86-64 and AArch64 integers travel in the same registers either way.

use crate::calls::attributes::{self, Subject};
use crate::calls::temporary::{self, Temporary};
use crate::calls::{
    asynchronous, changes, close, control, current_directory, data, directories, duplicate, environments,
    exec, identity_changes, locks, messages, mmap, open, process, readiness, seek, space, stat, statistics,
    stdio, transfers, walks,
};
use crate::files::{prefix, sharing};
use crate::host::{file_size, forks, guard, real};
use crate::symbols::system_calls;
use libc::{
    c_char, c_int, c_long, c_uint, c_void, dirent, gid_t, mode_t, off_t, pid_t, size_t, ssize_t, uid_t, DIR,
    FILE,
};

type Lists = environments::Strings;
type Vector = *const libc::iovec;

hooks! {
    [read __read] (d: c_int, buffer: *mut c_void, count: size_t) -> ssize_t = data::read(d, buffer, count);
    [__read_chk] (d: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t = {
        walks::check_room(count, room);
        data::read(d, buffer, count)
    };
    [write __write] (d: c_int, buffer: *const c_void, count: size_t) -> ssize_t = data::write(d, buffer, count);
    [pread pread64 __pread64] (d: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t =
        data::pread(d, buffer, count, offset);
    [__pread_chk __pread64_chk] (d: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t = {
        walks::check_room(count, room);
        data::pread(d, buffer, count, offset)
    };
    [pwrite pwrite64 __pwrite64] (d: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t =
        data::pwrite(d, buffer, count, offset);
    [readv] (d: c_int, vector: Vector, count: c_int) -> ssize_t = data::readv(d, vector, count);
    [writev] (d: c_int, vector: Vector, count: c_int) -> ssize_t = data::writev(d, vector, count);
    [preadv preadv64] (d: c_int, vector: Vector, count: c_int, offset: off_t) -> ssize_t =
        data::preadv(d, vector, count, offset);
    [pwritev pwritev64] (d: c_int, vector: Vector, count: c_int, offset: off_t) -> ssize_t =
        data::pwritev(d, vector, count, offset);
    [preadv2 preadv64v2] (d: c_int, vector: Vector, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        data::preadv2(d, vector, count, offset, flags);
    [pwritev2 pwritev64v2] (d: c_int, vector: Vector, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        data::pwritev2(d, vector, count, offset, flags);

    [sendfile sendfile64] (output: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t =
        transfers::sendfile(output, input, offset, count);
    [splice] (input: c_int, from: *mut off_t, output: c_int, to: *mut off_t, count: size_t, flags: c_uint) -> ssize_t =
        transfers::splice(input, from, output, to, count, flags);
    [copy_file_range] (input: c_int, from: *mut off_t, output: c_int, to: *mut off_t, count: size_t, flags: c_uint) -> ssize_t =
        transfers::copy_file_range(input, from, output, to, count, flags);
    [mmap mmap64] (address: *mut c_void, length: size_t, protection: c_int, flags: c_int, d: c_int, offset: off_t) -> *mut c_void =
        mmap::mmap(address, length, protection, flags, d, offset);
    [munmap] (address: *mut c_void, length: size_t) -> c_int = mmap::munmap(address, length);
    [mremap] (old: *mut c_void, old_length: size_t, length: size_t, flags: c_int, wanted: *mut c_void) -> *mut c_void =
        mmap::mremap(old, old_length, length, flags, wanted);
    [fallocate fallocate64] (d: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int =
        space::fallocate(d, mode, offset, length);
    [posix_fallocate posix_fallocate64] (d: c_int, offset: off_t, length: off_t) -> c_int =
        space::posix_fallocate(d, offset, length);
    [posix_fadvise posix_fadvise64] (d: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int =
        space::advise(d, offset, length, advice);
    [readahead] (d: c_int, offset: off_t, count: size_t) -> ssize_t =
        space::read_ahead(d, offset, count);
    [sync_file_range] (d: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int = {
        sharing::settle_stand_in(d);
        if prefix::holds(d) { space::fsync(d, true) } else { real::sync_file_range(d, offset, length, flags) }
    };

    [open open64 __open __open64] (path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        open::open(path, flags, mode);
    [__open_2 __open64_2] (path: *const c_char, flags: c_int) -> c_int =
        open::openat_2(libc::AT_FDCWD, path, flags);
    [openat openat64] (directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        open::openat(directory, path, flags, mode);
    [__openat_2 __openat64_2] (directory: c_int, path: *const c_char, flags: c_int) -> c_int =
        open::openat_2(directory, path, flags);
    [creat creat64] (path: *const c_char, mode: mode_t) -> c_int =
        open::open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode);
    [close __close] (d: c_int) -> c_int = close::close(d);
    [close_range] (first: c_uint, last: c_uint, flags: c_int) -> c_int =
        close::close_range(first, last, flags as c_uint);
    [closefrom] (first: c_int) -> () = close::closefrom(first);
    [dup] (old: c_int) -> c_int = duplicate::dup(old);
    [dup2 __dup2] (old: c_int, new: c_int) -> c_int = duplicate::dup2(old, new);
    [dup3] (old: c_int, new: c_int, flags: c_int) -> c_int = duplicate::dup3(old, new, flags);
    [fcntl fcntl64 __fcntl] (d: c_int, command: c_int, argument: c_long) -> c_int =
        duplicate::fcntl(d, command, argument);
    [lseek lseek64 llseek __lseek] (d: c_int, offset: off_t, whence: c_int) -> off_t =
        seek::lseek(d, offset, whence);
    [fsync] (d: c_int) -> c_int = space::fsync(d, false);
    [fdatasync] (d: c_int) -> c_int = space::fsync(d, true);
    [syncfs] (d: c_int) -> c_int = {
        sharing::settle_stand_in(d);
        real::syncfs(d)
    };
    [name_to_handle_at] (d: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int) -> c_int = {
        sharing::settle_stand_in(d);
        real::name_to_handle_at(d, path, handle, mount, flags)
    };
    [flock] (d: c_int, operation: c_int) -> c_int = locks::flock(d, operation);
    [lockf lockf64] (d: c_int, command: c_int, length: off_t) -> c_int = {
        sharing::settle(d);
        locks::note_kernels(d);
        if prefix::holds(d) { locks::lockf(d, command, length) } else { real::lockf(d, command, length) }
    };
    [ftruncate ftruncate64] (d: c_int, length: off_t) -> c_int = changes::ftruncate(d, length);
    [fchmod] (d: c_int, mode: mode_t) -> c_int = changes::fchmod(d, mode);
    [fchown] (d: c_int, uid: uid_t, gid: gid_t) -> c_int = changes::fchown(d, uid, gid);
    [futimens] (d: c_int, times: *const libc::timespec) -> c_int = changes::futimens(d, times);
    [futimes] (d: c_int, times: *const libc::timeval) -> c_int =
        changes::utimes_at(d, std::ptr::null(), times, 0);
    [fstat fstat64] (d: c_int, answer: *mut libc::stat) -> c_int = stat::fstat(d, answer);
    [__fxstat __fxstat64] (version: c_int, d: c_int, answer: *mut libc::stat) -> c_int =
        if stat::is_known_version(version) { stat::fstat(d, answer) } else { -1 };
    [fstatfs fstatfs64 __fstatfs] (d: c_int, answer: *mut libc::statfs) -> c_int = statistics::fstatfs(d, answer);
    [fstatvfs fstatvfs64] (d: c_int, answer: *mut libc::statvfs) -> c_int = statistics::fstatvfs(d, answer);
    [fgetxattr] (d: c_int, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t =
        attributes::get_attribute(Subject::Descriptor(d), name, value, size);
    [fsetxattr] (d: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        attributes::set_attribute(Subject::Descriptor(d), name, value, size, flags);
    [flistxattr] (d: c_int, list: *mut c_char, size: size_t) -> ssize_t =
        attributes::list_attributes(Subject::Descriptor(d), list, size);
    [fremovexattr] (d: c_int, name: *const c_char) -> c_int =
        attributes::remove_attribute(Subject::Descriptor(d), name);

    [fopen fopen64] (path: *const c_char, mode: *const c_char) -> *mut FILE = stdio::fopen(path, mode);
    [fdopen] (d: c_int, mode: *const c_char) -> *mut FILE = stdio::fdopen(d, mode);
    [freopen freopen64] (path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE =
        stdio::freopen(path, mode, stream);
    [fclose] (stream: *mut FILE) -> c_int = stdio::fclose(stream);
    [fgetwc getwc] (stream: *mut FILE) -> c_int = stdio::wide(stream, || real::fgetwc(stream));
    [fgetwc_unlocked getwc_unlocked] (stream: *mut FILE) -> c_int =
        stdio::wide(stream, || real::fgetwc_unlocked(stream));
    [fgetws] (buffer: *mut c_void, count: c_int, stream: *mut FILE) -> *mut c_void =
        stdio::wide(stream, || real::fgetws(buffer, count, stream));
    [fgetws_unlocked] (buffer: *mut c_void, count: c_int, stream: *mut FILE) -> *mut c_void =
        stdio::wide(stream, || real::fgetws_unlocked(buffer, count, stream));
    [__fgetws_chk] (buffer: *mut c_void, room: size_t, count: c_int, stream: *mut FILE) -> *mut c_void =
        stdio::wide(stream, || real::__fgetws_chk(buffer, room, count, stream));
    [__fgetws_unlocked_chk] (buffer: *mut c_void, room: size_t, count: c_int, stream: *mut FILE) -> *mut c_void =
        stdio::wide(stream, || real::__fgetws_unlocked_chk(buffer, room, count, stream));
    [vdprintf] (d: c_int, format: *const c_char, list: *mut c_void) -> c_int = stdio::print_to(d, format, list);
    [__vdprintf_chk] (d: c_int, _level: c_int, format: *const c_char, list: *mut c_void) -> c_int =
        stdio::print_to(d, format, list);
    [mkstemp mkstemp64] (template: *mut c_char) -> c_int =
        temporary::temporary(template, 0, Temporary::File(0), || real::mkostemps(template, 0, 0));
    [mkostemp mkostemp64] (template: *mut c_char, flags: c_int) -> c_int =
        temporary::temporary(template, 0, Temporary::File(flags), || real::mkostemps(template, 0, flags));
    [mkstemps mkstemps64] (template: *mut c_char, suffix: c_int) -> c_int =
        temporary::temporary(template, suffix, Temporary::File(0), || real::mkostemps(template, suffix, 0));
    [mkostemps mkostemps64] (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int =
        temporary::temporary(template, suffix, Temporary::File(flags), || real::mkostemps(template, suffix, flags));
    [mkdtemp] (template: *mut c_char) -> *mut c_char = {
        let pass = || if real::mkdtemp(template).is_null() { -1 } else { 0 };
        let made = temporary::temporary(template, 0, Temporary::Directory, pass);
        if made < 0 { std::ptr::null_mut() } else { template }
    };

    [fdopendir] (d: c_int) -> *mut DIR = {
        sharing::settle_stand_in(d);
        directories::fdopendir(d)
    };
    [closedir] (directory: *mut DIR) -> c_int = directories::closedir(directory);
    [dirfd] (directory: *mut DIR) -> c_int = directories::dirfd(directory);
    [readdir readdir64] (directory: *mut DIR) -> *mut dirent = directories::readdir(directory);
    [readdir_r readdir64_r] (directory: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int =
        directories::readdir_r(directory, entry, result);
    [rewinddir] (directory: *mut DIR) -> () =
        directories::seekdir(directory, 0, || real::rewinddir(directory));
    [seekdir] (directory: *mut DIR, position: c_long) -> () =
        directories::seekdir(directory, position, || real::seekdir(directory, position));
    [telldir] (directory: *mut DIR) -> c_long = directories::telldir(directory);
    [getdents64] (d: c_int, buffer: *mut c_void, size: size_t) -> ssize_t = {
        sharing::settle_stand_in(d);
        directories::getdents64(d, buffer, size)
    };

    [fchdir] (d: c_int) -> c_int = current_directory::fchdir(d);
    [fork __fork] () -> pid_t = process::fork();
    [_Fork] () -> pid_t = process::fork_without_handlers();
    [__register_atfork] (before: real::Handler, in_parent: real::Handler, in_child: real::Handler, library: *mut c_void) -> c_int =
        forks::register_after(&process::FORKS, [before, in_parent, in_child], library);
    [clone __clone] (function: extern "C" fn(*mut c_void) -> c_int, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut c_void, storage: *mut c_void, child: *mut c_void) -> c_int =
        process::clone(function, stack, flags, argument, [parent, storage, child]);
    [posix_spawn] (process: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Lists, environment: Lists) -> c_int =
        exec::spawn(process, path, actions, attributes, (arguments, environment), false);
    [posix_spawnp] (process: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Lists, environment: Lists) -> c_int =
        exec::spawn(process, path, actions, attributes, (arguments, environment), true);
    [execve] (path: *const c_char, arguments: Lists, environment: Lists) -> c_int =
        exec::execve(path, arguments, environment);
    [execv] (path: *const c_char, arguments: Lists) -> c_int = exec::execve(path, arguments, exec::environ);
    [execvp] (file: *const c_char, arguments: Lists) -> c_int = exec::execvpe(file, arguments, exec::environ);
    [execvpe] (file: *const c_char, arguments: Lists, environment: Lists) -> c_int =
        exec::execvpe(file, arguments, environment);
    [fexecve] (d: c_int, arguments: Lists, environment: Lists) -> c_int =
        exec::fexecve(d, arguments, environment);
    [execveat] (directory: c_int, path: *const c_char, arguments: Lists, environment: Lists, flags: c_int) -> c_int =
        exec::execveat(directory, path, arguments, environment, flags);
    [system] (command: *const c_char) -> c_int = exec::with_own_environment(|| real::system(command));
    [popen] (command: *const c_char, mode: *const c_char) -> *mut FILE =
        exec::with_own_environment(|| real::popen(command, mode));
    [daemon] (keep_directory: c_int, keep_streams: c_int) -> c_int = {
        let result = real::daemon(keep_directory, keep_streams);
        process::forget_standard(result == 0 && keep_streams == 0);
        result
    };
    [forkpty] (terminal: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> c_int = {
        let child = real::forkpty(terminal, name, settings, size);
        process::forget_standard(child == 0);
        child
    };
    [login_tty] (d: c_int) -> c_int = {
        let result = real::login_tty(d);
        process::forget_standard(result == 0);
        result
    };
    [_exit _Exit] (status: c_int) -> () = process::exit_now(status);
    [quick_exit] (status: c_int) -> () = {
        process::at_end();
        real::quick_exit(status)
    };
    [pthread_create] (thread: *mut c_void, attributes: *const c_void, start: *mut c_void, argument: *mut c_void) -> c_int =
        process::pthread_create(thread, attributes, start, argument);
    [thrd_create] (thread: *mut c_void, start: *mut c_void, argument: *mut c_void) -> c_int = {
        process::note_thread();
        real::thrd_create(thread, start, argument)
    };

    [setuid] (uid: uid_t) -> c_int = identity_changes::around_identity(|| real::setuid(uid));
    [setgid] (gid: gid_t) -> c_int = identity_changes::around_identity(|| real::setgid(gid));
    [seteuid] (uid: uid_t) -> c_int = identity_changes::around_identity(|| real::seteuid(uid));
    [setegid] (gid: gid_t) -> c_int = identity_changes::around_identity(|| real::setegid(gid));
    [setreuid] (r: uid_t, e: uid_t) -> c_int = identity_changes::around_identity(|| real::setreuid(r, e));
    [setregid] (r: gid_t, e: gid_t) -> c_int = identity_changes::around_identity(|| real::setregid(r, e));
    [setresuid] (r: uid_t, e: uid_t, s: uid_t) -> c_int = identity_changes::around_identity(|| real::setresuid(r, e, s));
    [setresgid] (r: gid_t, e: gid_t, s: gid_t) -> c_int = identity_changes::around_identity(|| real::setresgid(r, e, s));
    [setgroups] (count: size_t, groups: *const gid_t) -> c_int =
        identity_changes::around_groups(|| real::setgroups(count, groups));
    [initgroups] (user: *const c_char, gid: gid_t) -> c_int =
        identity_changes::around_groups(|| real::initgroups(user, gid));
    [setfsuid] (uid: uid_t) -> c_int = identity_changes::set_file_system_identity(libc::SYS_setfsuid, uid);
    [setfsgid] (gid: gid_t) -> c_int = identity_changes::set_file_system_identity(libc::SYS_setfsgid, gid);
    [unshare] (flags: c_int) -> c_int = process::around_view(|| real::unshare(flags));
    [setns] (d: c_int, kind: c_int) -> c_int = process::around_view(|| real::setns(d, kind));

    [poll __poll] (list: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int =
        readiness::poll(list, count, |list, at_once| real::poll(list, count, if at_once { 0 } else { milliseconds }));
    [__poll_chk] (list: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int, room: size_t) -> c_int = {
        walks::check_room((count as usize).saturating_mul(size_of::<libc::pollfd>()), room);
        readiness::poll(list, count, |list, at_once| real::poll(list, count, if at_once { 0 } else { milliseconds }))
    };
    [ppoll] (list: *mut libc::pollfd, count: libc::nfds_t, time: *const libc::timespec, signals: *const c_void) -> c_int =
        readiness::poll(list, count, |list, at_once| real::ppoll(list, count, readiness::no_wait(time, at_once), signals));
    [__ppoll_chk] (list: *mut libc::pollfd, count: libc::nfds_t, time: *const libc::timespec, signals: *const c_void, room: size_t) -> c_int = {
        walks::check_room((count as usize).saturating_mul(size_of::<libc::pollfd>()), room);
        readiness::poll(list, count, |list, at_once| real::ppoll(list, count, readiness::no_wait(time, at_once), signals))
    };
    [select __select] (count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, exceptional: *mut libc::fd_set, time: *mut libc::timeval) -> c_int =
        readiness::select(count, [read, write, exceptional], |sets, at_once| {
            let mut none = libc::timeval { tv_sec: 0, tv_usec: 0 };
            real::select(count, sets[0], sets[1], sets[2], if at_once { &raw mut none } else { time })
        });
    [pselect] (count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, exceptional: *mut libc::fd_set, time: *const libc::timespec, signals: *const c_void) -> c_int =
        readiness::select(count, [read, write, exceptional], |sets, at_once| {
            real::pselect(count, sets[0], sets[1], sets[2], readiness::no_wait(time, at_once), signals)
        });
    [epoll_ctl] (epoll: c_int, operation: c_int, d: c_int, event: *mut libc::epoll_event) -> c_int =
        readiness::epoll_ctl(epoll, operation, d, event);
    [aio_read aio_read64] (request: *mut libc::aiocb) -> c_int = {
        asynchronous::settle(request);
        real::aio_read(request)
    };
    [aio_write aio_write64] (request: *mut libc::aiocb) -> c_int = {
        asynchronous::settle(request);
        real::aio_write(request)
    };
    [aio_fsync aio_fsync64] (operation: c_int, request: *mut libc::aiocb) -> c_int = {
        asynchronous::settle(request);
        real::aio_fsync(operation, request)
    };
    [lio_listio lio_listio64] (mode: c_int, list: *const *mut libc::aiocb, count: c_int, event: *mut c_void) -> c_int = {
        asynchronous::settle_list(list.cast(), count);
        real::lio_listio(mode, list, count, event)
    };
    [io_setup] (count: c_int, context: *mut c_void) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_setup(count, context)
    };
    [io_queue_init] (count: c_int, context: *mut c_void) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_queue_init(count, context)
    };
    [io_uring_setup] (count: c_uint, settings: *mut c_void) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_uring_setup(count, settings)
    };
    [io_uring_queue_init] (count: c_uint, ring: *mut c_void, flags: c_uint) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_uring_queue_init(count, ring, flags)
    };
    [io_uring_queue_init_params] (count: c_uint, ring: *mut c_void, settings: *mut c_void) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_uring_queue_init_params(count, ring, settings)
    };
    [io_uring_queue_init_mem] (count: c_uint, ring: *mut c_void, settings: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int = {
        asynchronous::leave_opens_to_kernel();
        real::io_uring_queue_init_mem(count, ring, settings, memory, bytes)
    };
    [ioctl] (d: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int =
        control::ioctl(d, request, argument);
    [isatty] (d: c_int) -> c_int = control::terminal(d, 0, || real::isatty(d));
    [tcgetattr] (d: c_int, settings: *mut c_void) -> c_int =
        control::terminal(d, -1, || real::tcgetattr(d, settings));
    [fpathconf] (d: c_int, name: c_int) -> c_long = control::fpathconf(d, name);
    [setrlimit setrlimit64] (resource: c_int, limit: *const c_void) -> c_int = {
        let result = real::setrlimit(resource, limit);
        file_size::forget();
        result
    };
    [prlimit prlimit64] (process: pid_t, resource: c_int, new: *const c_void, old: *mut c_void) -> c_int = {
        let result = real::prlimit(process, resource, new, old);
        file_size::forget();
        result
    };

    [sendmsg] (socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t = {
        messages::share_sent(message);
        real::sendmsg(socket, message, flags)
    };
    [sendmmsg] (socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int = {
        (0..count as usize).for_each(|index| messages::share_sent(&raw const (*messages.wrapping_add(index)).msg_hdr));
        real::sendmmsg(socket, messages, count, flags)
    };
    [recvmsg] (socket: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t = {
        let received = real::recvmsg(socket, message, flags);
        if received >= 0 && !guard::is_inside() {
            messages::forget_received(message);
        }
        received
    };
    [recvmmsg] (socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int, time: *mut libc::timespec) -> c_int = {
        let received = real::recvmmsg(socket, messages, count, flags, time);
        if !guard::is_inside() {
            (0..received.max(0) as usize)
                .for_each(|index| messages::forget_received(&raw const (*messages.wrapping_add(index)).msg_hdr));
        }
        received
    };
    [syscall] (number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long =
        system_calls::dispatch(number, [a, b, c, d, e, f]);
}
