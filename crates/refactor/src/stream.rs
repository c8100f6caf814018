//! The places of the bytes of each tile and layer in the payload, and the presence of those bytes.
//!
//! The payload is layer 0 of all tiles, then layer 1 of all tiles, and so on; chunks cut it anywhere.

use crate::block::{checked, CHECKSUM_BYTES};
use crate::header::Header;
use crate::parallel;
use crate::pieces::Pieces;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a container that a reader has: their place, and their values.
pub type Part<'a> = (u64, &'a [u8]);

/// Blocks that a thread checks at a time: up to 4 MiB, beside which the start of a thread costs little.
const BLOCKS_OF_THREAD: usize = 256;
/// Threads that check blocks at once: blocks that are listed and not checked yet take memory.
const CHECKING_THREADS_MAX: usize = 64;

/// The parts in order of offset, so that a range is found quickly.
pub(crate) struct Parts<'a> {
    parts: Vec<Part<'a>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(parts: &[Part<'a>]) -> Self {
        let mut parts: Vec<_> = parts.iter().copied().filter(|(_, bytes)| !bytes.is_empty()).collect();
        parts.sort_by_key(|(offset, bytes)| (*offset, std::cmp::Reverse(bytes.len())));
        Self { parts }
    }

    /// The bytes of a range, if all of them are there: from one part, or pieced together from several.
    fn range(&self, range: &Range<u64>) -> Option<Cow<'a, [u8]>> {
        let mut gathered: Vec<u8> = Vec::new();
        let mut at = range.start;
        let candidates = self.parts.partition_point(|(offset, _)| *offset <= at);
        for (offset, bytes) in self.parts[..candidates].iter().rev() {
            if offset.saturating_add(bytes.len() as u64) >= range.end {
                let (from, to) = ((at - offset) as usize, (range.end - offset) as usize);
                return Some(Cow::Borrowed(&bytes[from..to]));
            }
        }
        for (offset, bytes) in &self.parts {
            let end = offset.saturating_add(bytes.len() as u64);
            if *offset > at {
                return None;
            }
            if end > at {
                let to = end.min(range.end);
                gathered.extend_from_slice(&bytes[(at - offset) as usize..(to - offset) as usize]);
                at = to;
            }
            if at == range.end {
                return Some(Cow::Owned(gathered));
            }
        }
        None
    }
}

/// The blocks that are there, checked when they are first asked for.
pub(crate) struct Stream<'a> {
    header: &'a Header,
    parts: Parts<'a>,
    /// The payload offset at which each tile begins, layer by layer.
    starts: Vec<Vec<u64>>,
}

