//! Programs that lie in the store, in a form that the kernel can execute where it does not know the store.

use crate::calls::copies::{self, Program};
use crate::calls::dependencies::{self, Object};
use crate::calls::environments::{path_for, Environment, Start, Strings};
use crate::calls::library_images::{self, Use};
use crate::calls::stat;
use crate::files::resolution::{resolve, Rules};
use crate::files::{paths, tree, working_directory};
use crate::host::guard::{self, attempt, quietly, Outcome};
use crate::host::{addresses, elf, kernel, linker_cache};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

/// Scripts that interpret each other, as the kernel allows (`exec_binprm`).
const INTERPRETERS: usize = 5;
/// Lowest number of an image's descriptor, so that the actions of a spawn seldom replace it.
const OUT_OF_THE_WAY: c_int = 700;

/// A program that the kernel can execute.
pub(crate) struct Prepared<'a> {
    path: CString,
    /// The arguments of a script's interpreter: those that stand before the program's own, which begin behind the first.
    before: Vec<CString>,
    arguments: Strings,
    environment: Environment<'a>,
    /// The memfd of the path, or -1.
    image: c_int,
    /// The memfds of libraries that go with an exec.
    libraries: Vec<c_int>,
}

impl Prepared<'_> {
    /// Runs `execute` with the path, the arguments and the environment.
    pub(crate) fn run(self, execute: impl FnOnce(*const c_char, Strings, Strings) -> c_int) -> c_int {
        let mut list: Vec<*const c_char> = Vec::new();
        let mut environment: Vec<*const c_char> = Vec::new();
        quietly(|| {
            environment = self.environment.list();
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
        self.libraries.iter().for_each(|library| kernel::set_descriptor_flags(*library, 0));
        let result = execute(self.path.as_ptr(), arguments, environment.as_ptr());
        let number = guard::errno();
        self.libraries.iter().for_each(|library| kernel::set_descriptor_flags(*library, libc::FD_CLOEXEC));
        if self.image >= 0 {
            kernel::close(self.image);
        }
        // The library's heap is only touched while signals are held back.
        quietly(|| drop((self, list, environment)));
        guard::set_errno(number);
        result
    }
}

/// The program at `path`, if it lies in the store, or needs libraries that do. With `search`, a name without a slash is looked
/// for as by `execvp(3)`. `None` where the kernel, or libc, finds everything itself.
///
/// # Safety
/// `path` is null or ends with a zero byte; the lists are null-terminated, and nobody changes them while the answer is in use.
pub(crate) unsafe fn prepared<'a>(
    path: *const c_char,
    search: bool,
    (arguments, environment): (Strings, Strings),
    start: Start,
) -> Option<Result<Prepared<'a>, c_int>> {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return None;
    }
    // SAFETY: as the caller promises.
    let text = unsafe { paths::text(path) }?;
    // SAFETY: as the caller promises.
    let found = if search && !text.contains(&b'/') { unsafe { found(text, environment) } } else { None };
    let text = found.as_ref().map_or(text, |found| found.to_bytes());
    let prepared = attempt(|| {
        // SAFETY: as the caller promises. The kernel tells bad addresses.
        let environment = unsafe { Environment::read(environment) }?;
        if !text.contains(&b'/') {
            return None;
        }
        let program = match interpreted(text, environment.has_library(), start)? {
            Ok(program) => program,
            Err(number) => return Some(Err(number)),
        };
        let mut prepared = Prepared {
            path: program.path,
            before: program.before,
            arguments,
            environment,
            image: program.image,
            libraries: Vec::new(),
        };
        let needs_libraries = match program.object {
            Some(object) => add_libraries(&mut prepared, object, start),
            None => false,
        };
        (program.is_changed || needs_libraries).then_some(Ok(prepared))
    });
    quietly(|| drop(found));
    prepared
}

/// Whether the program at `path` loads this library: it is linked dynamically, or a script whose interpreter is.
///
/// # Safety
/// As for [`prepared`].
pub(crate) unsafe fn loads_library(path: *const c_char, search: bool, environment: Strings) -> bool {
    // SAFETY: as the caller promises.
    let (text, read) = unsafe { (paths::text(path), Environment::read(environment)) };
    let (Some(text), true) = (text, read.is_some_and(|read| read.has_library())) else { return false };
    let folders = std::env::var_os("PATH").filter(|_| search && !text.contains(&b'/')).unwrap_or_default();
    let places = folders.as_bytes().split(|byte| *byte == b':').map(|folder| match folder {
        b"" => text.to_vec(),
        folder => [folder, b"/", text].concat(),
    });
    let first = places
        .filter_map(|place| CString::new(place).ok())
        .find(|place| kernel::may_execute(place) && !kernel::gains_privileges(place));
    first.is_some_and(
        |place| matches!(on_host(&place, true), OnHost::Other(Some(object)) if object.is_dynamic()),
    )
}

/// Has the dynamic linker load the libraries of the store that a program needs. Answers whether there are any.
fn add_libraries(prepared: &mut Prepared<'_>, object: Object<'_>, start: Start) -> bool {
    if !prepared.environment.has_library() {
        return false;
    }
    let folders = dependencies::folders_of(prepared.environment.library_path());
    let mut added = Vec::new();
    for (name, library) in dependencies::of_store(object, &folders, Use::Elsewhere, |_| false) {
        let Some(descriptor) = library.descriptor() else { continue };
        let path = path_for(descriptor, start);
        let Some(named) = library_images::named(&name, library, path.as_bytes()) else { continue };
        let Some(other) = named.descriptor() else { continue };
        added.push((library.version(), path));
        prepared.libraries.push(descriptor);
        if other != descriptor {
            added.push((None, path_for(other, start)));
            prepared.libraries.push(other);
        }
    }
    if start == Start::Spawn {
        // The child opens them by this process's descriptors.
        prepared.libraries.clear();
    }
    if !added.is_empty() {
        prepared.environment.add_libraries(&added);
    }
    !added.is_empty()
}

