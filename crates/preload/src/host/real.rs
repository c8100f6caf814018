//! The C library's own functions: the next definitions in link order behind those of this library.

use crate::host::guard;
use libc::{c_char, c_int, c_uint, c_void, dirent, mode_t, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicPtr, Ordering};

/// `cookie_io_functions_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CookieFunctions {
    pub(crate) read: extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    pub(crate) write: extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    pub(crate) seek: extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    pub(crate) close: extern "C" fn(*mut c_void) -> c_int,
}

/// A function that `pthread_atfork` registers.
pub(crate) type Handler = Option<extern "C" fn()>;
/// The function that `scandir` calls for each entry.
pub(crate) type Filter = Option<unsafe extern "C" fn(*const dirent) -> c_int>;
/// The order in which `scandir` sorts.
pub(crate) type Comparison =
    Option<unsafe extern "C" fn(*const *const dirent, *const *const dirent) -> c_int>;

/// The address of the next definition of `name`, which is looked up at the first call.
///
/// A lookup takes only the dynamic linker's own recursive lock, so two threads or a signal handler may do it at once.
fn next(cell: &AtomicPtr<c_void>, name: &std::ffi::CStr) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(found, Ordering::Relaxed);
    found
}

/// Declares functions of the C library. A function that this C library lacks fails with `ENOSYS`.
macro_rules! real {
    ($( $name:ident ( $($argument:ident : $type:ty),* ) -> $result:ty; )*) => { $(
        #[allow(non_snake_case, reason = "the names are libc's")]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &str = concat!(stringify!($name), "\0");
            // SAFETY: the constant ends with the zero byte written above.
            let name = unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(NAME.as_bytes()) };
            let found = next(&CELL, name);
            if found.is_null() {
                return guard::fail(libc::ENOSYS);
            }
            // SAFETY: the symbol of this name has this signature in every C library that has it, on the
            // architectures where variable and fixed integer arguments travel alike.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(found);
                function($($argument),*)
            }
        }
    )* };
}

/// The address of `dlopen`.
pub(crate) fn dlopen_address() -> *mut c_void {
    static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    next(&CELL, c"dlopen")
}

type Any = *mut c_void;
type Text = *const c_char;
type Lists = *const *const c_char;
type Stream = *mut libc::FILE;

