//! The restoration of an array from the present parts of a container, with its accuracy.

use crate::accuracy::Accuracy;
use crate::course::Course;
use crate::curve::Between;
use crate::error::RefactorError;
use crate::escape;
use crate::grid::{self, Bounds};
use crate::header::{padded, Header, Point};
use crate::parallel;
use crate::parameters::CodecParameters;
use crate::pieces::Pieces;
use crate::planes::Number;
use crate::sample::Sample;
use crate::stream::{block_at, ranges_of, Part, Parts, Stream};
use crate::version::VERSION_BRIEF;
use std::ops::Range;
use std::sync::Mutex;

/// The factor by which errors may have risen since the first missing byte, where some tiles are known farther: few
/// coefficients may have cancelled others.
const BEYOND: f64 = 1.25;

/// One half-open range an axis of the array.
pub type Region = Vec<(usize, usize)>;

/// Accuracies of which all that are there are to be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// Root of the mean of the squared errors.
    pub rmse: Option<f64>,
    /// Largest error.
    pub max_error: Option<f64>,
    /// Peak signal-to-noise ratio in dB; the peak is the range of the finite samples.
    pub psnr: Option<f64>,
    /// Largest error as a part of that range.
    pub relative: Option<f64>,
}

/// An array as far as its bytes were there.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored<T> {
    /// In C order.
    pub samples: Vec<T>,
    /// The array's shape, or the region's.
    pub shape: Vec<usize>,
    /// The accuracy of the samples.
    pub known: Known,
}

/// The known part of an array, or of a region of it, when it was restored.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Upper bounds.
    pub accuracy: Accuracy,
    /// Container offsets of blocks whose checksum is wrong.
    pub damaged: Vec<u64>,
}

/// The destination of restored samples: row by row, in any order.
pub trait Rows<T>: Send {
    /// Sets the samples from `start` on.
    fn put(&mut self, start: usize, row: &[T]);

    /// All samples, where they can be set in place.
    fn whole(&mut self) -> Option<&mut [T]>;
}

impl Header {
    /// The shape of the array, or of a region of it.
    ///
    /// # Errors
    /// The region lies outside.
    pub fn restored_shape(&self, region: Option<&Region>) -> Result<Vec<usize>, RefactorError> {
        Ok(grid::lengths(&self.bounds(region)?)[4 - self.shape.len()..].to_vec())
    }

    pub(crate) fn restore_rows<T: Number>(
        &self,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
        rows: &mut dyn Rows<T>,
    ) -> Result<Known, RefactorError> {
        if T::KIND != self.kind {
            return Err(RefactorError::DataType { stored: self.kind.name(), asked: T::KIND.name() });
        }
        let bounds = self.bounds(region)?;
        let stream = Stream::new(self, Parts::new(parts));
        let coder = self.coder::<T>();
        let tiles = self.grid.touched(&bounds);
        let rows = Mutex::new(rows);
        let found = parallel::map(tiles.len(), threads, |number| {
            let tile = self.grid.bounds(tiles[number]);
            let threads = parallel::of_each(threads, tiles.len());
            let mut bytes = stream.tile(tiles[number], threads);
            let layers = &mut bytes.segments;
            let escaped = match region {
                Some(_) => escaped_within::<T>(layers.first(), &tile, &bounds),
                None => 0,
            };
            let is_whole = bytes.known == u64::MAX && layers.len() == self.layers.len();
            let residual = if self.exact && layers.len() == self.layers.len() { layers.pop() } else { None };
            let layers = (layers.as_slice(), residual.as_ref().filter(|_| is_whole));
            let decode = |samples: &mut [T]| coder.decode(grid::lengths(&tile), layers, threads, samples);
            let rows = || rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The only tile may hold the lock while it is decoded.
            if tile != bounds || rows().whole().map(decode).is_none() {
                let mut own = vec![T::default(); grid::lengths(&tile).iter().product()];
                decode(&mut own);
                if let Some(part) = grid::intersection(&tile, &bounds) {
                    let mut rows = rows();
                    grid::for_each_row(&tile, &bounds, &part, |from, to, length| {
                        rows.put(to, &own[from..from + length]);
                    });
                }
            }
            (bytes.known..bytes.used, bytes.damaged, escaped)
        });
        let known = found.iter().map(|(range, ..)| range.start).min().unwrap_or(u64::MAX);
        let used = found.iter().map(|(range, ..)| range.end).max().unwrap_or(0);
        let escaped: usize = found.iter().map(|(.., escaped)| escaped).sum();
        let mut damaged: Vec<u64> = found.into_iter().flat_map(|(_, damaged, _)| damaged).collect();
        damaged.sort_unstable();
        damaged.dedup();
        let taken = match region {
            Some(_) => grid::lengths(&bounds).iter().product::<usize>() as u64 - escaped as u64,
            None => self.taken,
        };
        Ok(Known { accuracy: self.accuracy(known..used, taken), damaged })
    }