/// The end of a chain of scripts that interpret each other.
struct Interpreted {
    path: CString,
    before: Vec<CString>,
    image: c_int,
    /// The program, where it can be read and is no script.
    object: Option<Object<'static>>,
    /// Whether the kernel gets something else than it was given.
    is_changed: bool,
}

fn interpreted(path: &[u8], has_library: bool, start: Start) -> Outcome<Interpreted> {
    let mut path = path.to_vec();
    let mut before: Vec<CString> = Vec::new();
    for _ in 0..INTERPRETERS {
        let is_changed = !before.is_empty();
        let found = if tree::is_candidate(libc::AT_FDCWD, &path) {
            copies::program(&path, has_library)
        } else {
            None
        };
        let (interpreter, argument) = match found {
            Some(Err(number)) => return Some(Err(number)),
            Some(Ok(Program::Image(image))) => {
                return Some(Ok(of_image(&path, image, before, start)?));
            }
            Some(Ok(Program::Script(interpreter, argument))) => (interpreter, argument),
            None | Some(Ok(Program::Host(_))) => {
                let is_changed = is_changed || found.is_some();
                let host = match found {
                    Some(Ok(Program::Host(host))) => host,
                    _ => CString::new(path).ok()?,
                };
                match on_host(&host, has_library) {
                    OnHost::Script(interpreter, argument) => {
                        path = host.into_bytes();
                        (interpreter, argument)
                    }
                    OnHost::Other(object) => {
                        return Some(Ok(Interpreted { path: host, before, image: -1, object, is_changed }));
                    }
                }
            }
        };
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
    Some(Err(libc::ELOOP))
}

/// A program of the store in a memfd.
fn of_image(path: &[u8], image: c_int, before: Vec<CString>, start: Start) -> Option<Interpreted> {
    // The interpreter of a script opens the image by its number after the exec.
    let goes = kernel::descriptor_flags(image) & libc::FD_CLOEXEC != 0;
    let image = if goes { kernel::out_of_the_way(image, OUT_OF_THE_WAY) } else { image };
    let object = elf::needs(image).map(|needs| Object::new(&in_store(path), needs));
    let name = if goes { path_for(image, start) } else { format!("/proc/self/fd/{image}") };
    let path = CString::new(name).ok()?;
    Some(Interpreted { path, before, image, object, is_changed: true })
}

/// The path of a file of the store without symbolic links, as `/proc/self/exe` would show it.
fn in_store(path: &[u8]) -> Vec<u8> {
    let whole = match working_directory::current_path().filter(|_| path.first() != Some(&b'/')) {
        Some(folder) => [folder.as_slice(), b"/", path].concat(),
        None => path.to_vec(),
    };
    let clean = tree::cleaned(&whole);
    let walked = session::below_root(&clean).zip(session::store());
    match walked.and_then(|(below, store)| resolve(store, b"", below, Rules::default()).ok()) {
        Some(below) => [session::root(), b"/", &below].concat(),
        None => clean,
    }
}

/// A program of the host.
enum OnHost {
    /// A script whose interpreter lies in the store.
    Script(CString, Option<CString>),
    /// The kernel finds all but libraries.
    Other(Option<Object<'static>>),
}

/// Looks at a program of the host. Scripts whose interpreter is the host's are the kernel's; their interpreter may need libraries.
fn on_host(path: &CStr, has_library: bool) -> OnHost {
    let mut path = path.to_owned();
    for turn in 0..INTERPRETERS {
        let Some(file) = linker_cache::open(path.to_bytes()) else { return OnHost::Other(None) };
        let needs = elf::needs(file);
        let real = kernel::path_of(file);
        let script = if needs.is_none() { copies::interpreter_of_host(file) } else { None };
        kernel::close(file);
        if let Some((needs, real)) = needs.zip(real) {
            return OnHost::Other(Some(Object::new(&real, needs)));
        }
        let Some((interpreter, argument)) = script else { return OnHost::Other(None) };
        if tree::is_candidate(libc::AT_FDCWD, interpreter.to_bytes()) {
            let is_ours = turn == 0 && has_library && kernel::may_execute(&path);
            return if is_ours { OnHost::Script(interpreter, argument) } else { OnHost::Other(None) };
        }
        path = interpreter;
    }
    OnHost::Other(None)
}

/// The path at which `execvp` finds a name, where the search or the program's libraries may lead into the store.
///
/// # Safety
/// The list is null-terminated, and nobody changes it meanwhile.
unsafe fn found(name: &[u8], environment: Strings) -> Option<CString> {
    let mut found = None;
    quietly(|| {
        let Some(folders) = std::env::var_os("PATH") else { return };
        let folders: Vec<&[u8]> = folders.as_bytes().split(|byte| *byte == b':').collect();
        // SAFETY: as the caller promises.
        let Some(environment) = (unsafe { Environment::read(environment) }) else { return };
        let libraries = dependencies::folders_of(environment.library_path());
        let mut all = folders.iter().copied().chain(libraries.iter().map(Vec::as_slice));
        if all.any(|folder| tree::is_candidate(libc::AT_FDCWD, folder)) {
            let path = |folder: &&[u8]| {
                let folder = if folder.is_empty() { b"." } else { *folder };
                CString::new([folder, b"/", name].concat()).ok()
            };
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
        answer = first.map(|index| paths[index].clone());
        drop(paths);
    });
    answer
}
