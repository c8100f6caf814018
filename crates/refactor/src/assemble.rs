//! The bytes of a container, from its header and the segments of its tiles.

use crate::block::{self, CHECKSUM_BYTES};
use crate::header::{Chunk, Header};
use crate::parallel;
use crate::stream::starts;

/// A refactored array, before its bytes are put together.
pub struct Container {
    header: Header,
    head: Vec<u8>,
    /// Segments of the payload in order, and where each begins.
    segments: Vec<Vec<u8>>,
    starts: Vec<u64>,
}

impl Container {
    /// A container of the layers of each tile, which the header lists.
    pub(crate) fn new(mut header: Header, tiles: Vec<Vec<Vec<u8>>>) -> Self {
        let head = header.seal();
        let starts = starts(&header.layers).into_iter().flatten().collect();
        let mut tiles: Vec<_> = tiles.into_iter().map(Vec::into_iter).collect();
        let layers = 0..header.layers.len();
        let segments =
            layers.flat_map(|_| tiles.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect();
        Self { header, head, segments, starts }
    }

    /// The number of bytes of the container.
    pub fn total_bytes(&self) -> usize {
        self.header.total_bytes() as usize
    }

    /// The bytes of the container.
    pub fn to_bytes(&self, threads: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.total_bytes()];
        self.write(&mut bytes, threads);
        bytes
    }

    /// Write it to as many bytes, on at most `threads` threads.
    ///
    /// # Panics
    /// `bytes` is not as long as the container.
    pub fn write(&self, bytes: &mut [u8], threads: usize) {
        assert_eq!(bytes.len(), self.total_bytes(), "a container is written as a whole");
        let (head, mut rest) = bytes.split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        let mut chunks = Vec::new();
        for chunk in &self.header.chunks {
            let (own, behind) = rest.split_at_mut(chunk.length as usize);
            chunks.push((chunk, own));
            rest = behind;
        }
        parallel::for_each(chunks, threads, |(chunk, bytes)| self.write_chunk(chunk, bytes));
    }

    fn write_chunk(&self, chunk: &Chunk, bytes: &mut [u8]) {
        let block_bytes = (self.header.block_bytes + CHECKSUM_BYTES) as usize;
        let mut at = chunk.payload.start;
        for stored in bytes.chunks_mut(block_bytes) {
            let (payload, checksum) = stored.split_at_mut(stored.len() - CHECKSUM_BYTES as usize);
            self.gather(at, payload);
            checksum.copy_from_slice(&block::checksum(self.header.checksum, at, payload));
            at += payload.len() as u64;
        }
    }

    /// The payload from a place on.
    fn gather(&self, start: u64, payload: &mut [u8]) {
        let mut filled = 0;
        let mut segment = self.starts.partition_point(|first| *first <= start).saturating_sub(1);
        while filled < payload.len() {
            let from = (start + filled as u64 - self.starts[segment]) as usize;
            let part = &self.segments[segment][from..];
            let count = part.len().min(payload.len() - filled);
            payload[filled..filled + count].copy_from_slice(&part[..count]);
            filled += count;
            segment += 1;
        }
    }
}
