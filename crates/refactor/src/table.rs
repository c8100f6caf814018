//! The table of accuracies in the header, and its spelling.
//!
//! Errors fall from point to point, so a point takes few bytes: how far the root of the mean square has fallen, and how
//! far the largest error lies above it. Both are powers of two, rounded so that no error is told too small.

use crate::accuracy::Accuracy;
use crate::bytes::{put_integer, put_rounded_up, Reader};
use crate::header::Point;
use crate::version::VERSION_SHORT;

/// Steps of the root of the mean square in an octave: it is told as at most 1.1 % more.
const FALLS: f64 = 64.0;
/// Steps of the largest error above it in an octave: it is told as at most 4.4 % more.
const CRESTS: f64 = 16.0;
/// A logarithm may be off by so much.
const LOGARITHM_ROUNDING: f64 = 1e-9;
/// A point ends a chunk; its errors were measured.
const ENDS_CHUNK: u64 = 2;
const MEASURED: u64 = 1;

/// Errors as the header spells them: steps that lead from the errors before, or the errors themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spelled {
    Steps { fall: u64, crest: u64 },
    Errors(Accuracy),
}

impl Spelled {
    /// The shortest spelling of errors no less than these, behind a point with such a root of the mean square.
    pub(crate) fn of(before: f64, errors: Accuracy) -> Self {
        let itself = Self::Errors(errors.rounded_up());
        let ratios = [before / errors.rmse, errors.max_error / errors.rmse];
        if ![before, errors.rmse].into_iter().chain(ratios).all(f64::is_normal) || errors.rmse > before {
            return itself;
        }
        let fall = (FALLS * ratios[0].log2() + LOGARITHM_ROUNDING).floor() as u64;
        for fall in [fall, fall.saturating_sub(1)] {
            let rmse = fallen(before, fall);
            let crest =
                (CRESTS * (errors.max_error / rmse).log2() - LOGARITHM_ROUNDING).ceil().max(0.0) as u64;
            for crest in [crest, crest + 1] {
                let spelled = Self::Steps { fall, crest };
                let told = spelled.errors(before);
                if rmse >= errors.rmse && told.max_error >= errors.max_error && told.max_error.is_finite() {
                    return spelled;
                }
            }
        }
        itself
    }

    /// The errors behind such a root of the mean square.
    pub(crate) fn errors(self, before: f64) -> Accuracy {
        match self {
            Self::Errors(errors) => errors,
            Self::Steps { fall, crest } => {
                let rmse = fallen(before, fall);
                Accuracy { rmse, max_error: rmse * (crest as f64 / CRESTS).exp2() }
            }
        }
    }

    pub(crate) fn put(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Steps { fall, crest } => {
                put_integer(fall + 1, bytes);
                put_integer(crest, bytes);
            }
            Self::Errors(errors) => {
                put_integer(0, bytes);
                put_errors(errors, bytes);
            }
        }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Self> {
        match reader.integer()?.checked_sub(1) {
            Some(fall) => Some(Self::Steps { fall, crest: reader.integer()? }),
            None => take_errors(reader).map(Self::Errors),
        }
    }
}

fn put_errors(errors: Accuracy, bytes: &mut Vec<u8>) {
    put_rounded_up(errors.rmse, bytes);
    put_rounded_up(errors.max_error, bytes);
}

fn take_errors(reader: &mut Reader<'_>) -> Option<Accuracy> {
    Some(Accuracy { rmse: reader.rounded_up()?, max_error: reader.rounded_up()? })
}

fn fallen(before: f64, fall: u64) -> f64 {
    before * (-(fall as f64) / FALLS).exp2()
}

/// The points as the header tells them, behind an array of which nothing is there. The last one is told as it is.
pub(crate) fn told(blank: Accuracy, mut points: Vec<Point>) -> Vec<Point> {
    let mut before = blank.rmse;
    let last = points.len().saturating_sub(1);
    for point in &mut points[..last] {
        point.accuracy = Spelled::of(before, point.accuracy).errors(before);
        before = point.accuracy.rmse;
    }
    points
}

