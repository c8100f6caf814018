//! Images of the libraries of the store, which the dynamic linker of this process or of another one loads: sealed memfds.

use crate::calls::copies;
use crate::files::paths::{self, Touch};
use crate::files::tree::{self, Located};
use crate::host::elf::{self, Needs};
use crate::host::kernel;
use crate::store::identity;
use crate::store::session::CALLER;
use libc::c_int;
use std::ffi::{CStr, CString};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use weir_client::wire::{Ino, Moment, OpenFlags};
use weir_client::{File, Place};

/// The file and its version.
pub(crate) type Version = (Ino, Moment, u64);

/// The identity of a library.
#[derive(PartialEq, Eq)]
enum Key {
    File(Version),
    /// The bytes of a stub.
    Stub(Vec<u8>),
}

/// A library in a memfd. The memfd stays open, so its name stays its own, and the dynamic linker finds a library that is opened
/// twice by that name. An entry is never freed, so the list needs no lock, also in a child of `fork`.
pub(crate) struct Library {
    key: Key,
    /// The path by which the dynamic linker opens the library, or has opened it.
    name: CString,
    /// The memfd. None for a library that this program was started with.
    descriptor: Option<c_int>,
    needs: Needs,
    /// Whether the needed libraries were opened.
    is_prepared: AtomicBool,
    next: *mut Library,
}

// SAFETY: entries never change, but for the flag, and for the link before the entry is in the list.
unsafe impl Sync for Library {}

impl Library {
    /// The libraries that this one needs.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The file and its version, of a library that is no stub.
    pub(crate) fn version(&self) -> Option<Version> {
        match &self.key {
            Key::File(version) => Some(*version),
            Key::Stub(_) => None,
        }
    }

    /// The path by which this process's dynamic linker opens the library.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Whether the needed libraries are still to be opened. The answer is true once.
    pub(crate) fn begins(&self) -> bool {
        !self.is_prepared.swap(true, Ordering::AcqRel)
    }

    /// The memfd.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        self.descriptor
    }
}

/// The process that is to load a library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// This process, which may have loaded the library at its start.
    Here,
    /// A program that is about to start, which gets the memfd.
    Elsewhere,
}

static LIBRARIES: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());
fn each() -> impl Iterator<Item = &'static Library> {
    // SAFETY: entries are never freed, and their links never change.
    std::iter::successors(unsafe { LIBRARIES.load(Ordering::Acquire).as_ref() }, |one| unsafe {
        one.next.as_ref()
    })
}

/// Notes a library with which this program was started, and the path at which the dynamic linker has loaded it.
pub(crate) fn note_loaded(version: Version, name: CString) {
    enter(Key::File(version), name, None, Needs::default(), true);
}

/// What the dynamic linker finds by the name under which a library at `path` is needed: the library, or a stub of that name.
pub(crate) fn named(name: &[u8], library: &'static Library, path: &[u8]) -> Option<&'static Library> {
    if library.needs.soname.as_deref() == Some(name) {
        return Some(library);
    }
    of_bytes(elf::stub(Some(name), &[path]))
}

/// The library at a path of the store. `None` where there is none.
pub(crate) fn at(path: &[u8], purpose: Use) -> Option<&'static Library> {
    if !tree::is_candidate(libc::AT_FDCWD, path) {
        return None;
    }
    let Located::Store(ino, rest) = paths::locate(libc::AT_FDCWD, path, Touch::Node) else { return None };
    let store = identity::store()?.ok()?;
    let wanted = OpenFlags { read: true, ..OpenFlags::default() };
    // A link that leaves the store is the dynamic linker's, by its host path, where the program gives that path.
    let opened = store.open(&CALLER, Place { ino, path: &rest }, wanted, 0).ok()?;
    let file = File::new(store, opened, false).ok()?;
    let library = file.attributes(&CALLER).ok().and_then(|told| {
        let version = (told.ino, told.modified, told.size_bytes);
        known(&Key::File(version), purpose).or_else(|| {
            let memory = copies::sealed(&file).ok()?;
            let Some(needs) = elf::needs(memory) else {
                kernel::close(memory);
                return None;
            };
            kept(Key::File(version), memory, needs)
        })
    });
    // The bytes are copied. A lost server forgets the description.
    let _ = file.close(&CALLER);
    library
}

/// The stub of these bytes.
pub(crate) fn of_bytes(bytes: Vec<u8>) -> Option<&'static Library> {
    let key = Key::Stub(bytes);
    known(&key, Use::Elsewhere).or_else(|| {
        let Key::Stub(bytes) = &key else { return None };
        let memory = copies::sealed_bytes(bytes).ok()?;
        let needs = elf::needs(memory).unwrap_or_default();
        kept(key, memory, needs)
    })
}

fn known(key: &Key, purpose: Use) -> Option<&'static Library> {
    let alike = || each().filter(|library| library.key == *key);
    let at_start = alike().find(|library| library.descriptor.is_none()).filter(|_| purpose == Use::Here);
    at_start.or_else(|| alike().find(|library| library.descriptor.is_some()))
}

fn kept(key: Key, memory: c_int, needs: Needs) -> Option<&'static Library> {
    // SAFETY: the kernel has just made the descriptor, and no other code knows its number.
    let number = weir_client::keep_descriptor(unsafe { OwnedFd::from_raw_fd(memory) }).ok()?;
    let name = CString::new(format!("/proc/self/fd/{number}")).ok()?;
    Some(enter(key, name, Some(number), needs, false))
}

fn enter(
    key: Key,
    name: CString,
    descriptor: Option<c_int>,
    needs: Needs,
    is_prepared: bool,
) -> &'static Library {
    let mut first = LIBRARIES.load(Ordering::Acquire);
    let is_prepared = AtomicBool::new(is_prepared);
    let made = Box::into_raw(Box::new(Library { key, name, descriptor, needs, is_prepared, next: first }));
    loop {
        match LIBRARIES.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the entry is leaked.
            Ok(_) => return unsafe { &*made },
            Err(other) => {
                first = other;
                // SAFETY: no other thread has seen the entry.
                unsafe { (*made).next = first };
            }
        }
    }
}
