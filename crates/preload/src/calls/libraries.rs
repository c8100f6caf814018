//! Shared libraries that lie in the store. The dynamic linker opens files by its own calls, so it gets a sealed memfd of the
//! library's bytes, and those libraries beforehand that the library needs and that lie in the store, too.

use crate::calls::copies;
use crate::files::paths::{self, Touch};
use crate::files::tree::{self, Located};
use crate::files::working_directory;
use crate::host::guard::{self, attempt, quietly, Outcome};
use crate::host::real;
use crate::store::identity;
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int, c_void};
use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use weir_client::wire::{Ino, Moment, OpenFlags};
use weir_client::{File, Place};

/// Libraries that need each other in a chain. Real chains are far shorter; the bound ends a circle.
const DEPTH: u32 = 32;

/// A library that this process has opened. The memfd stays open, so its name stays its own, and the dynamic linker finds a
/// library that is opened twice by that name. An entry is never freed, so the list needs no lock, also in a child of `fork`.
struct Library {
    /// The file and its version.
    version: (Ino, Moment, u64),
    /// `/proc/self/fd/N`.
    name: CString,
    needs: elf::Needs,
    /// Whether the needed libraries were opened.
    is_prepared: AtomicBool,
    next: *mut Library,
}

static LIBRARIES: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());

fn each() -> impl Iterator<Item = &'static Library> {
    // SAFETY: entries are never freed, and their links never change.
    std::iter::successors(unsafe { LIBRARIES.load(Ordering::Acquire).as_ref() }, |one| unsafe {
        one.next.as_ref()
    })
}

/// The name and the function with which a call of `dlopen` goes on.
#[repr(C)]
pub(crate) struct Target {
    name: *const c_char,
    function: *mut c_void,
}

/// Finds the library of a `dlopen`. libc's function follows by a jump, because it looks at its caller's address.
pub(crate) unsafe extern "C" fn target(name: *const c_char, _flags: c_int) -> Target {
    let function = real::dlopen_address();
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return Target { name, function };
    }
    // SAFETY: the program's own promise.
    let text = unsafe { paths::text(name) }.filter(|text| text.contains(&b'/'));
    let found = text.and_then(|text| opened(text, 0));
    Target { name: found.map_or(name, |library| library.name.as_ptr()), function }
}

/// The library at a path of the store, after those that it needs were opened. `None` where the dynamic linker finds the file
/// itself, or is to tell why there is none.
fn opened(path: &[u8], depth: u32) -> Option<&'static Library> {
    if !tree::is_candidate(libc::AT_FDCWD, path) {
        return None;
    }
    let Some(Ok(library)) = attempt(|| library_at(path)) else { return None };
    if depth < DEPTH && !library.is_prepared.swap(true, Ordering::AcqRel) {
        let mut needed: Vec<Vec<Vec<u8>>> = Vec::new();
        quietly(|| needed = candidates(path, library));
        for places in &needed {
            if let Some(found) = places.iter().find_map(|place| opened(place, depth + 1)) {
                // The dynamic linker finds the open library by its SONAME. A failure is told by the call that needs it.
                // SAFETY: the name ends with a zero byte and lives as long as the library. Its constructors run as they
                // would in the program's call.
                unsafe { real::dlopen(found.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
            }
        }
        quietly(|| drop(needed));
    }
    Some(library)
}

/// For each needed library, the paths below the prefix at which it may lie.
fn candidates(path: &[u8], library: &Library) -> Vec<Vec<Vec<u8>>> {
    let whole = if path.first() == Some(&b'/') {
        path.to_vec()
    } else {
        let Some(current) = working_directory::current_path() else { return Vec::new() };
        [current.as_slice(), b"/", path].concat()
    };
    let end = whole.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let origin = &whole[..end];
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let own = library.needs.folders.iter().map(|place| with_origin(place, origin));
    let folders: Vec<Vec<u8>> = own
        .chain(variable.as_bytes().split(|byte| matches!(byte, b':' | b';')).map(<[u8]>::to_vec))
        .collect();
    let below = |name: &Vec<u8>| {
        let path = |folder: &Vec<u8>| tree::cleaned(&[folder.as_slice(), b"/", name].concat());
        folders.iter().map(path).filter(|path| session::below_root(path).is_some()).collect()
    };
    library.needs.names.iter().filter(|name| !name.contains(&b'/')).map(below).collect()
}

/// A place of a library's search path, in which `$ORIGIN` stands for the library's folder.
fn with_origin(place: &[u8], origin: &[u8]) -> Vec<u8> {
    for mark in [b"${ORIGIN}".as_slice(), b"$ORIGIN"] {
        if let Some(at) = place.windows(mark.len()).position(|part| part == mark) {
            return [&place[..at], origin, &place[at + mark.len()..]].concat();
        }
    }
    place.to_vec()
}

fn library_at(path: &[u8]) -> Outcome<&'static Library> {
    let Located::Store(ino, rest) = paths::locate(libc::AT_FDCWD, path, Touch::Node) else { return None };
    let store = match identity::store()? {
        Ok(store) => store,
        Err(number) => return Some(Err(number)),
    };
    let wanted = OpenFlags { read: true, ..OpenFlags::default() };
    // A link that leaves the store is the dynamic linker's, by its host path, where the program gives that path.
    let file = match store
        .open(&CALLER, Place { ino, path: &rest }, wanted, 0)
        .and_then(|opened| File::new(store, opened, false))
    {
        Ok(file) => file,
        Err(error) => return Some(Err(error.errno())),
    };
    let library = session::outcome(file.attributes(&CALLER)).map(|told| {
        let told = told?;
        let version = (told.ino, told.modified, told.size_bytes);
        match each().find(|known| known.version == version) {
            Some(known) => Ok(known),
            None => made(&file, version),
        }
    });
    // The bytes are copied. A lost server forgets the description.
    let _ = file.close(&CALLER);
    library
}

