//! The memory that processes share: the one place with `unsafe`.

use crate::format::{FILE_BYTES, WORDS};
use rustix::io::Errno;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

/// A file of windows in memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *const AtomicU64,
}

// SAFETY: the memory is shared by atomic numbers alone, and stays mapped until the value is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of `FILE_BYTES` bytes, all of which are allocated, so that no access finds the file system full.
    pub(crate) fn new(file: &OwnedFd) -> Result<Mapping, Errno> {
        // SAFETY: the kernel chooses a place that nothing uses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                FILE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Mapping { start: start.cast::<AtomicU64>().cast_const() })
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, begins at a page, and is read and written by atomic numbers alone. Only this user
        // can shorten the file, and no program of Weir does.
        unsafe { std::slice::from_raw_parts(self.start, WORDS) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and nobody borrows its words any more. The call cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), FILE_BYTES) };
    }
}