    /// Container ranges that hold the bytes of a region in the first `chunks` chunks.
    ///
    /// # Errors
    /// The region lies outside of the array.
    pub fn ranges(&self, region: Option<&Region>, chunks: usize) -> Result<Vec<Range<u64>>, RefactorError> {
        let tiles = self.grid.touched(&self.bounds(region)?);
        let end = self.chunks[..chunks.min(self.chunks.len())].last().map_or(0, |chunk| chunk.payload.end);
        Ok(ranges_of(self, &tiles, end))
    }

    /// The number of bytes from the beginning that reach all the accuracies asked for.
    ///
    /// # Errors
    /// [`RefactorError::Accuracy`] where the whole container does not reach them.
    pub fn bytes_to_reach(&self, asked: &Asked) -> Result<u64, RefactorError> {
        let range = self.range.1 - self.range.0;
        let least =
            |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).fold(f64::INFINITY, f64::min);
        let rmse = least(asked.rmse, asked.psnr.map(|psnr| range / 10_f64.powf(psnr / 20.0)));
        let max_error = least(asked.max_error, asked.relative.map(|relative| relative * range));
        self.bytes_for(Accuracy { rmse, max_error }).ok_or_else(|| {
            let whole = self.chunks.last().map(|last| last.accuracy);
            RefactorError::Accuracy(whole.unwrap_or(Accuracy { rmse: 0.0, max_error: 0.0 }))
        })
    }

    /// The number of bytes from the beginning that reach an accuracy; none if the whole container does not.
    pub fn bytes_for(&self, asked: Accuracy) -> Option<u64> {
        let within = |one: f64, other: f64| one <= other;
        let found = self.points.iter().position(|point| {
            within(point.accuracy.rmse, asked.rmse) && within(point.accuracy.max_error, asked.max_error)
        });
        let Some(found) = found.map(|index| (index, self.points[index])) else {
            return self.points.is_empty().then_some(self.header_bytes);
        };
        let (index, point) = found;
        let mut payload = point.payload;
        if let Some(before) = index.checked_sub(1).map(|before| self.points[before]) {
            let (course, between) = (self.course(), self.between());
            let ratio = |asked: f64, before: f64| between.untold(asked) / before;
            let Accuracy { rmse, max_error } = before.accuracy;
            let rmse_part = course.part_to_rmse(ratio(asked.rmse, rmse), point.accuracy.rmse / rmse);
            let largest_part = match within(between.raised(max_error, max_error), asked.max_error) {
                true => 0.0,
                false => course
                    .part_to_largest(ratio(asked.max_error, max_error), point.accuracy.max_error / max_error),
            };
            let part =
                if rmse_part.is_nan() || largest_part.is_nan() { 1.0 } else { rmse_part.max(largest_part) };
            payload = place_between(&before, &point, part);
        }
        Some(self.container_end(payload))
    }

    /// The accuracies of the container's prefixes: bytes, upper bounds, and whether these were measured.
    pub fn table(&self) -> Vec<(u64, Accuracy, bool)> {
        self.points
            .iter()
            .map(|point| (self.container_end(point.payload), point.accuracy, point.measured))
            .collect()
    }

    /// The end of the container that holds this much of the payload: behind the block of its last byte.
    fn container_end(&self, payload: u64) -> u64 {
        match payload.checked_sub(1) {
            Some(last) if !self.chunks.is_empty() => block_at(self, last).stored.end,
            _ => self.header_bytes,
        }
    }

    /// The rise of errors between two points of the table.
    pub(crate) fn between(&self) -> Between {
        let is_rounded = self.version >= VERSION_BRIEF && self.codec.is_rounded();
        Between::new(self.kind, is_rounded, self.taken, self.measured)
    }

    /// The course of errors between two points of the table.
    pub(crate) fn course(&self) -> Course {
        match self.measured && self.version >= VERSION_BRIEF {
            true => Course::Factors,
            false => Course::Squares,
        }
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

    /// Bounds of the errors of `taken` samples outside layer 0, whose tiles are known up to the start of a range of the payload, and some
    /// up to its end.
    fn accuracy(&self, payload: Range<u64>, taken: u64) -> Accuracy {
        let Accuracy { mut rmse, mut max_error } = self.prefix_accuracy(payload.start);
        if payload.end > payload.start {
            (rmse, max_error) = (rmse * BEYOND, max_error * BEYOND);
        }
        if let Some(largest) = self.largest_within_base(&payload) {
            max_error = max_error.max(largest);
            rmse = rmse.max(max_error);
        }
        // A region may hold all of the array's error.
        let share = (self.taken as f64 / taken.max(1) as f64).max(1.0).sqrt();
        Accuracy { rmse: (rmse * share).min(max_error), max_error }
    }

    /// A bound of the errors where decimation restores a part of its base, by what is known and used of the payload; none
    /// elsewhere. What is restored lies on lines between samples and zero, and may be further off than zeros.
    fn largest_within_base(&self, payload: &Range<u64>) -> Option<f64> {
        let base = self.points.first()?.payload;
        let is_decimated = matches!(self.codec, CodecParameters::Decimate(_));
        let is_part = is_decimated && payload.start < base && payload.end > 0;
        let (least, most) = (self.range.0.min(0.0), self.range.1.max(0.0));
        is_part.then_some((most - least) * BEYOND)
    }

    /// Bounds of the errors when the payload is there up to a place.
    fn prefix_accuracy(&self, payload: u64) -> Accuracy {
        let next = self.points.partition_point(|point| point.payload <= payload);
        let Some(before) = next.checked_sub(1).map(|before| self.points[before]) else { return self.blank };
        match self.points.get(next) {
            Some(after) if before.payload < payload => {
                let part = (payload - before.payload) as f64 / (after.payload - before.payload) as f64;
                let (course, between) = (self.course(), self.between());
                let (first, last) = (before.accuracy, after.accuracy);
                let max_error = first.max_error * course.largest(part, last.max_error / first.max_error);
                let max_error = between.raised(max_error, first.max_error);
                let rmse = between.raised(first.rmse * course.rmse(part, last.rmse / first.rmse), first.rmse);
                Accuracy { rmse: rmse.min(max_error), max_error }
            }
            _ => before.accuracy,
        }
    }
}

/// The place at a part of the way between two points of the table.
fn place_between(before: &Point, after: &Point, part: f64) -> u64 {
    let length = (after.payload - before.payload) as f64;
    // A byte more, for the loss of the part by rounding.
    let payload = before.payload.saturating_add((part.clamp(0.0, 1.0) * length).ceil() as u64 + 1);
    payload.min(after.payload)
}

/// Samples of a tile within bounds that stand in its layer 0.
fn escaped_within<T: Sample>(layer: Option<&Pieces<'_>>, tile: &Bounds, bounds: &Bounds) -> usize {
    let Some(part) = grid::intersection(tile, bounds) else { return 0 };
    let samples = grid::lengths(tile).iter().product();
    let escaped = layer.map(|layer| escape::places::<T>(&layer.joined(), samples)).unwrap_or_default();
    let mut within = 0;
    if !escaped.is_empty() {
        grid::for_each_row(tile, bounds, &part, |from, _, length| {
            let end = from + length;
            let first = escaped.partition_point(|run| run.end <= from);
            let runs = escaped[first..].iter().take_while(|run| run.start < end);
            within += runs.map(|run| run.end.min(end) - run.start.max(from)).sum::<usize>();
        });
    }
    within
}
