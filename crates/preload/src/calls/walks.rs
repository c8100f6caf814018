//! Functions of libc that walk paths and trees by calls inside libc. Without a mount this library does them.

use crate::calls::{current_directory, directories, names, stat};
use crate::files::resolution;
use crate::files::{paths, tree};
use crate::host::guard::{self, fail};
use crate::host::real::{self, Comparison, Filter};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int, c_void, dirent, DIR};
use std::ffi::{CStr, CString};

/// `GLOB_ALTDIRFUNC`.
const GLOB_ALTERNATIVE: c_int = 1 << 9;
/// `ftw` type flags and `nftw` flags of `<ftw.h>`.
const FTW_F: c_int = 0;
const FTW_D: c_int = 1;
const FTW_DNR: c_int = 2;
const FTW_NS: c_int = 3;
const FTW_SL: c_int = 4;
const FTW_DP: c_int = 5;
const FTW_PHYS: c_int = 1;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;

/// Whether calls inside libc would miss the store.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn is_ours(path: *const c_char) -> bool {
    session::mode() == Mode::Prefix
        && !guard::is_inside()
        // SAFETY: as the caller promises.
        && unsafe { paths::text(path) }.is_some_and(|text| tree::is_candidate(libc::AT_FDCWD, text))
}

/// `realpath(3)`.
pub(crate) unsafe fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        if !is_ours(path) {
            return real::realpath(path, resolved);
        }
        let found = match resolve(CStr::from_ptr(path).to_bytes()) {
            Ok(found) => found,
            Err(number) => return fail(number),
        };
        let needed = found.len() + 1;
        if needed > libc::PATH_MAX as usize {
            return fail(libc::ENAMETOOLONG);
        }
        current_directory::give_path(&found, resolved, needed)
    }
}

