//! The error of the array by the bytes of payload that are there, and the table that a reader gets of it.

use crate::accuracy::Accuracy;
use crate::codec::Progress;
use crate::course::Course;
use crate::header::{Header, Point};
use crate::judge::Errors;
use crate::parameters::CodecParameters;
use crate::sample::DataType;
use crate::stream::starts;

/// Sums in another order may differ by this part.
const SUM_ROUNDING: f64 = 1e-9;
/// The table has so many points that the lines between them are at most this far above the curve, as a part of the root of
/// the mean square.
const ABOVE_MAX: f64 = 1.15;
/// And this far below, which a reader makes up for between points: where the curve has margins of its own, and where its
/// steps are proven.
const BELOW_MAX: f64 = 1.01;
const BELOW_MAX_PROVEN: f64 = 1.04;
/// Where every prefix was measured, arrays are small, and points are few: they would be most of the header.
const ABOVE_MAX_MEASURED: f64 = 1.25;
const BELOW_MAX_MEASURED: f64 = 1.1;
/// Points are fewer still where at most so many samples were measured.
const FEW_SAMPLES: u64 = 1 << 14;
const ABOVE_MAX_FEW: f64 = 1.5;
const BELOW_MAX_FEW: f64 = 1.2;
/// The lines of the largest error may be this far above the curve: it falls in leaps.
const LARGEST_ABOVE_MAX: f64 = 2.0;
/// Chunks end up to this part of their length later than they might, where errors are known: between those they are raised.
const CHUNK_LATER: f64 = 0.5;

