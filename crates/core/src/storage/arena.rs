//! The memory of a `ram` target, which is handed out by the page.

use std::io;

/// The unit of allocation: the page size, so that the arena can give freed memory back.
pub const PAGE_BYTES: u64 = 4096;

/// A run of bytes in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
}

/// Memory of fixed capacity; untouched pages cost nothing and read as zeros.
pub trait Arena: Send {
    /// Whole pages in the arena.
    fn pages(&self) -> u64;

    /// The bytes of `region`.
    fn bytes(&self, region: Region) -> &[u8];

    /// The bytes of `region`, for writing.
    fn bytes_mut(&mut self, region: Region) -> &mut [u8];

    /// Asks for the memory of `region` in one call, in place of one fault a page; a refusal costs only speed.
    fn populate(&mut self, region: Region);

    /// Has somebody else ask for the memory of `region`, for which the caller does not wait. The content stays, and the
    /// region may be used meanwhile. Answers whether the region was taken on.
    fn populate_beside(&mut self, region: Region) -> bool;

    /// Gives the memory of `region` (whole pages) back; the region reads as zeros afterwards.
    ///
    /// # Errors
    /// The system's; the content is then unchanged.
    fn release(&mut self, region: Region) -> io::Result<()>;
}
