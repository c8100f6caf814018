//! The accuracy of restored samples.

use crate::bytes::rounded_up;

/// The distance of restored samples from the original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Root of the mean of the squared errors, over the samples that the codec takes: without infinities, values that
    /// are no numbers, fill values and outliers.
    pub rmse: f64,
    /// The largest error of a sample.
    pub max_error: f64,
}

impl Accuracy {
    /// Errors that a header may tell: numbers that are not negative.
    pub(crate) fn checked(self) -> Option<Self> {
        (self.rmse >= 0.0 && self.max_error >= 0.0).then_some(self)
    }

    /// The accuracy as the table holds it.
    pub(crate) fn rounded_up(self) -> Self {
        Self { rmse: rounded_up(self.rmse), max_error: rounded_up(self.max_error) }
    }
}
