//! The memory of windows, which processes share, or which is of one process: the one place with `unsafe`.

use crate::format::WORDS;
use rustix::io::Errno;
use rustix::mm::{madvise, mmap, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

/// Bytes of a word.
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Words in memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *const AtomicU64,
    words: usize,
}

// SAFETY: the memory is shared by atomic numbers alone, and stays mapped until the value is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of windows, all of whose bytes are allocated, so that no access finds the file system full.
    pub(crate) fn of_file(file: &OwnedFd) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place that nothing uses.
        let start =
            unsafe { mmap(std::ptr::null_mut(), WORDS * WORD_BYTES, access, MapFlags::SHARED, file, 0)? };
        Ok(Mapping::at(start, WORDS))
    }

    /// Maps memory of this process alone, whose words are 0, and are 0 again in a child of `fork`.
    pub(crate) fn of_process(words: usize) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place that nothing uses.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), words * WORD_BYTES, access, MapFlags::PRIVATE)? };
        let mapping = Mapping::at(start, words);
        // SAFETY: the advice is about this mapping alone, of which nobody has a reference yet. Linux has it since 4.14.
        unsafe { madvise(start, words * WORD_BYTES, Advice::LinuxWipeOnFork)? };
        Ok(mapping)
    }

    fn at(start: *mut std::ffi::c_void, words: usize) -> Mapping {
        Mapping { start: start.cast::<AtomicU64>().cast_const(), words }
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, begins at a page, and is read and written by atomic numbers alone. Only this user
        // can shorten a file, and no program of Weir does.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and nobody borrows its words any more. The call cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.words * WORD_BYTES) };
    }
}
