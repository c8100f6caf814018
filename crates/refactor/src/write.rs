//! From an array to a container.

use crate::block;
use crate::codec::TileCodec;
use crate::decimate::Decimate;
use crate::error::RefactorError;
use crate::grid::{self, Bounds, Grid};
use crate::header::{padded, Accuracy, Chunk, CodecParameters, Header};
use crate::parallel;
use crate::sample::Sample;
use crate::stream::starts;

/// The base has at most this part of the array's bytes unless the caller says otherwise.
const BASE_PART: usize = 128;
/// Chunks of a small array have this part of its bytes.
const CHUNK_PART: usize = 128;
/// A chunk is at least this long.
const CHUNK_BYTES_MIN: usize = 1024;
/// Each chunk has this part of the bytes before it, so that the table stays short however large the array is.
const CHUNK_GROWTH: f64 = 0.4;

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

/// Refactor an array of 1 to 4 axes in C order.
///
/// # Errors
/// What is wrong with the shape or an option.
pub fn refactor<T: Sample>(
    samples: &[T],
    shape: &[usize],
    options: &Options,
) -> Result<Vec<u8>, RefactorError> {
    check(samples.len(), shape, options)?;
    let array_bytes = samples.len() * T::KIND.bytes();
    let codec = parameters(array_bytes, options)?;
    let grid = match codec {
        CodecParameters::Decimate(_) => Grid::whole(padded(shape)),
    };
    let tile_codec = codec.codec::<T>();
    let encoded = parallel::map(grid.tiles(), options.threads, |tile| {
        let bounds = grid.bounds(tile);
        let own = cut(samples, &grid, &bounds);
        let mut layers: Vec<Vec<u8>> = Vec::new();
        for segment in tile_codec.encode(&own, grid::lengths(&bounds)) {
            layers.resize(layers.len().max(usize::from(segment.layer) + 1), Vec::new());
            layers[usize::from(segment.layer)] = segment.bytes;
        }
        layers
    });
    let layer_count = encoded.iter().map(Vec::len).max().unwrap_or(0);
    let length = |tile: &Vec<Vec<u8>>, layer: usize| tile.get(layer).map_or(0, Vec::len) as u64;
    let layers: Vec<Vec<u64>> =
        (0..layer_count).map(|layer| encoded.iter().map(|tile| length(tile, layer)).collect()).collect();
    let header = Header {
        kind: T::KIND,
        shape: shape.to_vec(),
        range: range(samples),
        blank: Accuracy { rmse: 0.0, max_error: 0.0 },
        chunks: Vec::new(),
        header_bytes: 0,
        block_bytes: block::block_bytes(array_bytes) as u64,
        codec,
        grid,
        layers,
    };
    let ends = chunk_ends(&header, array_bytes, options);
    let accuracies = measure(samples, &header, tile_codec.as_ref(), &encoded, &ends, options.threads);
    Ok(assemble(header, &encoded, &ends, &accuracies))
}

impl CodecParameters {
    pub(crate) fn codec<T: Sample>(&self) -> Box<dyn TileCodec<T>> {
        match self {
            Self::Decimate(codec) => Box::new(codec.clone()),
        }
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

fn parameters(array_bytes: usize, options: &Options) -> Result<CodecParameters, RefactorError> {
    match options.codec.as_str() {
        "decimate" => {
            let base_bytes = options.base_bytes.unwrap_or(array_bytes / BASE_PART);
            let codec = match &options.ratios {
                Some(ratios) => Decimate { ratios: ratios.clone() },
                None => Decimate::for_base(array_bytes, base_bytes),
            };
            if !codec.is_sound() {
                return Err(RefactorError::Option {
                    name: "ratios",
                    value: format!("{:?}", codec.ratios),
                    expected: "each is at least 2, larger than the one before and a multiple of it",
                });
            }
            Ok(CodecParameters::Decimate(codec))
        }
        other => Err(RefactorError::Codec(other.to_owned())),
    }
}

/// The samples of one tile.
fn cut<T: Sample>(samples: &[T], grid: &Grid, bounds: &Bounds) -> Vec<T> {
    let mut own = vec![T::default(); grid::lengths(bounds).iter().product()];
    grid::copy(samples, &grid.shape.map(|length| 0..length), &mut own, bounds, bounds);
    own
}

/// The smallest and the largest finite sample.
fn range<T: Sample>(samples: &[T]) -> (f64, f64) {
    let finite = samples.iter().filter(|sample| sample.is_finite()).map(|sample| sample.to_f64());
    finite
        .fold(None, |range: Option<(f64, f64)>, sample| {
            let (low, high) = range.unwrap_or((sample, sample));
            Some((low.min(sample), high.max(sample)))
        })
        .unwrap_or((0.0, 0.0))
}

/// Payload offsets at which the base and the augmentations end.
fn chunk_ends(header: &Header, array_bytes: usize, options: &Options) -> Vec<u64> {
    let total: u64 = header.layers.iter().flatten().sum();
    let base = match (&header.codec, options.base_bytes) {
        (CodecParameters::Decimate(_), _) => header.layers.first().map_or(0, |layer| layer.iter().sum()),
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
fn measure<T: Sample>(
    samples: &[T],
    header: &Header,
    codec: &dyn TileCodec<T>,
    encoded: &[Vec<Vec<u8>>],
    ends: &[u64],
    threads: usize,
) -> Vec<Accuracy> {
    let starts = starts(&header.layers);
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
                    let segments: Vec<&[u8]> =
                        encoded[tile].iter().zip(&lengths).map(|(bytes, length)| &bytes[..*length]).collect();
                    error_sums(&own, &codec.decode(grid::lengths(&bounds), &segments))
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
            Accuracy { rmse: (squares / count).sqrt(), max_error }
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
