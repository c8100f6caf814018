//! The places in which the dynamic linker finds libraries by itself: its cache (ldconfig(8)), then the folders of the system.

use crate::host::kernel;
use libc::c_int;
use std::ffi::CString;

/// The begin of the cache's present form (`dl-cache.h`). Older forms are left to the folders below.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// Bytes of the first read, and of the largest cache that is read: those of large systems have some hundred kilobytes.
const FIRST_BYTES: usize = 256 * 1024;
const CACHE_BYTES_MAX: usize = 64 << 20;

#[cfg(target_arch = "x86_64")]
const FOLDERS: [&[u8]; 6] =
    [b"/lib/x86_64-linux-gnu", b"/usr/lib/x86_64-linux-gnu", b"/lib64", b"/usr/lib64", b"/lib", b"/usr/lib"];
#[cfg(target_arch = "aarch64")]
const FOLDERS: [&[u8]; 6] = [
    b"/lib/aarch64-linux-gnu",
    b"/usr/lib/aarch64-linux-gnu",
    b"/lib64",
    b"/usr/lib64",
    b"/lib",
    b"/usr/lib",
];

/// The dynamic linker's cache, or nothing.
pub(crate) struct Cache(Vec<u8>);

impl Cache {
    /// Reads the cache of this machine.
    pub(crate) fn read() -> Cache {
        let opened = open(b"/etc/ld.so.cache");
        let bytes = opened.and_then(|cache| {
            let bytes = kernel::read_to_end(cache, FIRST_BYTES, CACHE_BYTES_MAX);
            kernel::close(cache);
            bytes
        });
        Cache(bytes.filter(|bytes| bytes.starts_with(MAGIC)).unwrap_or_default())
    }

    /// The paths at which a library of this name may lie, in the dynamic linker's order.
    pub(crate) fn paths(&self, name: &[u8]) -> Vec<Vec<u8>> {
        let count = self.number(MAGIC.len()).unwrap_or(0);
        let entries = (0..count).map_while(|index| {
            let at = HEADER_BYTES + index * ENTRY_BYTES;
            let is_for_all = self.0.get(at + 16..at + ENTRY_BYTES)?.iter().all(|byte| *byte == 0);
            Some((self.text(self.number(at + 4)?)?, self.text(self.number(at + 8)?)?, is_for_all))
        });
        let cached = entries.filter(|(key, _, is_for_all)| *is_for_all && *key == name);
        let folders = FOLDERS.iter().map(|folder| [folder, b"/".as_slice(), name].concat());
        cached.map(|(_, path, _)| path.to_vec()).chain(folders).collect()
    }

    fn number(&self, at: usize) -> Option<usize> {
        let word = self.0.get(at..at + 4)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*word)).ok()
    }

    fn text(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at..)?.split(|byte| *byte == 0).next()
    }
}

/// Opens a file of the host for the library's own use.
pub(crate) fn open(path: &[u8]) -> Option<c_int> {
    let path = CString::new(path).ok()?;
    // SAFETY: the path ends with a zero byte.
    unsafe { kernel::open(path.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found() {
        let paths = Cache::read().paths(b"libc.so.6");
        let found = paths.iter().find_map(|path| open(path)).expect("a C library");
        assert!(crate::host::elf::needs(found).is_some());
        kernel::close(found);
        assert_eq!(Cache(Vec::new()).paths(b"libx.so").len(), FOLDERS.len());
    }
}
