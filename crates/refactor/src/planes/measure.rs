//! The error that a tile has left at the end of each pass, from its coefficients and without decoding.
//!
//! At a few planes the decoder's estimate is made of the coefficients, transformed back and compared. At all others the
//! sum of the coefficients' errors is known (`squares`). The filters are not quite orthogonal: the samples' error is up
//! to a tenth larger than the coefficients', by a ratio that changes slowly from plane to plane, and so does the
//! largest error in units of the root of the mean square. Both are interpolated between the planes that are measured.

use super::bands::Band;
use super::boxes::for_each_row;
use super::layout::{is_single, Layout};
use super::number::{scaled, Coefficient};
use super::offsets::Original;
use super::squares::Pass;
use super::steps::{CENTRE, CENTRE_LEADING};
use super::transform;
use crate::codec::{Progress, Segment};
use crate::judge::Errors;

/// A tile of at most so many samples is measured at every plane: there, chance rules.
const SMALL_SAMPLES: usize = 1 << 16;
/// Planes that are measured of a larger one: that of the base, the last, and some between them, ...
const PLANES_MEASURED: usize = 4;
/// ... and so many planes behind the base's: the largest error of the first few changes most, beside their mean.
const PLANES_BEHIND_BASE: usize = 2;
/// So many of the last planes of whole numbers are measured too: there, errors are whole numbers, and few.
const INTEGER_PLANES_LAST: usize = 5;
/// The factors on derived errors, for the root of the mean square and for the largest. On real fields, the first is off
/// by at most 2 %, and the second scatters by up to 35 % from plane to plane (on noise, rarely, by 80 %).
const RMSE_MARGIN: f64 = 1.08;
const LARGEST_MARGIN: f64 = 2.0;
/// The first factor for lifted integers.
const INTEGER_RMSE_MARGIN: f64 = 1.35;
/// Lifting of integers rounds: where a coefficient is off by few steps, the parts of it that reach other samples become
/// whole numbers. That adds this part of the squares for each axis, as if by interest, ...
const LIFTING_PART: f64 = 0.8;
/// ... but no more than this for each sample.
const LIFTING_SQUARES_MAX: f64 = 0.75;
/// Rounding is most of the errors of lifted integers whose root of the mean square is at most so many steps of the samples.
const FEW_STEPS: f64 = 4.0;
/// The same of rounded numbers.
const FEW_STEPS_ROUNDED: f64 = 1.5;
/// The first factor before the first measured plane.
const EARLY_RMSE_MARGIN: f64 = 1.15;
const EARLY_LARGEST_MARGIN: f64 = 2.4;
/// The first factor while few coefficients are known, and the parts of them from which on it falls to the others: errors of
/// coefficients that are not known yet may be those of waves, which add up in the samples.
const FEW_RMSE_MARGIN: f64 = 1.4;
const FEW_PARTS: (f64, f64) = (0.05, 0.25);
/// The same for lifted integers of more than two axes, whose filters are short.
const INTEGER_FEW_RMSE_MARGIN: f64 = 2.5;
const INTEGER_FEW_PARTS: (f64, f64) = (0.03, 0.3);
/// Between measured planes the samples' squares are taken for at least so many times those of the coefficients.
const RATIO_MIN: f64 = 1.05;
/// The part that few samples may add by chance, times the root of their number.
const CHANCE: f64 = 2.0;
/// The largest error is told as at least so many times that of a coefficient of which no bit is known yet: a few of those
/// leave errors that are large beside their mean. While few are known, it is told as more: at corners the filters of all
/// axes and levels add up.
const LONE_MARGIN: f64 = 2.0;
const FEW_LONE_MARGIN: f64 = 8.0;
/// This margin rises so many times with each axis beyond the second.
const FEW_LONE_AXIS: f64 = 1.5;
const FEW_LONE_PARTS: (f64, f64) = (0.15, 0.5);
/// The largest error in units of the root of the mean square where none is measured.
const CREST_USUAL: f64 = 8.0;
/// Square of the samples' over that of the coefficients' errors: the filters make no ratio outside of this.
const RATIOS: std::ops::RangeInclusive<f64> = 0.7..=1.6;
/// The same for the filters of integers, which are short: errors around a lone spike add up.
const INTEGER_RATIOS: std::ops::RangeInclusive<f64> = 0.5..=6.0;
/// Part of the squares of the errors that rounding may make for the rest to tell of the filters: errors not much larger
/// than a last bit do not add to its rounding, but often vanish in it.
const ROUNDING_MAX: f64 = 0.05;
/// Segments shorter than this have few symbols: a cut one may be worth no more than none.
const SEGMENT_BYTES_MIN: usize = 64;

