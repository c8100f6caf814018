//! The choice of an array's codec and its parameters, and their spelling in the header.

use crate::bytes::{put_integer, Reader};
use crate::codec::TileCodec;
use crate::decimate::{Decimate, Layout};
use crate::error::RefactorError;
use crate::grid::{Grid, TILE_SAMPLES};
use crate::header::Header;
use crate::ordinary::{self, Ordinary};
use crate::parallel;
use crate::planes::{dispatch, scaled, Kernel, Number, Settings, Words};
use crate::quantised::{values_of, Quantised};
use crate::sample::{DataType, Sample};
use crate::scaled::{Scaled, EXPONENT_MAX, INTEGER_BITS_MAX};
use crate::tile::Coder;
use crate::write::Options;

/// The base has at most this part of the array's bytes unless the caller says otherwise.
pub(crate) const BASE_PART: usize = 128;
/// Exponents of planes lie within this of 0: those of doubles do, whatever the transform adds.
const HEADER_EXPONENT_MAX: i32 = 1200;
/// Below the bits of any double.
const EXPONENT_MIN: i32 = -1150;
/// Below any weight of an integer's least bit.
const INTEGER_FINEST: i32 = -64;

/// The codec of an array and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum CodecParameters {
    /// The paper's.
    Decimate(Decimate),
    /// Wavelets and bit-planes.
    Planes(Settings),
    /// Planes of the places that samples have in a list of values.
    Quantised(Settings, Vec<f64>),
    /// Planes of samples divided by a power of two.
    Scaled(Settings, i32),
}

impl CodecParameters {
    /// The name that users give it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Decimate(_) => "decimate",
            Self::Planes(_) | Self::Quantised(..) | Self::Scaled(..) => "planes",
        }
    }

    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Decimate(codec) => {
                bytes.push(match codec.layout {
                    Layout::Sorted => 0,
                    Layout::Buckets => 4,
                });
                put_integer(codec.ratios.len() as u64, bytes);
                codec.ratios.iter().for_each(|ratio| put_integer(*ratio as u64, bytes));
            }
            Self::Planes(settings) => {
                bytes.push(1);
                put_settings(settings, bytes);
            }
            Self::Quantised(settings, values) => {
                bytes.push(2);
                put_settings(settings, bytes);
                Quantised::put_values(values, bytes);
            }
            Self::Scaled(settings, exponent) => {
                bytes.push(3);
                put_settings(settings, bytes);
                put_exponent(*exponent, bytes);
            }
        }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Self> {
        match reader.byte()? {
            kind @ (0 | 4) => {
                let count = reader.length().filter(|count| *count <= reader.rest().len())?;
                let ratios = (0..count).map(|_| reader.length()).collect::<Option<Vec<_>>>()?;
                let layout = if kind == 0 { Layout::Sorted } else { Layout::Buckets };
                let codec = Decimate { ratios, layout };
                codec.is_sound().then_some(Self::Decimate(codec))
            }
            1 => take_settings(reader).map(Self::Planes),
            2 => Some(Self::Quantised(take_settings(reader)?, Quantised::<f64>::take_values(reader)?)),
            3 => Some(Self::Scaled(take_settings(reader)?, take_exponent(reader)?)),
            _ => None,
        }
    }
}

fn put_exponent(exponent: i32, bytes: &mut Vec<u8>) {
    put_integer(exponent.abs_diff(-HEADER_EXPONENT_MAX).into(), bytes);
}

fn take_exponent(reader: &mut Reader<'_>) -> Option<i32> {
    let above = reader.integer().filter(|above| *above <= 2 * HEADER_EXPONENT_MAX as u64)?;
    Some(above as i32 - HEADER_EXPONENT_MAX)
}

fn put_settings(settings: &Settings, bytes: &mut Vec<u8>) {
    put_exponent(settings.top, bytes);
    put_exponent(settings.finest, bytes);
}

fn take_settings(reader: &mut Reader<'_>) -> Option<Settings> {
    let settings = Settings { top: take_exponent(reader)?, finest: take_exponent(reader)? };
    (settings.finest <= settings.top).then_some(settings)
}

impl Header {
    /// The coder of the tiles.
    pub(crate) fn coder<T: Number>(&self) -> Coder<T> {
        let codec: Box<dyn TileCodec<T>> = match &self.codec {
            CodecParameters::Decimate(codec) => Box::new(codec.clone()),
            CodecParameters::Planes(settings) => Box::new(*settings),
            CodecParameters::Scaled(settings, exponent) => {
                Box::new(Scaled { settings: *settings, exponent: *exponent })
            }
            CodecParameters::Quantised(settings, values) => Box::new(Quantised {
                settings: *settings,
                values: values.iter().map(|value| T::from_f64(*value)).collect(),
            }),
        };
        Coder { codec, exact: self.exact }
    }
}

