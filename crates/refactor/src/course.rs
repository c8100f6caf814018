//! The course of errors between two points of a table.

/// Errors that fall to less than this part of themselves have no course by factors: their powers may get lost.
const RATIO_MIN: f64 = 1e-100;

/// The course of errors with the bytes that are there, from a point of a table to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Squares fall along a straight line, as within a pass. The largest error stays.
    Squares,
    /// Both errors fall by equal factors with equal bytes, as over many passes.
    Factors,
}

impl Course {
    /// The root of the mean square at a part of the way, in units of that of the first point; the next one has `ratio`.
    pub(crate) fn rmse(self, part: f64, ratio: f64) -> f64 {
        match self {
            Self::Factors if ratio > RATIO_MIN => ratio.powf(part),
            // The ratio's square may get lost beside 1, but the square of a very small error would as a whole.
            _ => (1.0 - part + ratio * ratio * part).sqrt(),
        }
    }

    /// The largest error, as [`Course::rmse`].
    pub(crate) fn largest(self, part: f64, ratio: f64) -> f64 {
        match self {
            Self::Factors if ratio > RATIO_MIN => ratio.powf(part),
            _ => 1.0,
        }
    }

    /// The part of the way at which the root of the mean square is `asked`; no number if it stays as it is.
    pub(crate) fn part_to_rmse(self, asked: f64, ratio: f64) -> f64 {
        match self {
            Self::Factors if ratio > RATIO_MIN => asked.ln() / ratio.ln(),
            _ => (1.0 - asked * asked) / (1.0 - ratio * ratio),
        }
    }

    /// The part of the way at which the largest error is `asked`; no number if it stays as it is.
    pub(crate) fn part_to_largest(self, asked: f64, ratio: f64) -> f64 {
        match self {
            _ if asked >= 1.0 => 0.0,
            Self::Factors if ratio > RATIO_MIN => asked.ln() / ratio.ln(),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn errors_fall_and_the_way_to_one_leads_there(part in 0.0_f64..=1.0, ratio in prop_oneof![0.0_f64..0.999, Just(1e-200), Just(1.0)]) {
            for course in [Course::Squares, Course::Factors] {
                let (rmse, largest) = (course.rmse(part, ratio), course.largest(part, ratio));
                prop_assert!(rmse <= 1.0 && rmse >= ratio * (1.0 - 1e-12), "{course:?} {rmse}");
                prop_assert!(largest <= 1.0 && largest >= rmse * (1.0 - 1e-12), "{course:?} {largest}");
                if ratio < 1.0 {
                    let back = course.rmse(course.part_to_rmse(rmse, ratio), ratio);
                    prop_assert!((back - rmse).abs() <= 1e-9, "{course:?} {back} {rmse}");
                    let back = course.largest(course.part_to_largest(largest, ratio), ratio);
                    prop_assert!(back <= largest * (1.0 + 1e-9), "{course:?} {back} {largest}");
                }
            }
        }
    }
}