/// What the samples and their restored values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Floats.
    Fine,
    /// Integers that the reversible transform restores.
    Lifted,
    /// Whole numbers that restored floats are rounded to.
    Rounded,
}

/// A tile that is measured, and where.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) tile: &'a dyn Original,
    /// The judge's distance between samples that lie one apart.
    pub(super) unit: f64,
    /// Bytes of the tile that belong to the base, about.
    pub(super) base_bytes: usize,
    /// The tile is the whole array.
    pub(super) is_alone: bool,
}

/// Coefficients of which the decoder's estimate can be made.
pub(super) trait Estimated: Coefficient {
    /// The errors when the planes down to `exponent` are there.
    fn errors_at(coefficients: &[Self], layout: &Layout, exponent: i32, tile: &dyn Original) -> Errors;
}

macro_rules! float_errors {
    ($coefficients:expr, $layout:expr, $exponent:expr, $tile:expr, $from:ty, $to:ty, $errors:ident) => {{
        let step_inverse = f64::from(-$exponent).exp2() as $from;
        let mut field = vec![0.0; $coefficients.len()];
        for (estimate, &value) in field.iter_mut().zip($coefficients) {
            let whole = (value.abs() * step_inverse).trunc() as $to;
            let centre = if whole == 1.0 { CENTRE_LEADING } else { CENTRE } as $to;
            let steps = if whole == 0.0 { 0.0 } else { whole + centre };
            *estimate = if value < 0.0 { -steps } else { steps };
        }
        transform::inverse(&mut field, $layout.extents, &$layout.plan);
        // A power of two, which changes only the exponent of its multiples.
        $tile.$errors(&field, f64::from($exponent).exp2())
    }};
}

macro_rules! float_estimated {
    ($float:ty) => {
        impl Estimated for $float {
            #[inline(always)]
            fn errors_at(
                coefficients: &[Self],
                layout: &Layout,
                exponent: i32,
                tile: &dyn Original,
            ) -> Errors {
                // In the decoder's precision, so that errors are the same to the last bit.
                if is_single(layout.highest, exponent) {
                    float_errors!(coefficients, layout, exponent, tile, $float, f32, single)
                } else {
                    float_errors!(coefficients, layout, exponent, tile, $float, f64, double)
                }
            }
        }
    };
}

float_estimated!(f32);
float_estimated!(f64);

impl Estimated for i64 {
    #[inline(always)]
    fn errors_at(coefficients: &[Self], layout: &Layout, exponent: i32, tile: &dyn Original) -> Errors {
        let mut field = coefficients.to_vec();
        for (index, band) in layout.plan.bands.iter().enumerate() {
            estimate_integers(&mut field, layout, (index, band), exponent);
        }
        transform::inverse(&mut field, layout.extents, &layout.plan);
        tile.whole(&field)
    }
}

#[inline(always)]
fn estimate_integers(field: &mut [i64], layout: &Layout, (index, band): (usize, &Band), exponent: i32) {
    let bit = (exponent - layout.exponents[index]).max(0) as u32;
    let is_begun = (bit as usize) < layout.bits(index);
    for_each_row(band.origin, band.extents, layout.extents, |start, length| {
        for value in &mut field[start..start + length] {
            let whole = if is_begun { value.unsigned_abs() >> bit << bit } else { 0 };
            let middle = if whole == 0 { 0 } else { ((1_u64 << bit) - 1) / 2 };
            let magnitude = whole.wrapping_add(middle) as i64;
            *value = if *value < 0 { magnitude.wrapping_neg() } else { magnitude };
        }
    });
}

