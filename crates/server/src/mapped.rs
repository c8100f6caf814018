//! The memory of a `ram` target in the system: one memfd, mapped whole.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use weir_core::storage::{Arena, Region, PAGE_BYTES};

/// A mapped memfd of fixed capacity; untouched pages cost no memory and read as zeros.
pub(crate) struct MappedArena {
    base: NonNull<u8>,
    capacity_bytes: usize,
    memory: OwnedFd,
}

// SAFETY: the mapping is owned by this value alone, and every access to it goes through `&self` or `&mut self`.
unsafe impl Send for MappedArena {}

impl MappedArena {
    /// Maps `capacity_bytes`, rounded down to whole pages.
    ///
    /// # Errors
    /// The errors of memfd_create, ftruncate or mmap.
    pub(crate) fn new(capacity_bytes: u64) -> io::Result<MappedArena> {
        let capacity_bytes = usize::try_from(capacity_bytes - capacity_bytes % PAGE_BYTES)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?
            .max(PAGE_BYTES as usize);
        let memory = rustix::fs::memfd_create("weir-target", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, capacity_bytes as u64)?;
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing; the memfd is not
        // shared with any other process, so nobody shortens or writes it behind the mapping.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                capacity_bytes,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED | rustix::mm::MapFlags::NORESERVE,
                &memory,
                0,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MappedArena { base, capacity_bytes, memory })
    }

    fn checked(&self, region: Region) -> *mut u8 {
        let end = region.offset.checked_add(region.length as u64);
        assert!(end.is_some_and(|end| end <= self.capacity_bytes as u64), "region outside the arena");
        // SAFETY: the offset was just checked to lie inside the mapping.
        unsafe { self.base.as_ptr().add(region.offset as usize) }
    }
}

impl Arena for MappedArena {
    fn pages(&self) -> u64 {
        self.capacity_bytes as u64 / PAGE_BYTES
    }

    fn bytes(&self, region: Region) -> &[u8] {
        let start = self.checked(region);
        // SAFETY: `checked` keeps the range inside the mapping, which lives as long as `self`; writers need `&mut self`.
        unsafe { std::slice::from_raw_parts(start, region.length) }
    }

    fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        let start = self.checked(region);
        // SAFETY: as for `bytes`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(start, region.length) }
    }

    fn populate(&mut self, region: Region) {
        let start = self.checked(region);
        // SAFETY: the range is inside the mapping and page-aligned by its callers; populating changes no content.
        let _ = unsafe {
            rustix::mm::madvise(start.cast(), region.length, rustix::mm::Advice::LinuxPopulateWrite)
        };
    }

    fn release(&mut self, region: Region) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.memory, flags, region.offset, region.length as u64)?;
        Ok(())
    }
}

impl Drop for MappedArena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no borrow of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.capacity_bytes) };
    }
}
