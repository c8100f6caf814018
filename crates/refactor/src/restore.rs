//! From the parts of a container that are there to an array, and what it is worth.

use crate::error::RefactorError;
use crate::grid::{self, Bounds};
use crate::header::{padded, Accuracy, Header};
use crate::parallel;
use crate::planes::Number;
use crate::stream::{ranges_of, Part, Parts, Stream};
use std::ops::Range;

/// Between two entries of the table an error may rise for a while, since coefficients that are refined no longer cancel
/// others: by at most 6 % on real fields, which proves nothing. What is reported is this many times the entry before.
const UNMEASURED_FACTOR: f64 = 2.0;

/// One half-open range an axis of the array.
pub type Region = Vec<(usize, usize)>;

/// An array as far as its bytes were there.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored<T> {
    /// In C order.
    pub samples: Vec<T>,
    /// The array's shape, or the region's.
    pub shape: Vec<usize>,
    /// Upper bounds.
    pub accuracy: Accuracy,
    /// Container offsets of blocks whose checksum is wrong.
    pub damaged: Vec<u64>,
}

impl Header {
    /// The array, or a region of it, from the parts of the container that are there.
    ///
    /// # Errors
    /// The array is of another type, the region lies outside, or memory does not suffice. Missing and damaged bytes
    /// are no errors: they lower the accuracy.
    pub fn restore<T: Number>(
        &self,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
    ) -> Result<Restored<T>, RefactorError> {
        if T::KIND != self.kind {
            return Err(RefactorError::DataType { stored: self.kind.name(), asked: T::KIND.name() });
        }
        let bounds = self.bounds(region)?;
        let count: usize = grid::lengths(&bounds).iter().product();
        let mut samples: Vec<T> = Vec::new();
        samples
            .try_reserve_exact(count)
            .map_err(|_| RefactorError::Memory((count * T::KIND.bytes()) as u64))?;
        samples.resize(count, T::default());
        let stream = Stream::new(self, Parts::new(parts));
        let coder = self.coder::<T>();
        let tiles = self.grid.touched(&bounds);
        let mut damaged = Vec::new();
        let (mut known, mut used) = (u64::MAX, 0);
        // As many tiles at a time as there are threads, so that memory is that of the answer and a few tiles.
        for some in tiles.chunks(threads.max(1)) {
            let decoded = parallel::map(some.len(), threads, |number| {
                let tile = self.grid.bounds(some[number]);
                let bytes = stream.tile(some[number]);
                let mut layers: Vec<&[u8]> = bytes.segments.iter().map(Vec::as_slice).collect();
                let is_whole = bytes.known == u64::MAX && layers.len() == self.layers.len();
                let residual =
                    if self.exact && layers.len() == self.layers.len() { layers.pop() } else { None };
                let own = coder.decode(grid::lengths(&tile), &layers, residual.filter(|_| is_whole));
                drop(layers);
                (tile, own, bytes)
            });
            for (tile, own, bytes) in decoded {
                if let Some(part) = grid::intersection(&tile, &bounds) {
                    grid::copy(&own, &tile, &mut samples, &bounds, &part);
                }
                known = known.min(bytes.known);
                used = used.max(bytes.used);
                damaged.extend(bytes.damaged);
            }
        }
        damaged.sort_unstable();
        damaged.dedup();
        let shape = grid::lengths(&bounds)[4 - self.shape.len()..].to_vec();
        Ok(Restored { samples, shape, accuracy: self.accuracy(known..used, count), damaged })
    }

    /// Container ranges that hold what a region needs of the first `chunks` chunks.
    ///
    /// # Errors
    /// The region lies outside of the array.
    pub fn ranges(&self, region: Option<&Region>, chunks: usize) -> Result<Vec<Range<u64>>, RefactorError> {
        let tiles = self.grid.touched(&self.bounds(region)?);
        let end = self.chunks[..chunks.min(self.chunks.len())].last().map_or(0, |chunk| chunk.payload.end);
        Ok(ranges_of(self, &tiles, end))
    }

    /// How many chunks from the base on reach an accuracy; all of them if none does.
    pub fn chunks_for(&self, is_reached: impl Fn(Accuracy) -> bool) -> usize {
        self.chunks
            .iter()
            .position(|chunk| is_reached(chunk.accuracy))
            .map_or(self.chunks.len(), |chunk| chunk + 1)
    }

    fn bounds(&self, region: Option<&Region>) -> Result<Bounds, RefactorError> {
        let Some(region) = region else { return Ok(self.grid.shape.map(|length| 0..length)) };
        let lies_within = region.len() == self.shape.len()
            && region.iter().zip(&self.shape).all(|((start, end), length)| start <= end && end <= length);
        if !lies_within {
            return Err(RefactorError::Region { region: region.clone(), shape: self.shape.clone() });
        }
        let starts = region.iter().map(|(start, _)| *start).collect::<Vec<_>>();
        let ends = padded(&region.iter().map(|(_, end)| *end).collect::<Vec<_>>());
        let lacking = 4 - starts.len();
        Ok([0, 1, 2, 3].map(|axis| if axis < lacking { 0..1 } else { starts[axis - lacking]..ends[axis] }))
    }

    /// Bounds of the errors of `count` samples whose tiles are known up to the start of a range of the payload, and some
    /// up to its end.
    fn accuracy(&self, payload: Range<u64>, count: usize) -> Accuracy {
        let chunks = self.chunks.partition_point(|chunk| chunk.payload.end <= payload.start);
        let (end, whole) = match chunks.checked_sub(1) {
            Some(last) => (self.chunks[last].payload.end, self.chunks[last].accuracy),
            None => (0, self.blank),
        };
        let factor = if payload.end > end { UNMEASURED_FACTOR } else { 1.0 };
        // A region may hold all of the array's error.
        let share = (self.grid.samples() as f64 / count.max(1) as f64).max(1.0).sqrt();
        let max_error = whole.max_error * factor;
        Accuracy { rmse: (whole.rmse * factor * share).min(max_error), max_error }
    }
}
