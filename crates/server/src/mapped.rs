//! The memory of a `ram` target in the system: one memfd, mapped whole, and a thread that has pages made ready.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use weir_core::storage::{Arena, Region, PAGE_BYTES};

/// Regions that may wait for the thread: more than the core has ahead, so none is refused.
const REGIONS_MAX: usize = 128;

/// A mapped memfd of fixed capacity; untouched pages cost no memory and read as zeros.
pub(crate) struct MappedArena {
    mapping: Arc<Mapping>,
    memory: OwnedFd,
    /// The thread that makes pages ready. It starts with the first region, and ends with the arena.
    populator: Option<SyncSender<Region>>,
}

/// The mapping, which lasts until the arena and its thread are gone.
struct Mapping {
    base: NonNull<u8>,
    capacity_bytes: usize,
}

// SAFETY: bytes are accessed by the arena alone, through its `&self` or `&mut self`. Its thread only has the kernel give pages
// memory, which changes no byte.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

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
        Ok(MappedArena { mapping: Arc::new(Mapping { base, capacity_bytes }), memory, populator: None })
    }

    /// Starts the thread that makes pages ready, unless it runs. `None` where the system refuses a thread.
    fn populator(&mut self) -> Option<&SyncSender<Region>> {
        if self.populator.is_none() {
            let (regions, receiver) = sync_channel(REGIONS_MAX);
            let mapping = Arc::clone(&self.mapping);
            let thread = std::thread::Builder::new().name("populator".into());
            thread.spawn(move || populate_all(&mapping, &receiver)).ok()?;
            self.populator = Some(regions);
        }
        self.populator.as_ref()
    }
}

fn populate_all(mapping: &Mapping, regions: &Receiver<Region>) {
    while let Ok(region) = regions.recv() {
        mapping.populate(region);
    }
}

impl Mapping {
    fn checked(&self, region: Region) -> *mut u8 {
        let end = region.offset.checked_add(region.length as u64);
        assert!(end.is_some_and(|end| end <= self.capacity_bytes as u64), "region outside the arena");
        // SAFETY: the offset was just checked to lie inside the mapping.
        unsafe { self.base.as_ptr().add(region.offset as usize) }
    }

    fn populate(&self, region: Region) {
        let start = self.checked(region);
        // SAFETY: the range is inside the mapping and page-aligned by its callers; populating changes no content.
        let _ = unsafe {
            rustix::mm::madvise(start.cast(), region.length, rustix::mm::Advice::LinuxPopulateWrite)
        };
    }
}

impl Arena for MappedArena {
    fn pages(&self) -> u64 {
        self.mapping.capacity_bytes as u64 / PAGE_BYTES
    }

    fn bytes(&self, region: Region) -> &[u8] {
        let start = self.mapping.checked(region);
        // SAFETY: `checked` keeps the range inside the mapping, which lives as long as `self`; writers need `&mut self`.
        unsafe { std::slice::from_raw_parts(start, region.length) }
    }

    fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        let start = self.mapping.checked(region);
        // SAFETY: as for `bytes`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(start, region.length) }
    }

    fn populate(&mut self, region: Region) {
        self.mapping.populate(region);
    }

    fn populate_beside(&mut self, region: Region) -> bool {
        self.populator().is_some_and(|regions| regions.try_send(region).is_ok())
    }

    fn release(&mut self, region: Region) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.memory, flags, region.offset, region.length as u64)?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no borrow of it outlives the last owner.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.capacity_bytes) };
    }
}