/// Ends of passes: the segments, the sums of their coefficients' errors, and the planes that were measured.
pub(super) struct Passes<'a> {
    pub(super) layout: &'a Layout,
    pub(super) segments: &'a [Segment],
    /// One for each pass: the coefficients' squared errors.
    pub(super) ends: Vec<Pass>,
    pub(super) per_plane: usize,
    pub(super) grain: Grain,
}

/// A plane that was measured: the pass that ends it, the samples' errors in units of the coefficients', and theirs.
#[derive(Clone, Copy)]
struct Measured {
    pass: usize,
    ratio: f64,
    crest: f64,
    errors: Errors,
}

/// Squares that the rounding of lifting adds: a part of those of the coefficients, and the most of them.
#[derive(Clone, Copy)]
struct Lifting {
    /// Axes of more than one sample.
    axes: i32,
    /// The judge's distance between samples that lie one apart.
    unit: f64,
    part: f64,
    most: f64,
}

/// The errors of a tile's passes are derived from these.
#[derive(Clone, Copy)]
struct Basis<'a> {
    measured: &'a [Measured],
    samples: usize,
    rounding: Errors,
    lifting: Lifting,
}

impl Passes<'_> {
    /// The error that is left, from nothing to everything.
    #[inline(always)]
    pub(super) fn progress<C: Estimated>(
        mut self,
        coefficients: &[C],
        observed: Observed<'_>,
    ) -> Vec<Progress> {
        let Observed { tile, unit, base_bytes, .. } = observed;
        let samples = coefficients.len();
        for pass in &mut self.ends {
            let inner = pass.inner.iter_mut().map(|(_, squares)| squares);
            inner.chain([&mut pass.squares]).for_each(|squares| *squares *= unit * unit);
        }
        let planes = self.planes_measured(samples, base_bytes);
        let mut found = Vec::with_capacity(planes.len());
        // No closure: the compiler must inline everything for the processor's own instructions to be used.
        for plane in &planes {
            found.push(C::errors_at(coefficients, self.layout, self.layout.highest - *plane as i32, tile));
        }
        let is_complete = self.ends.last().is_some_and(|end| end.squares == 0.0);
        let rounding = match self.grain {
            Grain::Fine => tile.rounding(),
            // All coefficients are known, and the rest is rounding.
            Grain::Lifted => found.last().copied().filter(|_| is_complete).unwrap_or_default(),
            Grain::Rounded => Errors { squares: unit * unit * samples as f64 / 12.0, largest: unit / 2.0 },
        };
        let lifting = self.lifting(unit, samples);
        let mut measured: Vec<Measured> = Vec::new();
        for (plane, errors) in planes.into_iter().zip(found) {
            let pass = (plane + 1) * self.per_plane - 1;
            measured.push(self.measured(pass, errors, (unit, samples), (rounding, measured.last())));
        }
        let beginning = tile.beginning(self.segments[0].bytes.len());
        self.points(beginning, Basis { measured: &measured, samples, rounding, lifting })
    }

    /// The points of all passes behind those of the beginning.
    fn points(&self, beginning: Vec<Progress>, basis: Basis<'_>) -> Vec<Progress> {
        let mut points = beginning;
        let mut before = points.last().map_or(Errors::default(), |point| point.errors);
        // Passes whose segment has not come yet, and the errors that each leaves.
        let mut waiting: Vec<(usize, Errors)> = Vec::new();
        for pass in 0..self.ends.len() {
            let (errors, is_measured) = self.errors_of((pass, self.ends[pass].squares), basis);
            let layer = self.layer(pass);
            waiting.push((pass, errors));
            if self.segments.binary_search_by_key(&layer, |segment| segment.layer).is_err() {
                // The symbols, if it has any, stand in a later segment.
                if pass + 1 == self.ends.len() {
                    points.push(Progress { layer, bytes: 0, errors, measured: is_measured });
                }
                continue;
            }
            let mut begun = 0;
            for (pass, errors) in waiting.drain(..).filter(|(pass, _)| self.ends[*pass].bytes > 0) {
                let end = &self.ends[pass];
                let told = |bytes, errors| Progress { layer, bytes, errors, measured: false };
                if end.bytes.saturating_sub(begun) < SEGMENT_BYTES_MIN {
                    points.push(told(end.bytes - 1, before));
                } else {
                    points.extend(
                        end.inner
                            .iter()
                            .map(|(bytes, squares)| told(*bytes, self.errors_of((pass, *squares), basis).0)),
                    );
                }
                points.push(told(end.bytes, errors));
                (before, begun) = (errors, end.bytes);
            }
            if let Some(last) = points.last_mut() {
                last.measured = is_measured;
            }
        }
        points
    }

    /// The part of squares that the rounding of lifting adds, by the distance of samples that lie one apart.
    fn lifting(&self, unit: f64, samples: usize) -> Lifting {
        let axes = self.layout.extents.iter().filter(|length| **length > 1).count() as i32;
        if self.grain != Grain::Lifted {
            return Lifting { axes, unit, part: 0.0, most: 0.0 };
        }
        Lifting {
            axes,
            unit,
            part: (1.0 + LIFTING_PART).powi(axes) - 1.0,
            most: LIFTING_SQUARES_MAX * unit * unit * samples as f64,
        }
    }

    /// The planes to measure, first to last.
    fn planes_measured(&self, samples: usize, base_bytes: usize) -> Vec<usize> {
        let planes = self.ends.len() / self.per_plane;
        if samples <= SMALL_SAMPLES {
            return (0..planes).collect();
        }
        let passes_of_base =
            (0..self.ends.len()).take_while(|pass| self.bytes_before_end(*pass) <= base_bytes).count();
        let first = (passes_of_base / self.per_plane).saturating_sub(1).min(planes - 1);
        let spread = |number| first + (planes - 1 - first) * number / (PLANES_MEASURED - 1);
        let mut all: Vec<usize> = (0..PLANES_MEASURED).map(spread).collect();
        all.push((first + PLANES_BEHIND_BASE).min(planes - 1));
        if self.grain != Grain::Fine {
            all.extend(first.max(planes.saturating_sub(INTEGER_PLANES_LAST))..planes);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn measured(
        &self,
        pass: usize,
        errors: Errors,
        (unit, samples): (f64, usize),
        (rounding, before): (Errors, Option<&Measured>),
    ) -> Measured {
        let ratio = (errors.squares - rounding.squares) / self.ends[pass].squares;
        let ratios = if self.grain == Grain::Lifted { INTEGER_RATIOS } else { RATIOS };
        let is_rounding = self.is_rounding(errors.squares, rounding, (unit, samples));
        if ratios.contains(&ratio) && !is_rounding {
            let crest = errors.largest / (errors.squares / samples as f64).sqrt();
            return Measured { pass, ratio, crest, errors };
        }
        // Rounding adds to the squares: no filter's ratio is above this one.
        let most = ratio.max(*RATIOS.end()).min(*ratios.end());
        let (ratio, crest) = before.map_or((most, CREST_USUAL), |before| (before.ratio, before.crest));
        Measured { pass, ratio, crest, errors }
    }

    /// Whether rounding is most of the errors whose squares add up to so much.
    fn is_rounding(&self, squares: f64, rounding: Errors, (unit, samples): (f64, usize)) -> bool {
        let is_few = |steps: f64| squares <= (steps * unit).powi(2) * samples as f64;
        match self.grain {
            Grain::Fine => rounding.squares >= ROUNDING_MAX * squares,
            Grain::Lifted => is_few(FEW_STEPS),
            Grain::Rounded => is_few(FEW_STEPS_ROUNDED),
        }
    }

    /// The errors when a pass is done, and whether they were measured.
    fn errors_of(&self, (pass, squares): (usize, f64), basis: Basis<'_>) -> (Errors, bool) {
        let Basis { measured, samples, rounding, lifting } = basis;
        let next = measured.partition_point(|known| known.pass < pass);
        let Some(after) = measured.get(next) else {
            return (Errors::default(), false);
        };
        if after.pass == pass && squares == self.ends[pass].squares {
            return (after.errors, true);
        }
        let chance = 1.0 + CHANCE / (samples as f64).sqrt();
        let (ratio, crest, rmse_margin, largest_margin) = match next.checked_sub(1) {
            Some(before) => {
                let before = &measured[before];
                let part = (pass - before.pass) as f64 / (after.pass - before.pass) as f64;
                let between = |one: f64, other: f64| one * (other / one).powf(part);
                (
                    between(before.ratio, after.ratio),
                    between(before.crest, after.crest),
                    RMSE_MARGIN,
                    LARGEST_MARGIN,
                )
            }
            None => (after.ratio, after.crest, EARLY_RMSE_MARGIN, EARLY_LARGEST_MARGIN),
        };
        let ratio = if self.grain == Grain::Lifted { ratio } else { ratio.max(RATIO_MIN) };
        let rmse_margin = match self.grain {
            Grain::Lifted => {
                let few = if lifting.axes > 2 { INTEGER_FEW_RMSE_MARGIN } else { INTEGER_RMSE_MARGIN };
                let few = few.powf(self.fewness(pass, samples, INTEGER_FEW_PARTS));
                rmse_margin.max(INTEGER_RMSE_MARGIN).max(few)
            }
            Grain::Fine | Grain::Rounded => {
                rmse_margin.max(FEW_RMSE_MARGIN.powf(self.fewness(pass, samples, FEW_PARTS)))
            }
        };
        let lifted = (lifting.part * squares).min(lifting.most);
        let squares = squares * ratio * (rmse_margin * chance).powi(2) + lifted + rounding.squares;
        let least = after.errors.or(self.of_rounding(next, basis));
        let squares = squares.max(least.squares);
        let crest = crest * largest_margin * chance;
        let plane =
            self.layout.highest - (pass / self.per_plane) as i32 + i32::from(pass % self.per_plane == 0);
        let few_margin = FEW_LONE_MARGIN * FEW_LONE_AXIS.powi((lifting.axes - 2).max(0));
        let lone_margin =
            LONE_MARGIN * (few_margin / LONE_MARGIN).powf(self.fewness(pass, samples, FEW_LONE_PARTS));
        let lone = lone_margin * scaled(lifting.unit, plane) + rounding.largest;
        let largest =
            (crest * (squares / samples as f64).sqrt() + rounding.largest).max(lone).min(squares.sqrt());
        (Errors { squares, largest: largest.max(least.largest) }, false)
    }

    /// The tile's bytes before the end of a pass.
    fn bytes_before_end(&self, pass: usize) -> usize {
        let layer = self.layer(pass);
        let before = self.segments.iter().take_while(|segment| segment.layer < layer);
        before.map(|segment| segment.bytes.len()).sum::<usize>() + self.ends[pass].bytes
    }

    fn layer(&self, pass: usize) -> u16 {
        let exponent = self.layout.highest - (pass / self.per_plane) as i32;
        self.layout.layer(exponent, pass % self.per_plane) as u16
    }

    /// The fewness of the coefficients that are known before a pass: 1 up to a part of them, and 0 from another on.
    fn fewness(&self, pass: usize, samples: usize, (few, many): (f64, f64)) -> f64 {
        let known = self.ends[pass].significant as f64 / samples as f64;
        1.0 - ((known / few).ln() / (many / few).ln()).clamp(0.0, 1.0)
    }

    /// The errors at the measured plane before number `next`, if the two follow each other and rounding is most of the errors:
    /// it does not follow the coefficients from pass to pass.
    fn of_rounding(&self, next: usize, basis: Basis<'_>) -> Errors {
        let Basis { measured, samples, rounding, lifting } = basis;
        let Some(before) = next.checked_sub(1).map(|number| &measured[number]) else {
            return Errors::default();
        };
        let squares = before.errors.squares;
        let is_rounding = self.is_rounding(squares, rounding, (lifting.unit, samples));
        let is_next = measured[next].pass - before.pass == self.per_plane;
        if is_rounding && is_next {
            before.errors
        } else {
            Errors::default()
        }
    }
}
