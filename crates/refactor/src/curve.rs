//! The error of the array by the bytes of payload that are there, and the table that a reader gets of it.

use crate::accuracy::Accuracy;
use crate::codec::Progress;
use crate::header::{Header, Point};
use crate::judge::Errors;
use crate::parameters::CodecParameters;
use crate::sample::DataType;
use crate::stream::starts;

/// Sums in another order may differ by this part.
const SUM_ROUNDING: f64 = 1e-9;
/// The table has so many points that the straight lines between them are at most this far above the curve, as a part
/// of the root of the mean square.
const ABOVE_MAX: f64 = 1.15;
/// And this far below, which a reader makes up for between points: where the curve has margins of its own, and where its
/// steps are proven or measured.
const BELOW_MAX: f64 = 1.01;
const BELOW_MAX_CERTAIN: f64 = 1.04;
/// Where every prefix of at most so many samples was measured, points are few: they would be most of the header.
const FEW_SAMPLES: u64 = 1 << 14;
const ABOVE_MAX_FEW: f64 = 1.5;
const BELOW_MAX_FEW: f64 = 1.2;

/// Within a pass squares fall along a straight line, but for this factor of their root (on real fields, they were up to
/// 2 % above the line), and the part that few samples add to it by chance, times the root of their number.
const FLOATS_BETWEEN: (f64, f64) = (1.05, 3.0);
/// Errors of integers are few whole numbers near the last bits, and may rise within a pass: a coefficient of one band
/// changes more of them than one of another.
const INTEGERS_BETWEEN: (f64, f64) = (1.2, 80.0);

/// The factor exceeds the line's own distance by so much where every prefix was measured.
const MEASURED_BETWEEN: f64 = 0.001;

/// The factor and the shape by which errors between two points of a table are raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    factor: f64,
    /// Errors between two points may be above those of the first.
    rises: bool,
}

impl Between {
    /// The factors of an array of which the codec takes so many samples; whether every prefix was measured.
    pub(crate) fn new(kind: DataType, taken: u64, measured: bool) -> Self {
        if measured {
            let below_max = if taken <= FEW_SAMPLES { BELOW_MAX_FEW } else { BELOW_MAX_CERTAIN };
            return Self { factor: below_max + MEASURED_BETWEEN, rises: false };
        }
        let (least, chance) = if kind.is_float() { FLOATS_BETWEEN } else { INTEGERS_BETWEEN };
        Self { factor: least + chance / (taken.max(1) as f64).sqrt(), rises: !kind.is_float() }
    }

    /// The root of the mean square on the line between two points, of which the first has `before`.
    pub(crate) fn rmse(self, line: f64, before: f64) -> f64 {
        let raised = line * self.factor;
        // Squares of very large or small errors are no doubles.
        match raised.is_normal() {
            true if self.rises => raised,
            true => raised.min(before),
            false => before,
        }
    }

    /// The largest error between two points, of which the first has `before`.
    pub(crate) fn largest(self, before: f64) -> f64 {
        if self.rises {
            before * self.factor
        } else {
            before
        }
    }

    /// The root of the mean square on the line whose raised value is `told`.
    pub(crate) fn untold(self, told: f64) -> f64 {
        told / self.factor
    }
}

/// The error that is left when so many bytes of payload are there. Between two points squares fall along a straight
/// line.
#[derive(Clone, Copy, Debug)]
struct Left {
    payload: u64,
    errors: Errors,
    measured: bool,
}

/// From nothing to everything, never rising.
pub(crate) struct Curve {
    points: Vec<Left>,
    /// Samples that the codec takes.
    taken: f64,
    kind: DataType,
    /// The factor that errors are multiplied by.
    scale: f64,
    /// The straight lines of a table may be so far above and below the curve.
    off_max: (f64, f64),
    between: Between,
}

/// Errors of several tiles, and whether all of them were measured.
#[derive(Clone, Copy)]
struct Sum {
    errors: Errors,
    measured: bool,
}

impl Sum {
    const NONE: Self = Self { errors: Errors { squares: 0.0, largest: 0.0 }, measured: true };

    fn and(self, other: Self) -> Self {
        Self { errors: self.errors.and(other.errors), measured: self.measured && other.measured }
    }
}