/// Within a pass squares fall along a straight line, but for this factor of their root (on real fields, they were up to
/// 2 % above the line), and the part that few samples add to it by chance, times the root of their number.
const FLOATS_BETWEEN: (f64, f64) = (1.05, 3.0);
/// Errors of integers are few whole numbers near the last bits, and may rise within a pass: a coefficient of one band
/// changes more of them than one of another.
const INTEGERS_BETWEEN: (f64, f64) = (1.2, 80.0);
/// The same of floats that are rounded to integers.
const ROUNDED_BETWEEN: (f64, f64) = (1.1, 20.0);

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
    /// The factors of an array of which the codec takes so many samples, and may round them; whether every prefix was
    /// measured.
    pub(crate) fn new(kind: DataType, is_rounded: bool, taken: u64, measured: bool) -> Self {
        if measured {
            let below_max = if taken <= FEW_SAMPLES { BELOW_MAX_FEW } else { BELOW_MAX_MEASURED };
            return Self { factor: below_max + MEASURED_BETWEEN, rises: false };
        }
        let (least, chance) = match kind.is_float() {
            true => FLOATS_BETWEEN,
            false if is_rounded => ROUNDED_BETWEEN,
            false => INTEGERS_BETWEEN,
        };
        Self { factor: least + chance / (taken.max(1) as f64).sqrt(), rises: !kind.is_float() }
    }

    /// An error on the line between two points, of which the first has `before`.
    pub(crate) fn raised(self, line: f64, before: f64) -> f64 {
        let raised = line * self.factor;
        // Squares of very large or small errors are no doubles.
        match raised.is_normal() {
            true if self.rises => raised,
            true => raised.min(before),
            false => before,
        }
    }

    /// The error on the line whose raised value is `told`.
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
    /// The most that the reader's values in place of fill values add to errors that were not measured with these.
    apart: f64,
    /// The lines of a table, which may be so far above and below the curve.
    course: Course,
    /// Errors are derived by proof, up to the end.
    is_proven: bool,
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
    /// The curve of the tiles' progress, by the bytes that the header lists for each layer; errors may be larger by `apart`.
    pub(crate) fn new(header: &Header, progress: &[Vec<Progress>], (scale, apart): (f64, f64)) -> Self {
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
        Self { apart, ..Self::of(header, points, scale) }
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
            apart: 0.0,
            off_max: match header.codec {
                _ if header.measured && header.taken <= FEW_SAMPLES => (ABOVE_MAX_FEW, BELOW_MAX_FEW),
                _ if header.measured => (ABOVE_MAX_MEASURED, BELOW_MAX_MEASURED),
                CodecParameters::Decimate(_) => (ABOVE_MAX, BELOW_MAX_PROVEN),
                _ => (ABOVE_MAX, BELOW_MAX),
            },
            course: header.course(),
            is_proven: matches!(header.codec, CodecParameters::Decimate(_)),
            between: header.between(),
        }
    }

    /// Errors of a restored array for which nothing is there.
    pub(crate) fn blank(&self) -> Accuracy {
        self.points
            .first()
            .map_or(Accuracy { rmse: 0.0, max_error: 0.0 }, |first| self.accuracy(first.errors, self.apart))
    }

    fn accuracy(&self, errors: Errors, apart: f64) -> Accuracy {
        if errors.largest == 0.0 {
            return Accuracy { rmse: 0.0, max_error: 0.0 };
        }
        // A square below the least normal double may have got lost.
        let rmse = (errors.squares / self.taken + f64::MIN_POSITIVE).sqrt() * (1.0 + SUM_ROUNDING);
        let (rmse, largest) = (rmse / self.scale + apart, errors.largest / self.scale + apart);
        // The difference of two numbers is rounded to a double.
        let is_rounded = self.kind.is_float() || largest > (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let largest = if is_rounded { largest.next_up() } else { largest };
        Accuracy { rmse: rmse.next_up().min(largest), max_error: largest }.rounded_up()
    }

    fn at(&self, payload: u64) -> Left {
        let next = self.points.partition_point(|point| point.payload < payload);
        let nothing = Left { payload, errors: Errors::default(), measured: true };
        let Some(after) = self.points.get(next).or(self.points.last()) else { return nothing };
        match next.checked_sub(1).map(|before| self.points[before]) {
            Some(before) if after.payload > payload => {
                let Errors { squares, largest } = line(Course::Squares, &before, after, payload);
                let rmse = self.between.raised(squares.sqrt(), before.errors.squares.sqrt());
                let largest = self.between.raised(largest, before.errors.largest);
                Left { payload, errors: Errors { squares: rmse * rmse, largest }, measured: false }
            }
            _ => Left { payload, ..*after },
        }
    }

    /// The ends of chunks, in rising order, each but the last moved to a point behind it that is near.
    pub(crate) fn moved_to_points(&self, ends: &[u64]) -> Vec<u64> {
        let (mut start, mut moved) = (0, Vec::with_capacity(ends.len()));
        for (number, end) in ends.iter().enumerate() {
            let latest = end + (CHUNK_LATER * (end - start) as f64) as u64;
            let before_next = ends.get(number + 1).map_or(*end, |next| next - 1);
            let behind = self.points.partition_point(|point| point.payload < *end);
            let near = self.points.get(behind).map(|point| point.payload);
            start = near.filter(|near| *near <= latest.min(before_next)).unwrap_or(*end);
            moved.push(start);
        }
        moved
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
        let last = chosen.len().saturating_sub(1);
        let point = |(number, left): (usize, &Left)| {
            // The end of planes was measured with the values in place of fill values.
            let apart = if number == last && !self.is_proven { 0.0 } else { self.apart };
            Point {
                payload: left.payload,
                accuracy: self.accuracy(left.errors, apart),
                measured: left.measured,
            }
        };
        chosen.iter().enumerate().map(point).collect()
    }

    /// Add the points between two that the line between these is too far from.
    fn refine(&self, first: Left, last: Left, chosen: &mut Vec<Left>) {
        let start = self.points.partition_point(|point| point.payload <= first.payload);
        let end = self.points.partition_point(|point| point.payload < last.payload);
        let off = |point: &Left| self.off(&line(self.course, &first, &last, point.payload), &point.errors);
        let inner = self.points.get(start..end).unwrap_or_default();
        let worst = match self.course {
            Course::Squares => farthest(&first, &last, inner, off),
            Course::Factors => inner.iter().max_by(|one, other| off(one).total_cmp(&off(other))),
        };
        if let Some(worst) = worst.filter(|worst| off(worst) > 1.0) {
            self.refine(first, *worst, chosen);
            chosen.push(*worst);
            self.refine(*worst, last, chosen);
        }
    }

    /// The distance of the errors on a line from those of the curve: more than 1 is too far.
    fn off(&self, line: &Errors, curve: &Errors) -> f64 {
        let (above, below) = self.off_max;
        let distance = |ratio: f64, above: f64| match ratio.is_nan() {
            // 0 / 0: neither has an error.
            true => 0.0,
            false => (ratio.ln() / above.ln()).max(-ratio.ln() / below.ln()),
        };
        let rmse = distance((line.squares / curve.squares).sqrt(), above);
        match self.course {
            Course::Squares => rmse,
            Course::Factors => rmse.max(distance(line.largest / curve.largest, LARGEST_ABOVE_MAX)),
        }
    }
}

/// The point of `inner` that is farthest off the straight line of squares between two, as `off` tells.
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
        let ratio = line(Course::Squares, first, last, point.payload).squares / point.errors.squares;
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

/// The errors at a place on the line between two points.
#[inline]
fn line(course: Course, first: &Left, last: &Left, payload: u64) -> Errors {
    let (one, other) = (first.errors, last.errors);
    if payload <= first.payload {
        return one;
    }
    let part = (payload - first.payload) as f64 / (last.payload - first.payload) as f64;
    let squares = match course {
        _ if one.squares == other.squares => one.squares,
        Course::Squares => one.squares * (1.0 - part) + other.squares * part,
        Course::Factors => one.squares * course.rmse(part, (other.squares / one.squares).sqrt()).powi(2),
    };
    Errors { squares, largest: one.largest * course.largest(part, other.largest / one.largest) }
}
