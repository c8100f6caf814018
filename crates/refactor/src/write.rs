//! From an array to a container.

use crate::accuracy::Accuracy;
use crate::assemble::Container;
use crate::block;
use crate::codec::{bytes_of, Deferred, Progress};
use crate::curve::Curve;
use crate::error::RefactorError;
use crate::fills::{Fill, FILLS_MAX};
use crate::grid::{self, Bounds, Grid};
use crate::header::{padded, Chunk, Header, Point};
use crate::judge::Original;
use crate::ordinary::Ordinary;
use crate::parallel;
use crate::parameters::CodecParameters;
use crate::plan::{exponent, plan};
use crate::planes::Number;
use crate::prefixes;
use crate::range::range;
use crate::sample::Sample;
use crate::scaled::EXPONENT_MAX;
use crate::spelling;
use crate::table;
use crate::tile::Encoded;
use crate::version::VERSION;
use std::borrow::Cow;

/// The base has at most this part of the array's bytes unless the caller says otherwise.
const BASE_PART: usize = 512;
/// Chunks of a small array have this part of its bytes.
const CHUNK_PART: usize = 128;
/// Distances are scaled by at most this power of two, of either sign.
const SCALE_EXPONENT_MAX: i32 = 1000;
/// A chunk is at least this long.
const CHUNK_BYTES_MIN: usize = 256;
/// Number of times that each chunk exceeds the bytes before it.
const CHUNK_GROWTH: f64 = 1.2;

/// The settings of a refactoring.
#[derive(Clone, Debug)]
pub struct Options {
    /// `planes` or `decimate`.
    pub codec: String,
    /// The error of a sample that the full stream may leave; as little as the codec can if there is none.
    pub tolerance: Option<f64>,
    /// The full stream restores every bit.
    pub exact: bool,
    /// An augmentation has at least so many bytes, unless the array is small.
    pub chunk_bytes: usize,
    /// Bytes of the base.
    pub base_bytes: Option<usize>,
    /// Decimation ratios of levels 1 to k.
    pub ratios: Option<Vec<usize>>,
    /// The values that mark samples as missing: they are kept exactly, and are no part of any error. Where there is none
    /// (and not an empty list), samples far above all others are guessed to be such marks.
    pub fills: Option<Vec<Fill>>,
    /// Threads to work on.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: "planes".to_owned(),
            tolerance: None,
            exact: false,
            chunk_bytes: 1 << 20,
            base_bytes: None,
            ratios: None,
            fills: None,
            threads: 1,
        }
    }
}

/// A tolerance is aimed at by the step of the quantiser, and missed where errors happen to add up.
const ATTEMPTS: i32 = 3;

/// [`crate::refactor`].
pub(crate) fn refactored<'a, T: Number>(
    samples: &'a [T],
    shape: &[usize],
    options: &Options,
) -> Result<Container<'a>, RefactorError> {
    check(samples.len(), shape, options)?;
    // Errors of integers are whole numbers, so below 1 there is none.
    let is_whole = T::INTEGER && options.tolerance.is_some_and(|tolerance| tolerance < 1.0);
    let options = &Options { tolerance: options.tolerance.filter(|_| !is_whole), ..options.clone() };
    let array_bytes = samples.len() * T::KIND.bytes();
    let ordinary = ordinary(samples, options);
    let (range, takes_all) = range(samples, ordinary, options.threads);
    let ordinary = ordinary.of_array(takes_all);
    let (grid, codec) = plan(samples, (ordinary, range), padded(shape), options)?;
    let exact = options.exact || codec.is_coarse(T::KIND, options.tolerance);
    let mut header = Header {
        version: VERSION,
        kind: T::KIND,
        shape: shape.to_vec(),
        range,
        fills: options.fills.clone().unwrap_or_default(),
        blank: Accuracy { rmse: 0.0, max_error: 0.0 },
        chunks: Vec::new(),
        points: Vec::new(),
        header_bytes: 0,
        checksum: 0,
        taken: 0,
        block_bytes: block::longest(array_bytes) as u64,
        exact,
        measured: false,
        codec,
        grid,
        layers: Vec::new(),
    };
    let tolerance = if is_whole { 0.0 } else { options.tolerance.unwrap_or(f64::INFINITY) };
    let scale = judging_scale(range);
    for attempt in 1.. {
        let mut tiles = encode(samples, (ordinary, scale), &mut header, options);
        let ends = chunk_ends(&header, array_bytes, options);
        header.measured = false;
        let (curve, ends) = match prefixes::decodable(&header, &ends) {
            Some(cuts) => {
                tiles.complete(options.threads);
                let tiles = (tiles.layers.as_slice(), cuts.as_slice());
                (measured_curve(samples, (ordinary, scale), &mut header, tiles, options), ends)
            }
            None => {
                let apart = header.coder::<T>().apart.distance();
                let curve = Curve::new(&header, &tiles.progress, (scale, apart));
                let ends = curve.moved_to_points(&ends);
                (curve, ends)
            }
        };
        header.points = curve.table(&ends);
        let is_kept = header.points.last().is_none_or(|last| last.accuracy.max_error <= tolerance);
        if header.exact || is_kept {
            header.blank = spelling::told_blank(T::KIND, header.range, curve.blank());
            header.points = table::told(header.blank, header.points);
            header.chunks = chunks(&ends, &header.points);
            return Ok(Container::new(header, tiles.layers, tiles.deferred));
        }
        // Below the rounding of the samples no step is fine enough.
        header.exact = attempt == ATTEMPTS || !header.codec.refine();
    }
    unreachable!("the last attempt is exact")
}