impl Curve {
    /// The curve of the tiles' progress, by the bytes that the header lists for each layer.
    pub(crate) fn new(header: &Header, progress: &[Vec<Progress>], scale: f64) -> Self {
        let lengths = &header.layers;
        let starts = starts(lengths);
        let mut rest: Vec<&[Progress]> = progress.iter().map(Vec::as_slice).collect();
        let mut before = vec![Sum::NONE; rest.len()];
        let mut points = Vec::new();
        for (layer, lengths) in lengths.iter().enumerate() {
            let is_exact = header.exact && layer + 1 == starts.len();
            let steps: Vec<Vec<Progress>> = rest
                .iter_mut()
                .zip(lengths.iter().zip(&before))
                .map(|(rest, (length, before))| {
                    let count = rest.partition_point(|point| usize::from(point.layer) == layer);
                    let (own, later) = rest.split_at(count);
                    *rest = later;
                    if is_exact {
                        corrected(*length, *before)
                    } else {
                        own.to_vec()
                    }
                })
                .collect();
            let after: Vec<Sum> = steps
                .iter()
                .zip(&before)
                .map(|(steps, before)| steps.last().map_or(*before, sum_of))
                .collect();
            append(&mut points, &starts[layer], &steps, &before, &after);
            before = after;
        }
        Self::of(header, points, scale)
    }

    /// The curve through the errors of all prefixes that differ.
    pub(crate) fn measured(header: &Header, prefixes: &[u64], errors: Vec<Errors>, scale: f64) -> Self {
        let point = |(payload, errors): (&u64, Errors)| Left { payload: *payload, errors, measured: true };
        Self::of(header, prefixes.iter().zip(errors).map(point).collect(), scale)
    }

    fn of(header: &Header, points: Vec<Left>, scale: f64) -> Self {
        Self {
            points: falling(points),
            taken: header.taken.max(1) as f64,
            kind: header.kind,
            scale,
            off_max: match header.codec {
                _ if header.measured && header.taken <= FEW_SAMPLES => (ABOVE_MAX_FEW, BELOW_MAX_FEW),
                CodecParameters::Decimate(_) => (ABOVE_MAX, BELOW_MAX_CERTAIN),
                _ if header.measured => (ABOVE_MAX, BELOW_MAX_CERTAIN),
                _ => (ABOVE_MAX, BELOW_MAX),
            },
            between: header.between(),
        }
    }

    /// Errors of a restored array for which nothing is there.
    pub(crate) fn blank(&self) -> Accuracy {
        self.points
            .first()
            .map_or(Accuracy { rmse: 0.0, max_error: 0.0 }, |first| self.accuracy(first.errors))
    }

