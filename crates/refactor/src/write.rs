//! From an array to a container.

use crate::block;
use crate::error::RefactorError;
use crate::grid::{self, Bounds, Grid};
use crate::header::{padded, Accuracy, Chunk, Header};
use crate::ordinary::Ordinary;
use crate::parallel;
use crate::parameters::{plan, range, CodecParameters, BASE_PART};
use crate::planes::Number;
use crate::sample::Sample;
use crate::stream::starts;
use crate::tile::Encoded;

/// Chunks of a small array have this part of its bytes.
const CHUNK_PART: usize = 128;
/// A chunk is at least this long.
const CHUNK_BYTES_MIN: usize = 1024;
/// Each chunk has so many times the bytes before it: every entry of the table costs a decoding when it is measured.
const CHUNK_GROWTH: f64 = 1.2;
/// Sums in another order may differ by this part.
const SUM_ROUNDING: f64 = 1e-9;

/// How to refactor an array.
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
            threads: 1,
        }
    }
}

/// A tolerance is aimed at by the step of the quantiser, and missed where errors happen to add up.
const ATTEMPTS: i32 = 3;

/// Refactor an array of 1 to 4 axes in C order.
///
/// # Errors
/// What is wrong with the shape or an option.
pub fn refactor<T: Number>(
    samples: &[T],
    shape: &[usize],
    options: &Options,
) -> Result<Vec<u8>, RefactorError> {
    check(samples.len(), shape, options)?;
    let array_bytes = samples.len() * T::KIND.bytes();
    let ordinary = ordinary(samples, options);
    let (grid, mut codec) = plan(samples, ordinary, padded(shape), options)?;
    let mut header = Header {
        kind: T::KIND,
        shape: shape.to_vec(),
        range: range(samples, ordinary),
        blank: Accuracy { rmse: 0.0, max_error: 0.0 },
        chunks: Vec::new(),
        header_bytes: 0,
        block_bytes: block::block_bytes(array_bytes) as u64,
        exact: options.exact,
        codec: codec.clone(),
        grid,
        layers: Vec::new(),
    };
    let tolerance = options.tolerance.unwrap_or(f64::INFINITY);
    for attempt in 1.. {
        header.codec = codec.clone();
        let encoded = encode(samples, ordinary, &mut header, options.threads);
        let ends = chunk_ends(&header, array_bytes, options);
        let accuracies = measure(samples, &header, &encoded, &ends, options.threads);
        if header.exact || accuracies.last().is_none_or(|last| last.max_error <= tolerance) {
            return Ok(assemble(header, &encoded, &ends, &accuracies));
        }
        // Below the rounding of the samples no step is fine enough.
        header.exact = attempt == ATTEMPTS || !codec.refine();
    }
    unreachable!("the last attempt is exact")
}

/// Encode all tiles and list what they have in each layer.
fn encode<T: Number>(
    samples: &[T],
    ordinary: Ordinary,
    header: &mut Header,
    threads: usize,
) -> Vec<Vec<Vec<u8>>> {
    let coder = header.coder::<T>();
    let tiles = parallel::map(header.grid.tiles(), threads, |tile| {
        let bounds = header.grid.bounds(tile);
        coder.encode(&cut(samples, &header.grid, &bounds), grid::lengths(&bounds), ordinary)
    });
    let count = tiles.iter().map(|tile| tile.layers.len()).max().unwrap_or(0);
    let is_exact = header.exact;
    let whole = |tile: Encoded| {
        let mut layers = tile.layers;
        layers.resize(count, Vec::new());
        if is_exact {
            layers.push(tile.residual);
        }
        layers
    };
    let tiles: Vec<Vec<Vec<u8>>> = tiles.into_iter().map(whole).collect();
    let lengths = |layer: usize| tiles.iter().map(|tile| tile[layer].len() as u64).collect();
    header.layers = (0..tiles.first().map_or(0, Vec::len)).map(lengths).collect();
    tiles
}

/// The samples that the codec takes; `decimate` keeps to the paper.
fn ordinary<T: Sample>(samples: &[T], options: &Options) -> Ordinary {
    match options.codec.as_str() {
        "planes" => Ordinary::of(samples),
        _ => Ordinary::FINITE,
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
        _ if options.base_bytes == Some(0) => {
            wrong("base_bytes", "0".to_owned(), "a base has at least 1 byte")
        }
        _ => Ok(()),
    }
}

/// The samples of one tile.
fn cut<T: Sample>(samples: &[T], grid: &Grid, bounds: &Bounds) -> Vec<T> {
    let mut own = vec![T::default(); grid::lengths(bounds).iter().product()];
    grid::copy(samples, &grid.shape.map(|length| 0..length), &mut own, bounds, bounds);
    own
}