/// Resolves a path component by component. This library's `readlink` looks at each component but those of the prefix. What `.` or
/// `..` follows has to be a directory.
fn resolve(path: &[u8]) -> Result<Vec<u8>, c_int> {
    let mut rest: Vec<Vec<u8>> = split(path);
    let mut done = if path.first() == Some(&b'/') { Vec::new() } else { working_directory()? };
    let mut links = 0;
    // Whether the last component may be something else than a directory.
    let mut is_any = false;
    while let Some(part) = rest.pop() {
        if matches!(part.as_slice(), b"." | b"..") {
            if std::mem::take(&mut is_any) {
                link_target(&[&done, b"/.".as_slice()].concat())?;
            }
            if part == b".." {
                done.truncate(done.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
            }
            continue;
        }
        let before = done.len();
        done.push(b'/');
        done.extend_from_slice(&part);
        // The prefix need not exist on the host.
        if done.len() <= session::root().len() && session::root().starts_with(&done) {
            continue;
        }
        if let Some(target) = link_target(&done)? {
            links += 1;
            if links > resolution::LINKS {
                return Err(libc::ELOOP);
            }
            done.truncate(if target.first() == Some(&b'/') { 0 } else { before });
            rest.append(&mut split(&target));
        } else {
            is_any = true;
        }
    }
    if done.is_empty() {
        done.push(b'/');
    }
    Ok(done)
}

/// The components of a path, the last one first. A slash at the end stands for `.`.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    let end: &[u8] = if path.ends_with(b"/") { b"." } else { b"" };
    let parts = path.split(|byte| *byte == b'/').chain([end]);
    parts.rev().filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

fn working_directory() -> Result<Vec<u8>, c_int> {
    let mut buffer = [0 as c_char; libc::PATH_MAX as usize];
    // SAFETY: the buffer has this length.
    let answer = unsafe { current_directory::getcwd(buffer.as_mut_ptr(), buffer.len()) };
    if answer.is_null() {
        return Err(guard::errno());
    }
    // SAFETY: getcwd ended the path with a zero byte.
    Ok(unsafe { CStr::from_ptr(answer) }.to_bytes().to_vec())
}

/// The target of a link. `None` for another node that exists.
fn link_target(path: &[u8]) -> Result<Option<Vec<u8>>, c_int> {
    let path = CString::new(path).map_err(|_| libc::ENOENT)?;
    let mut target = [0 as c_char; libc::PATH_MAX as usize];
    // SAFETY: the path ends with a zero byte, and the buffer has this length.
    let length =
        unsafe { names::readlinkat(libc::AT_FDCWD, path.as_ptr(), target.as_mut_ptr(), target.len()) };
    match usize::try_from(length) {
        Ok(length) => Ok(Some(target[..length].iter().map(|byte| *byte as u8).collect())),
        Err(_) if guard::errno() == libc::EINVAL => Ok(None),
        Err(_) => Err(guard::errno()),
    }
}

/// `scandir(3)`.
pub(crate) unsafe fn scandir(
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Filter,
    comparison: Comparison,
) -> c_int {
    // SAFETY: see `realpath`. Names and list come from the program's heap, which frees them.
    unsafe {
        if !is_ours(path) {
            return real::scandir(path, list, filter, comparison);
        }
        let directory = directories::opendir(path);
        if directory.is_null() {
            return -1;
        }
        let mut found: Vec<*mut dirent> = Vec::new();
        guard::set_errno(0);
        loop {
            let entry = directories::readdir(directory);
            if entry.is_null() {
                break;
            }
            if filter.is_some_and(|filter| filter(entry) == 0) {
                continue;
            }
            let length = usize::from((*entry).d_reclen);
            let copy = libc::malloc(size_of::<dirent>());
            if copy.is_null() {
                break;
            }
            std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copy.cast::<u8>(), length);
            found.push(copy.cast());
        }
        let number = guard::errno();
        directories::closedir(directory);
        let array: *mut *mut dirent = libc::malloc(size_of::<*mut dirent>() * found.len().max(1)).cast();
        if number != 0 || array.is_null() {
            found.iter().for_each(|entry| libc::free((*entry).cast()));
            libc::free(array.cast());
            return fail(if number == 0 { libc::ENOMEM } else { number });
        }
        if let Some(comparison) = comparison {
            found.sort_by(|first, second| {
                comparison((&raw const *first).cast(), (&raw const *second).cast()).cmp(&0)
            });
        }
        std::ptr::copy_nonoverlapping(found.as_ptr(), array, found.len());
        *list = array;
        found.len() as c_int
    }
}

/// The part of `glob_t` that holds the program's own functions.
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    reserved: usize,
    flags: c_int,
    close: unsafe fn(*mut c_void),
    read: unsafe fn(*mut c_void) -> *mut c_void,
    open: unsafe fn(*const c_char) -> *mut c_void,
    lstat: unsafe fn(*const c_char, *mut libc::stat) -> c_int,
    stat: unsafe fn(*const c_char, *mut libc::stat) -> c_int,
}

unsafe extern "C" fn glob_open(path: *const c_char) -> *mut c_void {
    // SAFETY: libc's own pattern.
    unsafe { directories::opendir(path).cast() }
}

unsafe extern "C" fn glob_read(directory: *mut c_void) -> *mut c_void {
    // SAFETY: `glob_open` answered the stream.
    unsafe { directories::readdir(directory.cast()).cast() }
}

unsafe extern "C" fn glob_close(directory: *mut c_void) {
    // SAFETY: `glob_open` answered the stream.
    unsafe { directories::closedir(directory.cast::<DIR>()) };
}

unsafe extern "C" fn glob_stat(path: *const c_char, answer: *mut libc::stat) -> c_int {
    // SAFETY: libc's own path and room.
    unsafe { stat::stat(path, answer) }
}

unsafe extern "C" fn glob_lstat(path: *const c_char, answer: *mut libc::stat) -> c_int {
    // SAFETY: libc's own path and room.
    unsafe { stat::lstat(path, answer) }
}