/// The power of two that distances are multiplied by before they are squared.
fn judging_scale(range: (f64, f64)) -> f64 {
    let largest = exponent(range.0.abs().max(range.1.abs()));
    match largest.abs() > EXPONENT_MAX {
        true => f64::from((-largest).clamp(-SCALE_EXPONENT_MAX, SCALE_EXPONENT_MAX)).exp2(),
        false => 1.0,
    }
}

/// The curve of an array of which every prefix is decoded.
fn measured_curve<T: Number>(
    samples: &[T],
    (ordinary, scale): (Ordinary, f64),
    header: &mut Header,
    (tiles, cuts): (&[Vec<Vec<u8>>], &[u64]),
    options: &Options,
) -> Curve {
    header.measured = true;
    let coder = header.coder::<T>();
    let judge = Original { samples, taken: Some(ordinary), scale, apart: &coder.apart };
    let layers = tiles.first().map(Vec::as_slice).unwrap_or_default();
    let tile = prefixes::Tile { layers, coder: &coder, judge: &judge };
    Curve::measured(header, cuts, tile.errors(header.grid.shape, cuts, options.threads), scale)
}

/// The encoded tiles.
struct Tiles<'a> {
    /// Bytes of each tile in each layer.
    layers: Vec<Vec<Vec<u8>>>,
    /// The last layer of the only tile, if its bytes are not made yet.
    deferred: Option<Box<dyn Deferred + 'a>>,
    /// Accuracies of each tile.
    progress: Vec<Vec<Progress>>,
}

impl Tiles<'_> {
    /// Makes all bytes.
    fn complete(&mut self, threads: usize) {
        let made = self.deferred.take().map(|deferred| bytes_of(deferred.as_ref(), threads));
        self.layers.iter_mut().zip(made).for_each(|(layers, made)| layers.push(made));
    }
}

/// Encodes all tiles and lists their bytes in each layer.
fn encode<'a, T: Number>(
    samples: &'a [T],
    (ordinary, scale): (Ordinary, f64),
    header: &mut Header,
    options: &Options,
) -> Tiles<'a> {
    let coder = header.coder::<T>();
    let base_part = base_bytes(samples.len() * T::KIND.bytes(), options) as f64 / samples.len().max(1) as f64;
    let tile_count = header.grid.tiles();
    let threads = parallel::of_each(options.threads, tile_count);
    let mut tiles = parallel::map(tile_count, options.threads, |tile| {
        let bounds = header.grid.bounds(tile);
        let shape = grid::lengths(&bounds);
        let wanted = |own: &[T]| (ordinary, (base_part * own.len() as f64) as usize, scale);
        match cut(samples, &header.grid, &bounds) {
            Cow::Borrowed(own) => coder.encode(own, shape, threads, wanted(own)),
            Cow::Owned(own) => coder.encode(&own, shape, threads, wanted(&own)).completed(threads),
        }
    });
    header.taken = tiles.iter().map(|tile| tile.taken as u64).sum();
    let count = tiles.iter().map(|tile| tile.layers.len()).max().unwrap_or(0);
    // Only a tile that is the whole array defers its last layer.
    let deferred = tiles.first_mut().and_then(|tile| tile.deferred.take());
    let is_exact = header.exact;
    let whole = |tile: Encoded<'_>| {
        let mut layers = tile.layers;
        layers.resize(count, Vec::new());
        if is_exact {
            layers.push(tile.residual);
        }
        (layers, tile.progress)
    };
    let (layers, progress): (Vec<Vec<Vec<u8>>>, _) = tiles.into_iter().map(whole).unzip();
    let lengths = |layer: usize| layers.iter().map(|tile| tile[layer].len() as u64).collect();
    header.layers = (0..layers.first().map_or(0, Vec::len)).map(lengths).collect();
    header.layers.extend(deferred.iter().map(|deferred| vec![deferred.length() as u64]));
    Tiles { layers, deferred, progress }
}

