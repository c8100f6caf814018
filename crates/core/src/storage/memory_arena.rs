//! The memory of a `ram` target on the heap, for tests and worlds.

use super::arena::{Arena, Region, PAGE_BYTES};
use std::io;

/// Bytes on the heap.
pub struct MemoryArena(Vec<u8>);

impl MemoryArena {
    /// So many bytes, rounded down to whole pages, at least one.
    pub fn new(capacity_bytes: u64) -> MemoryArena {
        let pages = (capacity_bytes / PAGE_BYTES).max(1);
        MemoryArena(vec![0; (pages * PAGE_BYTES) as usize])
    }
}

impl Arena for MemoryArena {
    fn pages(&self) -> u64 {
        self.0.len() as u64 / PAGE_BYTES
    }

    fn bytes(&self, region: Region) -> &[u8] {
        &self.0[region.offset as usize..][..region.length]
    }

    fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        &mut self.0[region.offset as usize..][..region.length]
    }

    fn populate(&mut self, _: Region) {}

    fn populate_beside(&mut self, _: Region) -> bool {
        true
    }

    fn release(&mut self, region: Region) -> io::Result<()> {
        self.bytes_mut(region).fill(0);
        Ok(())
    }
}