/// `glob(3)`. libc's own function runs, with directory functions that see the store.
pub(crate) unsafe fn glob(
    pattern: *const c_char,
    flags: c_int,
    failed: *mut c_void,
    result: *mut c_void,
) -> c_int {
    // SAFETY: see `realpath`. The functions have the types that libc calls.
    unsafe {
        if session::mode() != Mode::Prefix || guard::is_inside() || flags & GLOB_ALTERNATIVE != 0 {
            return real::glob(pattern, flags, failed, result);
        }
        let parts = result.cast::<Glob>();
        (&raw mut (*parts).close).cast::<usize>().write(glob_close as *const () as usize);
        (&raw mut (*parts).read).cast::<usize>().write(glob_read as *const () as usize);
        (&raw mut (*parts).open).cast::<usize>().write(glob_open as *const () as usize);
        (&raw mut (*parts).lstat).cast::<usize>().write(glob_lstat as *const () as usize);
        (&raw mut (*parts).stat).cast::<usize>().write(glob_stat as *const () as usize);
        let answer = real::glob(pattern, flags | GLOB_ALTERNATIVE, failed, result);
        (*parts).flags &= !GLOB_ALTERNATIVE;
        answer
    }
}

/// `struct FTW`.
#[repr(C)]
pub(crate) struct Position {
    base: c_int,
    level: c_int,
}

/// The function that `nftw` calls. A function for `ftw` does not look at the position.
pub(crate) type Visit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut Position) -> c_int;

/// `nftw(3)`, and `ftw(3)` without flags.
pub(crate) unsafe fn walk_tree(
    path: *const c_char,
    visit: Visit,
    flags: c_int,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: see `realpath`.
    unsafe {
        if !is_ours(path) {
            return pass();
        }
        if flags & (FTW_CHDIR | FTW_ACTIONRETVAL) != 0 {
            return fail(libc::EOPNOTSUPP);
        }
        visit_node(CStr::from_ptr(path).to_bytes(), visit, flags, 0)
    }
}

unsafe fn visit_node(path: &[u8], visit: Visit, flags: c_int, level: c_int) -> c_int {
    let Ok(name) = CString::new(path) else { return fail(libc::EINVAL) };
    // SAFETY: see `realpath`. Zeros are valid for the structure of numbers.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let physical = flags & FTW_PHYS != 0;
        let status = if physical {
            stat::lstat(name.as_ptr(), &raw mut found)
        } else {
            stat::stat(name.as_ptr(), &raw mut found)
        };
        let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let mut position = Position { base: base as c_int, level };
        let mut call = |kind| visit(name.as_ptr(), &raw const found, kind, &raw mut position);
        if status != 0 {
            return if level == 0 { -1 } else { call(FTW_NS) };
        }
        match found.st_mode & libc::S_IFMT {
            libc::S_IFLNK => return call(FTW_SL),
            libc::S_IFDIR => {}
            _ => return call(FTW_F),
        }
        let directory = directories::opendir(name.as_ptr());
        if directory.is_null() {
            return call(FTW_DNR);
        }
        let late = flags & FTW_DEPTH != 0;
        let mut result = if late { 0 } else { call(FTW_D) };
        let children = if result == 0 { children_of(directory) } else { Vec::new() };
        directories::closedir(directory);
        for child in children {
            if result != 0 {
                break;
            }
            let separator: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
            result = visit_node(&[path, separator, &child].concat(), visit, flags, level + 1);
        }
        if result == 0 && late {
            result = call(FTW_DP);
        }
        result
    }
}

unsafe fn children_of(directory: *mut DIR) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    // SAFETY: the caller opened the stream.
    unsafe {
        loop {
            let entry = directories::readdir(directory);
            if entry.is_null() {
                return names;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
    }
}

/// Ends the program where the buffer of a fortified form is too short, as glibc does.
pub(crate) fn check_room(needed: usize, room: usize) {
    if needed > room {
        // SAFETY: a program with fortified forms asks to be stopped here.
        unsafe { real::__chk_fail() };
    }
}