/// The bytes of one tile.
pub(crate) struct TileBytes<'a> {
    /// One for each layer, as far as they are there.
    pub(crate) segments: Vec<Pieces<'a>>,
    /// The payload byte at which the first missing byte of the tile would stand.
    pub(crate) known: u64,
    /// The payload byte behind the last one that is used.
    pub(crate) used: u64,
    /// Container offsets of blocks whose checksum is wrong.
    pub(crate) damaged: Vec<u64>,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(header: &'a Header, parts: Parts<'a>) -> Self {
        Self { header, parts, starts: starts(&header.layers) }
    }

    /// The bytes that are there of a tile, up to the first missing byte.
    pub(crate) fn tile(&self, tile: usize, threads: usize) -> TileBytes<'a> {
        let mut answer = TileBytes { segments: Vec::new(), known: u64::MAX, used: 0, damaged: Vec::new() };
        for (starts, lengths) in self.starts.iter().zip(&self.header.layers) {
            let mut segment = Pieces::default();
            let (Some(start), Some(length)) = (starts.get(tile), lengths.get(tile)) else {
                answer.segments.push(segment);
                continue;
            };
            let range = *start..start + length;
            let known = self.gather(&range, threads, &mut segment, &mut answer.damaged);
            answer.segments.push(segment);
            if known > range.start {
                answer.used = known;
            }
            if known < range.end {
                answer.known = known;
                break;
            }
        }
        answer
    }

    /// Append the payload bytes of a range, and say where the first one that is not there would stand.
    fn gather(
        &self,
        range: &Range<u64>,
        threads: usize,
        into: &mut Pieces<'a>,
        damaged: &mut Vec<u64>,
    ) -> u64 {
        let threads = threads.min(CHECKING_THREADS_MAX);
        let mut at = range.start;
        while at < range.end {
            let blocks = self.blocks_at(at..range.end, threads * BLOCKS_OF_THREAD);
            if blocks.is_empty() {
                break;
            }
            let is_sound = parallel::map(blocks.len().div_ceil(BLOCKS_OF_THREAD), threads, |number| {
                let blocks = blocks.iter().skip(number * BLOCKS_OF_THREAD).take(BLOCKS_OF_THREAD);
                let is_sound = |(block, stored): &(Block, Cow<'_, [u8]>)| {
                    checked(self.header.checksum, block.payload.start, stored).is_some()
                };
                blocks.map(is_sound).collect::<Vec<_>>()
            });
            for ((block, stored), is_sound) in blocks.into_iter().zip(is_sound.into_iter().flatten()) {
                if !is_sound {
                    damaged.push(block.stored.start);
                    return at;
                }
                let to = block.payload.end.min(range.end);
                let own = (at - block.payload.start) as usize..(to - block.payload.start) as usize;
                into.push(match stored {
                    Cow::Borrowed(stored) => Cow::Borrowed(&stored[own]),
                    Cow::Owned(stored) => Cow::Owned(stored[own].to_vec()),
                });
                at = to;
            }
        }
        at
    }

    /// The first blocks of a range of the payload, at most so many and up to the first that is not there, and their
    /// stored bytes.
    fn blocks_at(&self, range: Range<u64>, most: usize) -> Vec<(Block, Cow<'a, [u8]>)> {
        let mut blocks = Vec::new();
        let mut at = range.start;
        while at < range.end && blocks.len() < most {
            let block = block_at(self.header, at);
            let Some(stored) = self.parts.range(&block.stored) else { break };
            at = block.payload.end;
            blocks.push((block, stored));
        }
        blocks
    }
}

/// One block: the payload bytes it holds, and where it lies in the container with its checksum.
pub(crate) struct Block {
    pub(crate) payload: Range<u64>,
    pub(crate) stored: Range<u64>,
}

/// The block that holds a byte of the payload.
pub(crate) fn block_at(header: &Header, payload: u64) -> Block {
    let number = header.chunks.partition_point(|chunk| chunk.payload.end <= payload);
    let chunk = &header.chunks[number];
    let block = (payload - chunk.payload.start) / chunk.block_bytes;
    let start = chunk.payload.start + block * chunk.block_bytes;
    let end = (start + chunk.block_bytes).min(chunk.payload.end);
    let stored = chunk.offset + block * (chunk.block_bytes + CHECKSUM_BYTES);
    Block { payload: start..end, stored: stored..stored + (end - start) + CHECKSUM_BYTES }
}

/// The payload offset of each tile's segment, layer by layer.
pub(crate) fn starts(layers: &[Vec<u64>]) -> Vec<Vec<u64>> {
    let mut at = 0;
    let mut next = |length: &u64| {
        at += length;
        at - length
    };
    layers.iter().map(|layer| layer.iter().map(&mut next).collect()).collect()
}

/// Container ranges that hold the bytes of tiles below a payload offset; neighbours are joined.
pub(crate) fn ranges_of(header: &Header, tiles: &[usize], payload_end: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (starts, lengths) in starts(&header.layers).iter().zip(&header.layers) {
        for tile in tiles.iter().filter(|_| !lengths.is_empty()) {
            let end = (starts[*tile] + lengths[*tile]).min(payload_end);
            if starts[*tile] >= end {
                continue;
            }
            let (first, last) = (block_at(header, starts[*tile]), block_at(header, end - 1));
            match ranges.last_mut() {
                Some(before) if before.end >= first.stored.start => before.end = last.stored.end,
                _ => ranges.push(first.stored.start..last.stored.end),
            }
        }
    }
    ranges
}