/// The tiles and the codec.
pub(crate) fn plan<T: Number>(
    samples: &[T],
    (ordinary, range): (Ordinary, (f64, f64)),
    shape: [usize; 4],
    options: &Options,
) -> Result<(Grid, CodecParameters), RefactorError> {
    match options.codec.as_str() {
        "decimate" => Ok((Grid::whole(shape), decimate(samples.len() * T::KIND.bytes(), options)?)),
        "planes" => {
            let grid = Grid::new(shape, TILE_SAMPLES);
            let tile_samples = grid.edges.iter().product();
            let codec = match values_of(samples, ordinary) {
                Some(values) => {
                    let (first, last) = (values[0].to_f64(), values[values.len() - 1].to_f64());
                    let step = (last - first) / (values.len() - 1) as f64;
                    let tolerance = options.tolerance.map(|tolerance| tolerance / step);
                    let settings = integer_settings((values.len() - 1) as f64, tile_samples, tolerance);
                    CodecParameters::Quantised(settings, values.iter().map(|value| value.to_f64()).collect())
                }
                None if T::INTEGER => integer_planes(range.1 - range.0, tile_samples, options.tolerance),
                None => float_planes::<T>(range, tile_samples, options.tolerance),
            };
            Ok((grid, codec))
        }
        other => Err(RefactorError::Codec(other.to_owned())),
    }
}

