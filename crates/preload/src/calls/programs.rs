//! Programs that lie in the store, in a form that the kernel can execute where it does not know the store.

use crate::calls::copies::{self, Program};
use crate::calls::stat;
use crate::files::{paths, tree};
use crate::host::guard::{self, attempt, quietly};
use crate::host::{addresses, kernel};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// A null-terminated list of C strings, in the form of `exec`.
pub(crate) type Strings = *const *const c_char;

/// Scripts that interpret each other, as the kernel allows (`exec_binprm`).
const INTERPRETERS: usize = 5;
/// Longest argument (`MAX_ARG_STRLEN`).
const ARGUMENT_BYTES: usize = 131_072;
/// Lowest number of an image's descriptor, so that the actions of a spawn seldom replace it.
const OUT_OF_THE_WAY: c_int = 700;

/// A program that the kernel can execute.
pub(crate) struct Prepared {
    path: CString,
    /// The arguments of a script's interpreter: those that stand before the program's own, which begin behind the first.
    before: Vec<CString>,
    arguments: Strings,
    /// The memfd of the path, or -1.
    image: c_int,
}

impl Prepared {
    /// Runs `execute` with the path and the arguments.
    pub(crate) fn run(self, execute: impl FnOnce(*const c_char, Strings) -> c_int) -> c_int {
        let mut list: Vec<*const c_char> = Vec::new();
        quietly(|| {
            if self.before.is_empty() {
                return;
            }
            list.extend(self.before.iter().map(|word| word.as_ptr()));
            let mut cursor = self.arguments;
            // SAFETY: the list ends with a null pointer. The addresses are checked first, because some may be bad.
            unsafe {
                let mut is_first = true;
                while addresses::can_read(cursor, 1) && !(*cursor).is_null() {
                    if !is_first {
                        list.push(*cursor);
                    }
                    is_first = false;
                    cursor = cursor.add(1);
                }
            }
            list.push(std::ptr::null());
        });
        let arguments = if self.before.is_empty() { self.arguments } else { list.as_ptr() };
        let result = execute(self.path.as_ptr(), arguments);
        let number = guard::errno();
        if self.image >= 0 {
            kernel::close(self.image);
        }
        // The library's heap is only touched while signals are held back.
        quietly(|| drop((self, list)));
        guard::set_errno(number);
        result
    }
}

/// The program at `path`, if it lies in the store. With `search`, a name without a slash is looked for as by `execvp(3)`.
/// `None` where the kernel, or libc, finds the program itself.
///
/// # Safety
/// `path` is null or ends with a zero byte; the lists are null-terminated.
pub(crate) unsafe fn prepared(
    path: *const c_char,
    search: bool,
    (arguments, environment): (Strings, Strings),
) -> Option<Result<Prepared, c_int>> {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return None;
    }
    // SAFETY: as the caller promises.
    let text = unsafe { paths::text(path) }?;
    let found = if search && !text.contains(&b'/') { found_in_store(text) } else { None };
    let text = found.as_ref().map_or(text, |found| found.to_bytes());
    if !tree::is_candidate(libc::AT_FDCWD, text) || !text.contains(&b'/') {
        return None;
    }
    // SAFETY: as the caller promises.
    let has_library = unsafe { has_library(environment) };
    let prepared = attempt(|| interpreted(text, arguments, has_library));
    quietly(|| drop(found));
    prepared
}

fn interpreted(path: &[u8], arguments: Strings, has_library: bool) -> Option<Result<Prepared, c_int>> {
    let mut path = path.to_vec();
    let mut before: Vec<CString> = Vec::new();
    for turn in 0..INTERPRETERS {
        if turn > 0 && !tree::is_candidate(libc::AT_FDCWD, &path) {
            return Some(Ok(Prepared { path: CString::new(path).ok()?, before, arguments, image: -1 }));
        }
        match copies::program(&path, has_library)? {
            Err(number) => return Some(Err(number)),
            Ok(Program::Host(host)) => {
                return Some(Ok(Prepared { path: host, before, arguments, image: -1 }))
            }
            Ok(Program::Image(image)) => {
                // The interpreter of a script opens the image by its number after the exec.
                let goes = kernel::descriptor_flags(image) & libc::FD_CLOEXEC != 0;
                let image = if goes { kernel::out_of_the_way(image, OUT_OF_THE_WAY) } else { image };
                let path = CString::new(format!("/proc/self/fd/{image}")).ok()?;
                return Some(Ok(Prepared { path, before, arguments, image }));
            }
            Ok(Program::Script(interpreter, argument)) => {
                let script = CString::new(path).ok()?;
                // The script takes the place of the program's own name.
                if before.is_empty() {
                    before.push(script);
                } else {
                    before[0] = script;
                }
                before.splice(0..0, [Some(interpreter.clone()), argument].into_iter().flatten());
                path = interpreter.into_bytes();
            }
        }
    }
    Some(Err(libc::ELOOP))
}

/// The path at which `execvp` finds a name, if that is one of the store.
fn found_in_store(name: &[u8]) -> Option<CString> {
    let mut found = None;
    quietly(|| {
        let Some(folders) = std::env::var_os("PATH") else { return };
        let folders: Vec<&[u8]> = folders.as_bytes().split(|byte| *byte == b':').collect();
        if folders.iter().any(|folder| tree::is_candidate(libc::AT_FDCWD, folder)) {
            let path = |folder: &&[u8]| CString::new([folder, b"/".as_slice(), name].concat()).ok();
            found = Some(folders.iter().filter_map(path).collect::<Vec<CString>>());
        }
    });
    let paths = found?;
    let before = guard::errno();
    // SAFETY: the paths end with zero bytes.
    let first = paths
        .iter()
        .position(|path| unsafe { stat::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, 0) == 0 });
    guard::set_errno(before);
    let mut answer = None;
    quietly(|| {
        answer = first
            .map(|index| paths[index].clone())
            .filter(|path| tree::is_candidate(libc::AT_FDCWD, path.to_bytes()));
        drop(paths);
    });
    answer
}

/// Whether programs with this environment load a library beforehand, as this process did.
///
/// # Safety
/// The list is null-terminated, or null.
unsafe fn has_library(environment: Strings) -> bool {
    let mut cursor = environment;
    // SAFETY: as the caller promises. The addresses are checked first, because some may be bad.
    unsafe {
        while !cursor.is_null() && addresses::can_read(cursor, 1) && !(*cursor).is_null() {
            let entry = addresses::string(*cursor, ARGUMENT_BYTES).unwrap_or_default();
            if entry.strip_prefix(b"LD_PRELOAD=").is_some_and(|value| !value.is_empty()) {
                return true;
            }
            cursor = cursor.add(1);
        }
    }
    false
}
