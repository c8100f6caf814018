//! Environments of programs that are about to start, and in them the libraries of the store that the dynamic linker loads
//! before the programs start.

use crate::calls::library_images::Version;
use crate::host::{addresses, kernel};
use libc::{c_char, c_int};
use std::ffi::CString;
use weir_client::wire::{Ino, Moment};

/// A null-terminated list of C strings, in the form of `exec`.
pub(crate) type Strings = *const *const c_char;

/// Longest string of an environment (`MAX_ARG_STRLEN`); the kernel refuses longer ones.
const ENTRY_BYTES: usize = 131_072;
/// The variable that names the libraries of the store among those of `LD_PRELOAD`.
const LIBRARIES: &[u8] = b"WEIR_LIBRARIES=";
const PRELOADED: &[u8] = b"LD_PRELOAD=";
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH=";
/// The way in which a program starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// In the place of this process.
    Exec,
    /// As a child.
    Spawn,
}

/// The folder of descriptors that a program has from its own exec. This process's own libraries have another spelling of it,
/// so names of both never meet.
const INHERITED: &str = "/proc/self/./fd/";

/// The environment of a program that is about to start.
pub(crate) struct Environment<'a> {
    given: Vec<(*const c_char, &'a [u8])>,
    made: Vec<CString>,
}

impl<'a> Environment<'a> {
    /// Reads an environment. `None` where an address is bad, which the kernel tells.
    ///
    /// # Safety
    /// `list` is a null-terminated list of C strings, which nobody changes while the result is in use.
    pub(crate) unsafe fn read(list: Strings) -> Option<Environment<'a>> {
        let mut given = Vec::new();
        let mut cursor = list;
        // SAFETY: as the caller promises. The addresses are checked first, because some may be bad.
        unsafe {
            while addresses::can_read(cursor, 1) {
                if (*cursor).is_null() {
                    return Some(Environment { given, made: Vec::new() });
                }
                match addresses::string(*cursor, ENTRY_BYTES) {
                    Err(libc::EFAULT) => return None,
                    text => given.push((*cursor, text.unwrap_or_default())),
                }
                cursor = cursor.add(1);
            }
        }
        None
    }

    /// The non-empty value of a variable, whose name ends with `=`.
    pub(crate) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let made = self.made.iter().map(|entry| entry.to_bytes());
        let mut all = made.chain(self.given.iter().map(|(_, text)| *text));
        all.find_map(|text| text.strip_prefix(name)).filter(|value| !value.is_empty())
    }

    /// Removes a variable, whose name ends with `=`.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        self.given.retain(|(_, text)| !text.starts_with(name));
        self.made.retain(|entry| !entry.to_bytes().starts_with(name));
    }

    /// Sets a variable, whose name ends with `=`.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.made.extend(CString::new([name, value].concat()));
    }

    /// The addresses of the strings, with a null at their end. They are good as long as the environment.
    pub(crate) fn list(&self) -> Vec<*const c_char> {
        let made = self.made.iter().map(|entry| entry.as_ptr());
        self.given.iter().map(|(entry, _)| *entry).chain(made).chain([std::ptr::null()]).collect()
    }

    /// Removes the libraries that this process started with, and that its children do not have.
    pub(crate) fn forget_libraries(&mut self) {
        let Some(value) = self.value(LIBRARIES) else { return };
        let names: Vec<&[u8]> = value
            .split(|byte| *byte == b' ')
            .filter_map(|entry| entry.split(|byte| *byte == b',').next())
            .collect();
        let preloaded = self.value(PRELOADED).unwrap_or_default();
        let left: Vec<&[u8]> = preloaded.split(is_gap).filter(|name| !names.contains(name)).collect();
        let left = left.join(&b':');
        self.remove(LIBRARIES);
        self.set(PRELOADED, &left);
    }

    /// Has the dynamic linker load these before the program starts, each by its path. The version tells the program which
    /// file of the store it has loaded.
    pub(crate) fn add_libraries(&mut self, libraries: &[(Option<Version>, String)]) {
        let entry = |(version, path): &(Option<Version>, String)| match version {
            Some((ino, modified, size)) => {
                format!("{path},{:x},{},{},{size}", ino.0, modified.seconds, modified.nanoseconds)
            }
            None => path.clone(),
        };
        let words: Vec<String> = libraries.iter().map(entry).collect();
        let own = self.value(PRELOADED).unwrap_or_default();
        let paths = libraries.iter().map(|(_, path)| path.as_bytes());
        let preloaded = [own].into_iter().chain(paths).collect::<Vec<&[u8]>>().join(&b':');
        self.set(PRELOADED, &preloaded);
        self.set(LIBRARIES, words.join(" ").as_bytes());
    }

    /// Whether programs with this environment load a library beforehand, as this process did.
    pub(crate) fn has_library(&self) -> bool {
        self.value(PRELOADED).is_some()
    }

    /// The value of `LD_LIBRARY_PATH`.
    pub(crate) fn library_path(&self) -> &[u8] {
        self.value(LIBRARY_PATH).unwrap_or_default()
    }
}