fn made(file: &File, version: (Ino, Moment, u64)) -> Result<&'static Library, c_int> {
    let (memory, bytes) = copies::sealed(file)?;
    // SAFETY: the kernel has just made the descriptor, and no other code knows its number.
    let kept = weir_client::keep_descriptor(unsafe { OwnedFd::from_raw_fd(memory) });
    let number = kept.map_err(|error| error.raw_os_error())?;
    let name = CString::new(format!("/proc/self/fd/{number}")).map_err(|_| libc::EINVAL)?;
    let needs = elf::needs(&bytes).unwrap_or_default();
    let mut first = LIBRARIES.load(Ordering::Acquire);
    let library = Library { version, name, needs, is_prepared: AtomicBool::new(false), next: first };
    let made = Box::into_raw(Box::new(library));
    loop {
        match LIBRARIES.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the entry is leaked.
            Ok(_) => return Ok(unsafe { &*made }),
            Err(other) => {
                first = other;
                // SAFETY: no other thread has seen the entry.
                unsafe { (*made).next = first };
            }
        }
    }
}

/// The part of an ELF file that tells which libraries it needs (elf(5)), on 64-bit machines of little endian.
mod elf {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    const STRINGS: u64 = 5;
    const OLD_PATHS: u64 = 15;
    const PATHS: u64 = 29;
    /// Bytes of a program header, and of an entry of the dynamic section.
    const HEADER_BYTES: u64 = 56;
    const ENTRY_BYTES: u64 = 16;

    fn number(bytes: &[u8], at: u64, length: usize) -> Option<u64> {
        let start = usize::try_from(at).ok()?;
        let part = bytes.get(start..start.checked_add(length)?)?;
        Some(part.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }

    fn string(bytes: &[u8], at: u64) -> Option<Vec<u8>> {
        bytes.get(usize::try_from(at).ok()?..)?.split(|byte| *byte == 0).next().map(<[u8]>::to_vec)
    }

    /// The libraries that a library needs.
    #[derive(Default)]
    pub(super) struct Needs {
        /// Their names.
        pub(super) names: Vec<Vec<u8>>,
        /// The folders in which the dynamic linker looks for them.
        pub(super) folders: Vec<Vec<u8>>,
    }

    /// The libraries that the file needs. `None` for other bytes.
    pub(super) fn needs(bytes: &[u8]) -> Option<Needs> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (table, count) = (number(bytes, 32, 8)?, number(bytes, 56, 2)?);
        let header = |index: u64, field: u64, length: usize| {
            number(bytes, table.checked_add(index * HEADER_BYTES + field)?, length)
        };
        let dynamic = (0..count).find(|index| header(*index, 0, 4) == Some(DYNAMIC))?;
        let (start, size) = (header(dynamic, 8, 8)?, header(dynamic, 32, 8)?);
        let entries: Vec<(u64, u64)> = (0..size / ENTRY_BYTES)
            .map_while(|index| {
                let at = start.checked_add(index * ENTRY_BYTES)?;
                Some((number(bytes, at, 8)?, number(bytes, at + 8, 8)?)).filter(|(tag, _)| *tag != 0)
            })
            .collect();
        let address = entries.iter().find(|(tag, _)| *tag == STRINGS)?.1;
        let strings = (0..count).find_map(|index| {
            let (from, length) = (header(index, 16, 8)?, header(index, 32, 8)?);
            let is_inside =
                header(index, 0, 4)? == LOAD && (from..from.checked_add(length)?).contains(&address);
            is_inside.then_some(header(index, 8, 8)?.checked_add(address - from)?)
        })?;
        let all = |wanted: u64| {
            let places = entries.iter().filter(move |(tag, _)| *tag == wanted);
            places.filter_map(|(_, at)| string(bytes, strings.checked_add(*at)?))
        };
        let paths: Vec<Vec<u8>> = all(PATHS).chain(all(OLD_PATHS)).collect();
        let folders = paths.iter().flat_map(|list| list.split(|byte| *byte == b':')).map(<[u8]>::to_vec);
        Some(Needs { names: all(NEEDED).collect(), folders: folders.collect() })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_real_program_tells_its_libraries_and_cut_bytes_tell_nothing_wrong() {
            let own = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
            let names = needs(&own).expect("an ELF file").names;
            assert!(names.iter().any(|name| name.starts_with(b"libc.so")), "{names:?}");
            for length in (0..4096.min(own.len())).step_by(7) {
                let _ = needs(&own[..length]);
            }
            assert!(needs(b"#!/bin/sh").is_none());
        }
    }
}