/// Appends points that [`told`] gave.
pub(crate) fn put(
    blank: Accuracy,
    points: &[Point],
    ends_chunk: impl Fn(&Point) -> bool,
    bytes: &mut Vec<u8>,
) {
    put_integer(points.len() as u64, bytes);
    let (mut start, mut before) = (0, blank.rmse);
    for (number, point) in points.iter().enumerate() {
        let marks =
            if ends_chunk(point) { ENDS_CHUNK } else { 0 } | if point.measured { MEASURED } else { 0 };
        put_integer((point.payload - start) << 2 | marks, bytes);
        let spelled = match number + 1 == points.len() {
            true => Spelled::Errors(point.accuracy),
            false => Spelled::of(before, point.accuracy),
        };
        spelled.put(bytes);
        (start, before) = (point.payload, point.accuracy.rmse);
    }
}

/// Takes the points, and whether each of them ends a chunk. Before [`VERSION_SHORT`] all errors are told as they are.
pub(crate) fn take(blank: Accuracy, reader: &mut Reader<'_>, version: u16) -> Option<Vec<(Point, bool)>> {
    let mut points = Vec::new();
    let (mut payload, mut before) = (0_u64, blank.rmse);
    for _ in 0..reader.length()? {
        let code = reader.integer()?;
        payload = payload.checked_add(code >> 2)?;
        let spelled = match version {
            ..VERSION_SHORT => Spelled::Errors(take_errors(reader)?),
            _ => Spelled::take(reader)?,
        };
        let accuracy = spelled.errors(before).checked()?;
        points.push((Point { payload, accuracy, measured: code & MEASURED != 0 }, code & ENDS_CHUNK != 0));
        before = accuracy.rmse;
    }
    Some(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error() -> impl Strategy<Value = f64> {
        prop_oneof![0.0_f64..1e3, Just(0.0), Just(f64::INFINITY), (-1070.0_f64..1020.0).prop_map(f64::exp2)]
    }

    proptest! {
        #[test]
        fn no_error_is_told_too_small_and_none_much_too_large(
            blank in error(),
            errors in proptest::collection::vec((error(), error(), any::<bool>()), 0..12),
        ) {
            let blank = Accuracy { rmse: blank, max_error: blank };
            let mut points: Vec<Point> = errors
                .into_iter()
                .zip(1..)
                .map(|((one, other, measured), payload)| Point {
                    payload,
                    accuracy: Accuracy { rmse: one.min(other), max_error: one.max(other) }.rounded_up(),
                    measured,
                })
                .collect();
            points.sort_by(|one, other| other.accuracy.rmse.total_cmp(&one.accuracy.rmse));
            points.iter_mut().zip(1..).for_each(|(point, payload)| point.payload = 7 * payload);
            let told = told(blank, points.clone());
            for (point, told) in points.iter().zip(&told) {
                let (own, told) = (point.accuracy, told.accuracy);
                prop_assert!(told.rmse >= own.rmse && told.max_error >= own.max_error);
                prop_assert!(told.rmse <= own.rmse * 1.011 && told.max_error <= own.max_error * 1.06);
            }
            let mut bytes = Vec::new();
            put(blank, &told, |point| point.payload % 2 == 0, &mut bytes);
            let taken = take(blank, &mut Reader::new(&bytes), VERSION_SHORT).expect("whole");
            let expected: Vec<_> = told.iter().map(|point| (*point, point.payload % 2 == 0)).collect();
            prop_assert_eq!(taken, expected);
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 4_u16..7) {
            let blank = Accuracy { rmse: 1.0, max_error: 2.0 };
            for (point, _) in take(blank, &mut Reader::new(&bytes), version).unwrap_or_default() {
                prop_assert!(point.accuracy.rmse >= 0.0 && point.accuracy.max_error >= 0.0);
            }
        }
    }
}
