//! The bytes of a container, from its header and the segments of its tiles.

use crate::block::{self, CHECKSUM_BYTES};
use crate::codec::Deferred;
use crate::header::Header;
use crate::parallel;
use crate::stream::starts;

/// A refactored array, before its bytes are put together.
pub struct Container<'a> {
    header: Header,
    head: Vec<u8>,
    /// Segments of the payload in order, and where each begins.
    segments: Vec<Vec<u8>>,
    starts: Vec<u64>,
    /// The last segment, if its bytes are only made in their places.
    deferred: Option<Box<dyn Deferred + 'a>>,
}

/// The place of a block in a container.
struct Place<'b> {
    /// The payload before it.
    at: u64,
    payload: &'b mut [u8],
    checksum: &'b mut [u8],
}

impl Place<'_> {
    /// The number of its bytes that stand before a place of the payload.
    fn before(&self, place: u64) -> usize {
        place.saturating_sub(self.at).min(self.payload.len() as u64) as usize
    }
}

impl<'a> Container<'a> {
    /// A container of the layers of each tile, which the header lists.
    pub(crate) fn new(
        mut header: Header,
        tiles: Vec<Vec<Vec<u8>>>,
        deferred: Option<Box<dyn Deferred + 'a>>,
    ) -> Self {
        let head = header.seal();
        let starts = starts(&header.layers).into_iter().flatten().collect();
        let mut tiles: Vec<_> = tiles.into_iter().map(Vec::into_iter).collect();
        let layers = 0..header.layers.len();
        let segments =
            layers.flat_map(|_| tiles.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect();
        Self { header, head, segments, starts, deferred }
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
        bytes[..self.head.len()].copy_from_slice(&self.head);
        let made = self.deferred.as_ref().and(self.starts.last()).copied().unwrap_or(u64::MAX);
        if let Some(deferred) = &self.deferred {
            let places = self.places(bytes).into_iter().map(|place| {
                let before = place.before(made);
                &mut place.payload[before..]
            });
            deferred.write(places.collect(), threads);
        }
        parallel::for_each(self.places(bytes), threads, |place| {
            let before = place.before(made);
            self.gather(place.at, &mut place.payload[..before]);
            place.checksum.copy_from_slice(&block::checksum(self.header.checksum, place.at, place.payload));
        });
    }

    /// The places of all blocks.
    fn places<'b>(&self, bytes: &'b mut [u8]) -> Vec<Place<'b>> {
        let (_, mut rest) = bytes.split_at_mut(self.head.len());
        let mut places = Vec::new();
        for chunk in &self.header.chunks {
            let (own, behind) = rest.split_at_mut(chunk.length as usize);
            rest = behind;
            let mut at = chunk.payload.start;
            for stored in own.chunks_mut((chunk.block_bytes + CHECKSUM_BYTES) as usize) {
                let (payload, checksum) = stored.split_at_mut(stored.len() - CHECKSUM_BYTES as usize);
                let length = payload.len() as u64;
                places.push(Place { at, payload, checksum });
                at += length;
            }
        }
        places
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