/// The characters between names in `LD_PRELOAD`.
fn is_gap(byte: &u8) -> bool {
    matches!(byte, b':' | b' ')
}

/// The path by which a program opens a library: its own descriptor, which it has from its exec, or the descriptor of the process
/// that spawns it, because a spawn may close descriptors.
pub(crate) fn path_for(descriptor: c_int, start: Start) -> String {
    match start {
        Start::Exec => format!("{INHERITED}{descriptor}"),
        Start::Spawn => format!("/proc/{}/fd/{descriptor}", kernel::process_id()),
    }
}

/// The libraries of the store with which this process started, by the value of their variable.
pub(crate) fn loaded(value: &[u8]) -> impl Iterator<Item = (Version, CString)> + '_ {
    value.split(|byte| *byte == b' ').filter_map(|entry| {
        let mut words = std::str::from_utf8(entry).ok()?.split(',');
        let path = words.next()?;
        if let Some(number) = path.strip_prefix(INHERITED).and_then(|number| number.parse().ok()) {
            // The dynamic linker has mapped the library.
            kernel::close(number);
        }
        let ino = Ino(u64::from_str_radix(words.next()?, 16).ok()?);
        let modified =
            Moment { seconds: words.next()?.parse().ok()?, nanoseconds: words.next()?.parse().ok()? };
        Some(((ino, modified, words.next()?.parse().ok()?), CString::new(path).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = (Ino(0x1_0000_0000_0001), Moment { seconds: 5, nanoseconds: 7 }, 4096);

    fn value(environment: &Environment<'_>, name: &[u8]) -> String {
        String::from_utf8(environment.value(name).unwrap_or_default().to_vec()).expect("words")
    }

    #[test]
    fn libraries_are_added_told_and_forgotten() {
        let given = [c"A=b", c"LD_PRELOAD=libweir.so other.so", c"WEIR_CWD=1:x"];
        let mut list: Vec<*const c_char> = given.iter().map(|entry| entry.as_ptr()).collect();
        list.push(std::ptr::null());
        // SAFETY: the list ends with a null.
        let mut environment = unsafe { Environment::read(list.as_ptr()) }.expect("readable");
        let path = "/proc/1/fd/700".to_owned();
        environment.add_libraries(&[(Some(VERSION), path.clone()), (None, "/proc/1/fd/701".to_owned())]);
        assert_eq!(value(&environment, PRELOADED), "libweir.so other.so:/proc/1/fd/700:/proc/1/fd/701");
        let told: Vec<_> = loaded(environment.value(LIBRARIES).expect("set")).collect();
        assert_eq!(told, [(VERSION, CString::new(path).expect("a path"))]);
        environment.forget_libraries();
        assert_eq!(value(&environment, PRELOADED), "libweir.so:other.so");
        assert!(environment.value(LIBRARIES).is_none() && environment.has_library());
        assert_eq!(environment.list().len(), 4);
        assert!(loaded(b"x,zz :,,,").next().is_none());
    }
}