real! {
    read(descriptor: c_int, buffer: Any, count: size_t) -> ssize_t;
    write(descriptor: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    pread(descriptor: c_int, buffer: Any, count: size_t, offset: off_t) -> ssize_t;
    pwrite(descriptor: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t;
    readv(descriptor: c_int, vector: *const libc::iovec, count: c_int) -> ssize_t;
    writev(descriptor: c_int, vector: *const libc::iovec, count: c_int) -> ssize_t;
    preadv(descriptor: c_int, vector: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    pwritev(descriptor: c_int, vector: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    preadv2(descriptor: c_int, vector: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    pwritev2(descriptor: c_int, vector: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    sendfile(output: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    splice(input: c_int, from: *mut off_t, output: c_int, to: *mut off_t, count: size_t, flags: c_uint) -> ssize_t;
    openat(directory: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int;
    close(descriptor: c_int) -> c_int;
    fcntl(descriptor: c_int, command: c_int, argument: libc::c_long) -> c_int;
    fsync(descriptor: c_int) -> c_int;
    fdatasync(descriptor: c_int) -> c_int;
    flock(descriptor: c_int, operation: c_int) -> c_int;
    lockf(descriptor: c_int, command: c_int, length: off_t) -> c_int;
    fallocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    posix_fallocate(descriptor: c_int, offset: off_t, length: off_t) -> c_int;
    faccessat(directory: c_int, path: Text, mode: c_int, flags: c_int) -> c_int;
    fchmodat(directory: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int;
    euidaccess(path: Text, mode: c_int) -> c_int;
    __openat_2(directory: c_int, path: Text, flags: c_int) -> c_int;
    statfs(path: Text, answer: *mut libc::statfs) -> c_int;
    dlopen(file: Text, flags: c_int) -> Any;
    statvfs(path: Text, answer: *mut libc::statvfs) -> c_int;
    fstatvfs(descriptor: c_int, answer: *mut libc::statvfs) -> c_int;
    getcwd(buffer: *mut c_char, size: size_t) -> *mut c_char;
    getwd(buffer: *mut c_char) -> *mut c_char;
    realpath(path: Text, resolved: *mut c_char) -> *mut c_char;
    fopen(path: Text, mode: Text) -> Stream;
    fdopen(descriptor: c_int, mode: Text) -> Stream;
    freopen(path: Text, mode: Text, stream: Stream) -> Stream;
    fclose(stream: Stream) -> c_int;
    fflush(stream: Stream) -> c_int;
    fgetwc(stream: Stream) -> c_int;
    fgetwc_unlocked(stream: Stream) -> c_int;
    fgetws(buffer: Any, count: c_int, stream: Stream) -> Any;
    fgetws_unlocked(buffer: Any, count: c_int, stream: Stream) -> Any;
    __fgetws_chk(buffer: Any, room: size_t, count: c_int, stream: Stream) -> Any;
    __fgetws_unlocked_chk(buffer: Any, room: size_t, count: c_int, stream: Stream) -> Any;
    __fpending(stream: Stream) -> ssize_t;
    __fpurge(stream: Stream) -> ();
    fileno(stream: Stream) -> c_int;
    setvbuf(stream: Stream, buffer: *mut c_char, kind: c_int, size: size_t) -> c_int;
    fopencookie(cookie: Any, mode: Text, functions: CookieFunctions) -> Stream;
    vdprintf(descriptor: c_int, format: Text, list: Any) -> c_int;
    vasprintf(result: *mut *mut c_char, format: Text, list: Any) -> c_int;
    mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    mkdtemp(template: *mut c_char) -> *mut c_char;
    opendir(path: Text) -> *mut libc::DIR;
    fdopendir(descriptor: c_int) -> *mut libc::DIR;
    closedir(directory: *mut libc::DIR) -> c_int;
    dirfd(directory: *mut libc::DIR) -> c_int;
    readdir(directory: *mut libc::DIR) -> *mut libc::dirent;
    readdir_r(directory: *mut libc::DIR, entry: *mut libc::dirent, result: *mut *mut libc::dirent) -> c_int;
    rewinddir(directory: *mut libc::DIR) -> ();
    seekdir(directory: *mut libc::DIR, position: libc::c_long) -> ();
    telldir(directory: *mut libc::DIR) -> libc::c_long;
    scandir(path: Text, list: *mut *mut *mut libc::dirent, filter: Filter, comparison: Comparison) -> c_int;
    glob(pattern: Text, flags: c_int, failed: Any, result: Any) -> c_int;
    ftw(path: Text, visit: Any, descriptors: c_int) -> c_int;
    nftw(path: Text, visit: Any, descriptors: c_int, flags: c_int) -> c_int;
    fork() -> libc::pid_t;
    _Fork() -> libc::pid_t;
    __register_atfork(before: Handler, in_parent: Handler, in_child: Handler, library: Any) -> c_int;
    clone(function: extern "C" fn(Any) -> c_int, stack: Any, flags: c_int, argument: Any, a: Any, b: Any, c: Any) -> c_int;
    posix_spawn(process: *mut libc::pid_t, path: Text, actions: *const c_void, attributes: *const c_void, arguments: Lists, environment: Lists) -> c_int;
    posix_spawnp(process: *mut libc::pid_t, path: Text, actions: *const c_void, attributes: *const c_void, arguments: Lists, environment: Lists) -> c_int;
    execvpe(file: Text, arguments: Lists, environment: Lists) -> c_int;
    fexecve(descriptor: c_int, arguments: Lists, environment: Lists) -> c_int;
    system(command: Text) -> c_int;
    popen(command: Text, mode: Text) -> Stream;
    daemon(keep_directory: c_int, keep_streams: c_int) -> c_int;
    forkpty(terminal: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> c_int;
    login_tty(descriptor: c_int) -> c_int;
    quick_exit(status: c_int) -> ();
    pthread_create(thread: Any, attributes: *const c_void, start: Any, argument: Any) -> c_int;
    thrd_create(thread: Any, start: Any, argument: Any) -> c_int;
    setuid(uid: libc::uid_t) -> c_int;
    setgid(gid: libc::gid_t) -> c_int;
    seteuid(uid: libc::uid_t) -> c_int;
    setegid(gid: libc::gid_t) -> c_int;
    setreuid(real: libc::uid_t, effective: libc::uid_t) -> c_int;
    setregid(real: libc::gid_t, effective: libc::gid_t) -> c_int;
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) -> c_int;
    setgroups(count: size_t, groups: *const libc::gid_t) -> c_int;
    initgroups(user: Text, gid: libc::gid_t) -> c_int;
    syncfs(descriptor: c_int) -> c_int;
    name_to_handle_at(descriptor: c_int, path: Text, handle: Any, mount: *mut c_int, flags: c_int) -> c_int;
    aio_read(request: *mut libc::aiocb) -> c_int;
    aio_write(request: *mut libc::aiocb) -> c_int;
    aio_fsync(operation: c_int, request: *mut libc::aiocb) -> c_int;
    lio_listio(mode: c_int, list: *const *mut libc::aiocb, count: c_int, event: Any) -> c_int;
    io_setup(count: c_int, context: Any) -> c_int;
    io_queue_init(count: c_int, context: Any) -> c_int;
    io_uring_setup(count: c_uint, settings: Any) -> c_int;
    io_uring_queue_init(count: c_uint, ring: Any, flags: c_uint) -> c_int;
    io_uring_queue_init_params(count: c_uint, ring: Any, settings: Any) -> c_int;
    io_uring_queue_init_mem(count: c_uint, ring: Any, settings: Any, memory: Any, bytes: size_t) -> c_int;
    ioctl(descriptor: c_int, request: libc::c_ulong, argument: Any) -> c_int;
    isatty(descriptor: c_int) -> c_int;
    tcgetattr(descriptor: c_int, settings: Any) -> c_int;
    pathconf(path: Text, name: c_int) -> libc::c_long;
    fpathconf(descriptor: c_int, name: c_int) -> libc::c_long;
    poll(list: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int;
    ppoll(list: *mut libc::pollfd, count: libc::nfds_t, time: *const libc::timespec, signals: *const c_void) -> c_int;
    select(count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, exceptional: *mut libc::fd_set, time: *mut libc::timeval) -> c_int;
    pselect(count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, exceptional: *mut libc::fd_set, time: *const libc::timespec, signals: *const c_void) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, descriptor: c_int, event: *mut libc::epoll_event) -> c_int;
    setrlimit(resource: c_int, limit: *const c_void) -> c_int;
    prlimit(process: libc::pid_t, resource: c_int, new: *const c_void, old: *mut c_void) -> c_int;
    chroot(path: Text) -> c_int;
    unshare(flags: c_int) -> c_int;
    setns(descriptor: c_int, kind: c_int) -> c_int;
    sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t;
    sendmmsg(socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int;
    recvmmsg(socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int, time: *mut libc::timespec) -> c_int;
    recvmsg(socket: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t;
    posix_fadvise(descriptor: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int;
    readahead(descriptor: c_int, offset: off_t, count: size_t) -> ssize_t;
    sync_file_range(descriptor: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int;
    syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> libc::c_long;
    __chk_fail() -> ();
}
