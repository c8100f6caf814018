//! `dlopen` of libraries that lie in the store. The dynamic linker opens files by its own calls, so it gets an image of the
//! library, and beforehand those of the libraries that the library needs and that lie in the store, too.

use crate::calls::dependencies::{self, Object};
use crate::calls::library_images::{at, named, note_loaded, of_bytes, Library, Use, Version};
use crate::files::{paths, tree, working_directory};
use crate::host::elf::{self, Needs};
use crate::host::guard::{self, quietly};
use crate::host::{kernel, linker_cache, real};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::OnceLock;

/// The folders of the `LD_LIBRARY_PATH` that the dynamic linker has read.
static LIBRARY_PATH: OnceLock<Vec<Vec<u8>>> = OnceLock::new();

/// Notes the environment of the process's start: `LD_LIBRARY_PATH`, and the libraries of the store that the process started
/// with, by their versions and the paths at which the dynamic linker has loaded them.
pub(crate) fn learn(library_path: Option<&[u8]>, loaded: impl Iterator<Item = (Version, CString)>) {
    quietly(|| {
        let _ = LIBRARY_PATH.set(dependencies::folders_of(library_path.unwrap_or_default()));
        loaded.for_each(|(version, name)| note_loaded(version, name));
    });
}

/// The name and the function with which a call of `dlopen` goes on.
#[repr(C)]
pub(crate) struct Target {
    name: *const c_char,
    function: *mut c_void,
}

/// Finds the library of a `dlopen`. libc's function follows by a jump, because it looks at its caller's address.
pub(crate) unsafe extern "C" fn target(name: *const c_char, flags: c_int) -> Target {
    let function = real::dlopen_address();
    let unchanged = Target { name, function };
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return unchanged;
    }
    // SAFETY: the program's own promise.
    let Some(text) = (unsafe { paths::text(name) }) else { return unchanged };
    let mut library = None;
    let mut bundle = None;
    quietly(|| {
        library = if text.contains(&b'/') { at(text, Use::Here) } else { None };
        if flags & libc::RTLD_NOLOAD == 0 && library.is_none_or(Library::begins) {
            bundle = needed(text, library);
        }
    });
    if let Some(bundle) = bundle {
        // It stays loaded. A failure is told by the program's call, which needs the libraries.
        // SAFETY: the name ends with a zero byte and lives as long as the library. Constructors run as in the program's call.
        unsafe { real::dlopen(bundle.name().as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    }
    Target { name: library.map_or(name, |library| library.name().as_ptr()), function }
}

/// A stub that needs all libraries of the store which this process needs for the `dlopen` of `text`, if there are any. They
/// are found at once, so libraries may need each other in a circle.
fn needed(text: &[u8], library: Option<&'static Library>) -> Option<&'static Library> {
    let path = absolute(text)?;
    let folders = LIBRARY_PATH.get().map_or(&[][..], Vec::as_slice);
    let root = match library {
        Some(library) => Object::of_store(&path, library),
        None => Object::new(&path, needs_of_host(text)?),
    };
    let found = dependencies::of_store(root, folders, Use::Here, is_loaded);
    let names: Vec<&'static Library> =
        found.iter().filter_map(|(name, library)| named(name, library, library.name().to_bytes())).collect();
    let paths: Vec<&[u8]> = names.iter().map(|library| library.name().to_bytes()).collect();
    if paths.is_empty() {
        return None;
    }
    of_bytes(elf::stub(None, &paths))
}

/// The needs of what `dlopen` opens by `text`: a library of the host by its path, else any library that has this name.
fn needs_of_host(text: &[u8]) -> Option<Needs> {
    if !text.contains(&b'/') {
        return Some(Needs { names: vec![text.to_vec()], ..Needs::default() });
    }
    if tree::is_candidate(libc::AT_FDCWD, text) {
        return None;
    }
    let file = linker_cache::open(text)?;
    let needs = elf::needs(file);
    kernel::close(file);
    needs
}

fn absolute(path: &[u8]) -> Option<Vec<u8>> {
    if path.first() == Some(&b'/') || !path.contains(&b'/') {
        return Some(path.to_vec());
    }
    let folder = working_directory::current_path().or_else(kernel::working_directory)?;
    Some([folder.as_slice(), b"/", path].concat())
}

/// Whether this process has loaded a library of that name.
fn is_loaded(name: &[u8]) -> bool {
    let Ok(name) = CString::new(name) else { return true };
    // SAFETY: the name ends with a zero byte. Nothing is loaded, and the count of users is put back.
    unsafe {
        let handle = real::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !handle.is_null() && libc::dlclose(handle) == 0
    }
}