    fn accuracy(&self, errors: Errors) -> Accuracy {
        if errors.largest == 0.0 {
            return Accuracy { rmse: 0.0, max_error: 0.0 };
        }
        // A square below the least normal double may have got lost.
        let rmse = (errors.squares / self.taken + f64::MIN_POSITIVE).sqrt() * (1.0 + SUM_ROUNDING);
        let largest = errors.largest / self.scale;
        // The difference of two numbers is rounded to a double.
        let is_rounded = self.kind.is_float() || largest > (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let largest = if is_rounded { largest.next_up() } else { largest };
        Accuracy { rmse: (rmse / self.scale).next_up().min(largest), max_error: largest }.rounded_up()
    }

    fn at(&self, payload: u64) -> Left {
        let next = self.points.partition_point(|point| point.payload < payload);
        let nothing = Left { payload, errors: Errors::default(), measured: true };
        let Some(after) = self.points.get(next).or(self.points.last()) else { return nothing };
        match next.checked_sub(1).map(|before| self.points[before]) {
            Some(before) if after.payload > payload => {
                let rmse =
                    self.between.rmse(line(&before, after, payload).sqrt(), before.errors.squares.sqrt());
                let errors =
                    Errors { squares: rmse * rmse, largest: self.between.largest(before.errors.largest) };
                Left { payload, errors, measured: false }
            }
            _ => Left { payload, ..*after },
        }
    }

    /// A table of it that has all of `ends`, in rising order, among its points.
    pub(crate) fn table(&self, ends: &[u64]) -> Vec<Point> {
        let mut chosen: Vec<Left> = Vec::new();
        for end in ends {
            let end = self.at(*end);
            if let Some(last) = chosen.last().copied() {
                self.refine(last, end, &mut chosen);
            }
            chosen.push(end);
        }
        let point = |left: &Left| Point {
            payload: left.payload,
            accuracy: self.accuracy(left.errors),
            measured: left.measured,
        };
        chosen.iter().map(point).collect()
    }

    /// Add the points between two that the line between these is too far from.
    fn refine(&self, first: Left, last: Left, chosen: &mut Vec<Left>) {
        let start = self.points.partition_point(|point| point.payload <= first.payload);
        let end = self.points.partition_point(|point| point.payload < last.payload);
        let off = |point: &Left| {
            let ratio = (line(&first, &last, point.payload) / point.errors.squares).sqrt();
            // 0 / 0: neither has an error.
            if ratio.is_nan() {
                0.0
            } else {
                (ratio.ln() / self.off_max.0.ln()).max(-ratio.ln() / self.off_max.1.ln())
            }
        };
        let inner = self.points.get(start..end).unwrap_or_default();
        let Some(worst) = farthest(&first, &last, inner, off) else { return };
        if off(worst) > 1.0 {
            self.refine(first, *worst, chosen);
            chosen.push(*worst);
            self.refine(*worst, last, chosen);
        }
    }
}

/// The point of `inner` that is farthest off the line between two, as `off` tells.
fn farthest<'a>(
    first: &Left,
    last: &Left,
    inner: &'a [Left],
    off: impl Fn(&Left) -> f64,
) -> Option<&'a Left> {
    // The farthest point has the largest or the smallest ratio, and logarithms of all take long.
    let (mut most, mut least) = (inner.first()?, inner.first()?);
    let (mut highest, mut lowest) = (0.0, f64::INFINITY);
    for point in inner {
        let ratio = line(first, last, point.payload) / point.errors.squares;
        if ratio > highest {
            (most, highest) = (point, ratio);
        }
        if ratio < lowest {
            (least, lowest) = (point, ratio);
        }
    }
    [least, most].into_iter().max_by(|one, other| off(one).total_cmp(&off(other)))
}

fn sum_of(point: &Progress) -> Sum {
    Sum { errors: point.errors, measured: point.measured }
}

/// The progress of an exact tile's last layer: no change before its last byte.
fn corrected(length: u64, before: Sum) -> Vec<Progress> {
    let bytes = length as usize;
    let whole = Progress { layer: 0, bytes, errors: Errors::default(), measured: true };
    let cut = Progress {
        bytes: bytes.saturating_sub(1),
        errors: before.errors,
        measured: before.measured,
        ..whole
    };
    vec![cut, whole]
}

/// Points of one layer, which tiles before have and tiles behind have not.
fn append(points: &mut Vec<Left>, starts: &[u64], steps: &[Vec<Progress>], before: &[Sum], after: &[Sum]) {
    let mut behind = vec![Sum::NONE; before.len() + 1];
    for tile in (0..before.len()).rev() {
        behind[tile] = behind[tile + 1].and(before[tile]);
    }
    let mut done = Sum::NONE;
    for (tile, steps) in steps.iter().enumerate() {
        for step in steps {
            let all = done.and(sum_of(step)).and(behind[tile + 1]);
            let payload = starts[tile] + step.bytes as u64;
            points.push(Left { payload, errors: all.errors, measured: all.measured });
        }
        done = done.and(after[tile]);
    }
}

/// One point for each place, and none with a smaller error than one behind it.
fn falling(points: Vec<Left>) -> Vec<Left> {
    let mut falling: Vec<Left> = Vec::with_capacity(points.len());
    for point in points.into_iter().rev() {
        match falling.last().copied() {
            Some(last) if last.payload <= point.payload => {}
            Some(last) => {
                let squares = point.errors.squares.max(last.errors.squares);
                let largest = point.errors.largest.max(last.errors.largest);
                let measured =
                    point.measured && squares == point.errors.squares && largest == point.errors.largest;
                falling.push(Left { errors: Errors { squares, largest }, measured, ..point });
            }
            None => falling.push(point),
        }
    }
    falling.reverse();
    falling
}

/// The sum of squares at a place on the line between two points.
fn line(first: &Left, last: &Left, payload: u64) -> f64 {
    if payload <= first.payload || first.errors.squares == last.errors.squares {
        return first.errors.squares;
    }
    let part = (payload - first.payload) as f64 / (last.payload - first.payload) as f64;
    first.errors.squares * (1.0 - part) + last.errors.squares * part
}