/// Payload offsets at which the base and the augmentations end.
fn chunk_ends(header: &Header, array_bytes: usize, options: &Options) -> Vec<u64> {
    let total: u64 = header.layers.iter().flatten().sum();
    // What is no number, and what each tile begins with or its coarsest level.
    let least_base: u64 = header.layers.iter().take(2).flatten().sum();
    let base = match (&header.codec, options.base_bytes) {
        (CodecParameters::Decimate(_), _) => least_base,
        (_, base) => least_base.max(base.unwrap_or((array_bytes / BASE_PART).max(CHUNK_BYTES_MIN)) as u64),
    };
    let small = (array_bytes / CHUNK_PART).max(CHUNK_BYTES_MIN);
    let least = options.chunk_bytes.min(small) as u64;
    let mut ends = Vec::new();
    let mut end = base.min(total);
    while end < total {
        ends.push(end);
        end += least.max((end as f64 * CHUNK_GROWTH) as u64);
        // What is left is not worth a chunk of its own.
        if end + least > total {
            end = total;
        }
    }
    ends.push(total);
    ends
}

/// The accuracy of what is restored from nothing, and from the payload up to each of `ends`.
fn measure<T: Number>(
    samples: &[T],
    header: &Header,
    encoded: &[Vec<Vec<u8>>],
    ends: &[u64],
    threads: usize,
) -> Vec<Accuracy> {
    let starts = starts(&header.layers);
    let coder = header.coder::<T>();
    let tiles = parallel::map(header.grid.tiles(), threads, |tile| {
        let bounds = header.grid.bounds(tile);
        let own = cut(samples, &header.grid, &bounds);
        let mut before: Option<(Vec<usize>, (f64, f64))> = None;
        let mut errors = Vec::new();
        for end in std::iter::once(&0).chain(ends) {
            let known = |layer: usize, bytes: &Vec<u8>| {
                (end.saturating_sub(starts[layer][tile])).min(bytes.len() as u64) as usize
            };
            let lengths: Vec<usize> =
                encoded[tile].iter().enumerate().map(|(layer, bytes)| known(layer, bytes)).collect();
            let error = match before {
                Some((ref same, error)) if *same == lengths => error,
                _ => {
                    let mut layers: Vec<&[u8]> =
                        encoded[tile].iter().zip(&lengths).map(|(bytes, length)| &bytes[..*length]).collect();
                    let is_whole =
                        encoded[tile].iter().zip(&layers).all(|(all, some)| all.len() == some.len());
                    let residual = if header.exact { layers.pop() } else { None };
                    let restored =
                        coder.decode(grid::lengths(&bounds), &layers, residual.filter(|_| is_whole));
                    error_sums(&own, &restored)
                }
            };
            before = Some((lengths, error));
            errors.push(error);
        }
        errors
    });
    let count = samples.len().max(1) as f64;
    (0..=ends.len())
        .map(|point| {
            let squares: f64 = tiles.iter().map(|errors| errors[point].0).sum();
            let max_error = tiles.iter().map(|errors| errors[point].1).fold(0.0, f64::max);
            Accuracy { rmse: (squares / count).sqrt() * (1.0 + SUM_ROUNDING), max_error }
        })
        .collect()
}

/// The sum of the squared errors, and the largest error.
fn error_sums<T: Sample>(original: &[T], restored: &[T]) -> (f64, f64) {
    original.iter().zip(restored).fold((0.0, 0.0), |(squares, largest), (one, other)| {
        let distance = one.distance(*other);
        (squares + distance * distance, f64::max(largest, distance))
    })
}

/// The container's bytes.
fn assemble(mut header: Header, encoded: &[Vec<Vec<u8>>], ends: &[u64], accuracies: &[Accuracy]) -> Vec<u8> {
    let mut payload = Vec::new();
    for layer in 0..header.layers.len() {
        encoded.iter().filter_map(|tile| tile.get(layer)).for_each(|bytes| payload.extend_from_slice(bytes));
    }
    let mut start = 0;
    header.blank = accuracies[0];
    for (end, accuracy) in ends.iter().zip(&accuracies[1..]) {
        let payload = start..*end;
        header.chunks.push(Chunk { offset: 0, length: 0, accuracy: *accuracy, payload });
        start = *end;
    }
    let mut stream = header.encode();
    for chunk in &header.chunks {
        let part = &payload[chunk.payload.start as usize..chunk.payload.end as usize];
        block::append(part, header.block_bytes as usize, &mut stream);
    }
    stream
}
