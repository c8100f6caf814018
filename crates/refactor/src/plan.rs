//! The choice of an array's tiles, its codec, and its parameters.

use crate::decimate::Decimate;
use crate::error::RefactorError;
use crate::escape;
use crate::grid::{self, Bounds, Grid, TILE_SAMPLES};
use crate::ordinary::Ordinary;
use crate::parameters::{CodecParameters, EXPONENT_MIN};
use crate::planes::{dispatch, scaled, Choosing, First, Integers, Number, Settings};
use crate::quantised::{mean_step, values_of};
use crate::sample::DataType;
use crate::scaled::{EXPONENT_MAX, INTEGER_BITS_MAX};
use crate::write::Options;

/// The base of `decimate` has at most this part of the array's bytes unless the caller says otherwise.
const DECIMATED_BASE_PART: usize = 128;
/// Below any weight of an integer's least bit.
const INTEGER_FINEST: i32 = -64;
/// The last plane of rounded integers: a residual costs less than the next one.
const ROUNDED_FINEST: i32 = 0;
/// Doubles hold the integers up to this one, of either sign.
const DOUBLE_INTEGER_MAX: f64 = (1_u64 << 53) as f64;
/// The transform is chosen by at most so many samples.
const CHOICE_SAMPLES: usize = 1 << 17;

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
            let middle = Middle::of(samples, ordinary, &grid);
            let size = (grid.edges.iter().product(), options.tolerance);
            let codec = match values_of(samples, ordinary) {
                Some(values) => quantised(values.iter().map(|value| value.to_f64()).collect(), size, &middle),
                None if T::INTEGER => integer_planes(range, size, &middle),
                None => float_planes::<T>(range, size, &middle),
            };
            Ok((grid, codec))
        }
        other => Err(RefactorError::Codec(other.to_owned())),
    }
}

fn decimate(array_bytes: usize, options: &Options) -> Result<CodecParameters, RefactorError> {
    let codec = match &options.ratios {
        Some(ratios) => Decimate::new(ratios.clone()),
        None => {
            Decimate::for_base(array_bytes, options.base_bytes.unwrap_or(array_bytes / DECIMATED_BASE_PART))
        }
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

/// The middle of an array, by which its transform is chosen.
struct Middle {
    /// In C order.
    samples: Vec<f64>,
    shape: [usize; 4],
}

impl Middle {
    fn of<T: Number>(samples: &[T], ordinary: Ordinary, grid: &Grid) -> Self {
        if samples.is_empty() {
            return Self { samples: Vec::new(), shape: grid.shape };
        }
        let mut bounds = grid.bounds(grid.tiles() / 2);
        let mut shape = grid::lengths(&bounds);
        while shape.iter().product::<usize>() > CHOICE_SAMPLES {
            let longest = (0..4).max_by_key(|axis| shape[*axis]).unwrap_or(3);
            let fitting = CHOICE_SAMPLES * shape[longest] / shape.iter().product::<usize>();
            shape[longest] = fitting.max(shape[longest] / 2);
        }
        for (range, length) in bounds.iter_mut().zip(shape) {
            let start = range.start + (range.len() - length) / 2;
            *range = start..start + length;
        }
        let mut own = vec![T::default(); shape.iter().product()];
        let array: Bounds = grid.shape.map(|length| 0..length);
        grid::copy(samples, &array, &mut own, &bounds, &bounds);
        let own = escape::filled(&own, ordinary).unwrap_or(own);
        Self { samples: own.iter().map(|sample| sample.to_f64()).collect(), shape }
    }

    /// The transform that suits the samples; that of integers, too, if they are multiples of `unit`.
    fn transform(&self, unit: Option<f64>) -> (First, Integers) {
        dispatch(Choosing { samples: &self.samples, shape: self.shape, unit })
    }
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

/// The samples of a tile, and the tolerance.
type Size = (usize, Option<f64>);

/// Planes of places in a list.
fn quantised(values: Vec<f64>, (tile_samples, tolerance): Size, middle: &Middle) -> CodecParameters {
    let (last, step) = ((values.len() - 1) as f64, mean_step(&values));
    let tolerance = tolerance.map(|tolerance| tolerance / step);
    let transform = middle.transform(Some(step));
    CodecParameters::Quantised(integer_settings(last, (tile_samples, tolerance), transform), values)
}

/// Planes of samples, divided by a power of two where their range is extreme.
fn float_planes<T: Number>(
    range: (f64, f64),
    (tile_samples, tolerance): Size,
    middle: &Middle,
) -> CodecParameters {
    if range.0 == range.1 {
        // Nothing but the value itself is coded.
        return CodecParameters::Planes(Settings::new(0, 0));
    }
    let largest = exponent(range.0.abs().max(range.1.abs()));
    let divisor = if largest.abs() <= EXPONENT_MAX { 0 } else { largest };
    let half = exponent(scaled(range.1, -divisor) / 2.0 - scaled(range.0, -divisor) / 2.0);
    let rounding = if T::KIND == DataType::Float32 { 22 } else { 44 };
    let finest = tolerance.map_or(half - rounding, |tolerance| finest_for(scaled(tolerance, -divisor)));
    let transform = middle.transform(None);
    let settings = float_settings(half, finest, tile_samples, transform);
    match divisor {
        0 => CodecParameters::Planes(settings),
        _ => CodecParameters::Scaled(settings, divisor),
    }
}

/// Planes of integers, without their last bits where they span too many.
fn integer_planes(range: (f64, f64), (tile_samples, tolerance): Size, middle: &Middle) -> CodecParameters {
    let span = range.1 - range.0;
    let dropped = exponent(span) + 1 - INTEGER_BITS_MAX;
    if dropped <= 0 {
        let is_double = range.0.abs().max(range.1.abs()) <= DOUBLE_INTEGER_MAX;
        let transform = middle.transform(is_double.then_some(1.0));
        return CodecParameters::Planes(integer_settings(span, (tile_samples, tolerance), transform));
    }
    let tolerance = tolerance.map(|tolerance| scaled(tolerance, -dropped));
    let transform = middle.transform(None);
    let settings = integer_settings(scaled(span, -dropped), (tile_samples, tolerance), transform);
    CodecParameters::Scaled(settings, dropped)
}

/// Planes from above the largest coefficient that is possible of samples whose half range has this exponent.
fn float_settings(
    half: i32,
    finest: i32,
    tile_samples: usize,
    (first, integers): (First, Integers),
) -> Settings {
    // The smooth filter's absolute taps sum to less than 1.5, and there are fewer halvings than octaves of samples.
    let top = half + 2 + (0.585 * (tile_samples as f64).log2()).ceil() as i32;
    let finest = finest.max(EXPONENT_MIN);
    Settings { first, integers, ..Settings::new(top.max(finest), finest) }
}

/// The settings of integers: without a tolerance down to the last bit, or to where rounding makes most of them exact.
fn integer_settings(span: f64, (tile_samples, tolerance): Size, transform: (First, Integers)) -> Settings {
    let (first, integers) = transform;
    if integers == Integers::Rounded {
        let finest = tolerance.map_or(ROUNDED_FINEST, finest_for);
        return float_settings(exponent(span / 2.0), finest, tile_samples, transform);
    }
    let finest = tolerance.map_or(INTEGER_FINEST, |tolerance| finest_for(tolerance).max(INTEGER_FINEST));
    // Details of integers have twice the samples' span, and norms that grow by a half each level.
    let top = exponent(span).max(0) + 4 + (1.085 * (tile_samples as f64).log2()).ceil() as i32;
    Settings { first, integers, ..Settings::new(top.max(finest), finest) }
}