fn decimate(array_bytes: usize, options: &Options) -> Result<CodecParameters, RefactorError> {
    let codec = match &options.ratios {
        Some(ratios) => Decimate::new(ratios.clone()),
        None => Decimate::for_base(array_bytes, options.base_bytes.unwrap_or(array_bytes / BASE_PART)),
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

/// The exponent of the leading bit; that of the smallest double for 0.
pub(crate) fn exponent(value: f64) -> i32 {
    if value > 0.0 {
        value.log2().floor() as i32
    } else {
        -1074
    }
}

/// The last plane that keeps errors below a tolerance, as a rule: errors of a quarter of the coefficients' intervals,
/// three deviations out.
fn finest_for(tolerance: f64) -> i32 {
    (exponent(tolerance) - 1).clamp(EXPONENT_MIN, -EXPONENT_MIN)
}

/// Planes of samples, divided by a power of two where their range is extreme.
fn float_planes<T: Number>(
    range: (f64, f64),
    tile_samples: usize,
    tolerance: Option<f64>,
) -> CodecParameters {
    if range.0 == range.1 {
        // Nothing but the value itself is coded.
        return CodecParameters::Planes(Settings { top: 0, finest: 0 });
    }
    let largest = exponent(range.0.abs().max(range.1.abs()));
    if largest.abs() <= EXPONENT_MAX {
        return CodecParameters::Planes(float_settings::<T>(range, tile_samples, tolerance));
    }
    let range = (scaled(range.0, -largest), scaled(range.1, -largest));
    let tolerance = tolerance.map(|tolerance| scaled(tolerance, -largest));
    CodecParameters::Scaled(float_settings::<T>(range, tile_samples, tolerance), largest)
}

/// Planes of integers, without their last bits where they span too many.
fn integer_planes(span: f64, tile_samples: usize, tolerance: Option<f64>) -> CodecParameters {
    let dropped = exponent(span) + 1 - INTEGER_BITS_MAX;
    if dropped <= 0 {
        return CodecParameters::Planes(integer_settings(span, tile_samples, tolerance));
    }
    let tolerance = tolerance.map(|tolerance| scaled(tolerance, -dropped));
    CodecParameters::Scaled(integer_settings(scaled(span, -dropped), tile_samples, tolerance), dropped)
}

/// Planes from above the largest coefficient that is possible down to the tolerance, or to the rounding of a sample of
/// half the range.
fn float_settings<T: Number>(range: (f64, f64), tile_samples: usize, tolerance: Option<f64>) -> Settings {
    let half = exponent(range.1 / 2.0 - range.0 / 2.0);
    let rounding = if T::KIND == DataType::Float32 { 22 } else { 44 };
    let finest = tolerance.map_or(half - rounding, finest_for);
    // The smooth filter's absolute taps sum to less than 1.5, and there are fewer halvings than octaves of samples.
    let top = half + 2 + (0.585 * (tile_samples as f64).log2()).ceil() as i32;
    let finest = finest.max(EXPONENT_MIN);
    Settings { top: top.max(finest), finest }
}

/// The settings of integers: those of [`float_settings`], down to the last bit without a tolerance. Details of integers
/// have twice the samples' span, and norms that grow by a half each level.
fn integer_settings(span: f64, tile_samples: usize, tolerance: Option<f64>) -> Settings {
    let finest = tolerance.map_or(INTEGER_FINEST, |tolerance| finest_for(tolerance).max(INTEGER_FINEST));
    let top = exponent(span).max(0) + 4 + (1.085 * (tile_samples as f64).log2()).ceil() as i32;
    Settings { top: top.max(finest), finest }
}

impl CodecParameters {
    /// Whether all planes leave more than a tolerance: more than nothing, of integers without one.
    pub(crate) fn is_coarse(&self, kind: DataType, tolerance: Option<f64>) -> bool {
        match self {
            Self::Scaled(_, dropped) if !kind.is_float() => {
                tolerance.is_none_or(|tolerance| tolerance < f64::from(*dropped).exp2())
            }
            _ => false,
        }
    }

    /// Another plane; false if the codec has none.
    pub(crate) fn refine(&mut self) -> bool {
        match self {
            Self::Planes(settings) | Self::Quantised(settings, _) | Self::Scaled(settings, _)
                if settings.finest > EXPONENT_MIN =>
            {
                settings.finest -= 1;
                true
            }
            _ => false,
        }
    }
}

/// The smallest and the largest sample that the codec takes, both 0 if there is none; and whether it takes all.
pub(crate) fn range<T: Sample>(samples: &[T], ordinary: Ordinary, threads: usize) -> ((f64, f64), bool) {
    let pieces: Vec<&[T]> = samples.chunks(ordinary::PIECE_SAMPLES).collect();
    let range_of = |piece: usize| dispatch(Ranging { samples: pieces[piece], ordinary });
    let ranges = parallel::map(pieces.len(), threads, range_of);
    let takes_all = ranges.iter().all(|(_, takes_all)| *takes_all);
    let both = |one: (T, T), other: (T, T)| (lesser(one.0, other.0), greater(one.1, other.1));
    let range = ranges.into_iter().filter_map(|(range, _)| range).reduce(both);
    (range.map_or((0.0, 0.0), |(low, high)| (low.to_f64(), high.to_f64())), takes_all)
}

/// Lanes that need not wait for each other.
const LANES: usize = 32;

/// Looks through samples by the processor's own instructions.
struct Ranging<'a, T> {
    samples: &'a [T],
    ordinary: Ordinary,
}

impl<T: Sample> Kernel for Ranging<'_, T> {
    type Output = (Option<(T, T)>, bool);

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Self::Output {
        let Self { samples, ordinary } = self;
        let (rows, rest) = samples.as_chunks::<LANES>();
        let first = samples.first().copied().unwrap_or_default();
        let (mut lows, mut highs, mut is_finite) = ([first; LANES], [first; LANES], true);
        for row in rows {
            for lane in 0..LANES {
                lows[lane] = lesser(row[lane], lows[lane]);
                highs[lane] = greater(row[lane], highs[lane]);
            }
            is_finite &= row.iter().fold(true, |all, sample| all & sample.is_finite());
        }
        is_finite &= rest.iter().all(|sample| sample.is_finite());
        let low = lows.iter().chain(rest).copied().fold(first, lesser);
        let high = highs.iter().chain(rest).copied().fold(first, greater);
        if is_finite && ordinary.holds(low) && ordinary.holds(high) {
            return ((!samples.is_empty()).then_some((low, high)), true);
        }
        let taken = samples.iter().copied().filter(|sample| ordinary.holds(*sample));
        let both = |(low, high): (T, T), sample: T| (lesser(sample, low), greater(sample, high));
        let range = taken.fold(None, |range: Option<(T, T)>, sample| {
            Some(both(range.unwrap_or((sample, sample)), sample))
        });
        (range, false)
    }
}

#[inline(always)]
fn lesser<T: Sample>(one: T, other: T) -> T {
    if one < other {
        one
    } else {
        other
    }
}

#[inline(always)]
fn greater<T: Sample>(one: T, other: T) -> T {
    if one > other {
        one
    } else {
        other
    }
}