/// The samples that the codec takes: for `decimate` all, as in the paper, but fill values and those whose sums overflow.
fn ordinary<T: Sample>(samples: &[T], options: &Options) -> Ordinary {
    match (options.codec.as_str(), &options.fills) {
        ("planes", None) => Ordinary::of(samples, options.threads),
        ("planes", Some(fills)) => Ordinary::FINITE.without::<T>(fills),
        (_, fills) => Ordinary::summable::<T>().without::<T>(fills.as_deref().unwrap_or_default()),
    }
}

fn check(samples: usize, shape: &[usize], options: &Options) -> Result<(), RefactorError> {
    if !(1..=4).contains(&shape.len()) {
        return Err(RefactorError::Dimensions(shape.len()));
    }
    let expected = shape.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
    if expected != Some(samples) {
        let expected = expected.unwrap_or(usize::MAX);
        return Err(RefactorError::Shape { shape: shape.to_vec(), samples, expected });
    }
    let wrong = |name, value: String, expected| Err(RefactorError::Option { name, value, expected });
    match options.tolerance {
        Some(tolerance) if !(tolerance.is_finite() && tolerance > 0.0) => wrong(
            "tolerance",
            tolerance.to_string(),
            "an error that a sample may have is above 0; for none use exact",
        ),
        _ if options.chunk_bytes == 0 => wrong("chunk_bytes", "0".to_owned(), "a chunk has at least 1 byte"),
        _ if options.fills.as_ref().is_some_and(|fills| fills.len() > FILLS_MAX) => wrong(
            "fill",
            format!("{} values", options.fills.as_ref().map_or(0, Vec::len)),
            "an array has at most 8 fill values",
        ),
        _ if options.base_bytes == Some(0) => {
            wrong("base_bytes", "0".to_owned(), "a base has at least 1 byte")
        }
        _ => Ok(()),
    }
}

/// The samples of one tile.
fn cut<'a, T: Sample>(samples: &'a [T], grid: &Grid, bounds: &Bounds) -> Cow<'a, [T]> {
    let array = grid.shape.map(|length| 0..length);
    if *bounds == array {
        return Cow::Borrowed(samples);
    }
    let mut own = vec![T::default(); grid::lengths(bounds).iter().product()];
    grid::copy(samples, &array, &mut own, bounds, bounds);
    Cow::Owned(own)
}

/// Bytes that the base should have.
fn base_bytes(array_bytes: usize, options: &Options) -> usize {
    options.base_bytes.unwrap_or((array_bytes / BASE_PART).max(CHUNK_BYTES_MIN))
}

/// Payload offsets at which the base and the augmentations end.
fn chunk_ends(header: &Header, array_bytes: usize, options: &Options) -> Vec<u64> {
    let total: u64 = header.layers.iter().flatten().sum();
    // The samples that are no numbers, and the beginning of each tile or its coarsest level.
    let least_base: u64 = header.layers.iter().take(2).flatten().sum();
    let base = match &header.codec {
        CodecParameters::Decimate(_) => least_base,
        _ => least_base.max(base_bytes(array_bytes, options) as u64),
    };
    let small = (array_bytes / CHUNK_PART).max(CHUNK_BYTES_MIN);
    let least = options.chunk_bytes.min(small) as u64;
    let mut ends = Vec::new();
    let mut end = base.min(total);
    while end < total {
        ends.push(end);
        end += least.max((end as f64 * CHUNK_GROWTH) as u64);
        // The rest is not worth a chunk of its own.
        if end + least > total {
            end = total;
        }
    }
    ends.push(total);
    ends
}

/// Chunks that end at these points of the table.
fn chunks(ends: &[u64], points: &[Point]) -> Vec<Chunk> {
    let mut start = 0;
    let chunk = |end: &u64| {
        let point = &points[points.partition_point(|point| point.payload < *end)];
        Chunk::up_to(point, std::mem::replace(&mut start, *end))
    };
    ends.iter().map(chunk).collect()
}
