//! The reasons why a file is no model, and the bounds of its numbers.

/// Version of model files: those of another one are refused.
pub const VERSION: u64 = 3;
/// A larger file is no model.
pub const MODEL_BYTES_MAX: usize = 1 << 27;
/// Numbers of a model beyond this are harmed: products of them are finite whatever the windows hold.
const NUMBER_MAX: f64 = 1e12;

/// Whether a number may stand in a model.
pub(crate) fn is_number(number: f64) -> bool {
    number.abs() <= NUMBER_MAX
}

/// Whether a number may be divided by.
pub(crate) fn is_scale(number: f64) -> bool {
    is_number(number) && number.abs() >= 1.0 / NUMBER_MAX
}

/// The reason why a file is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file is too large.
    #[error("it has more than {MODEL_BYTES_MAX} bytes")]
    Large,
    /// The file is no JSON of a model.
    #[error("it is not a model: {0}")]
    Json(#[from] serde_json::Error),
    /// The file is of another version.
    #[error("it is of version {0}, and version {VERSION} is known")]
    Version(u64),
    /// The model wants features that this version does not compute.
    #[error("it uses the feature {0:?}, which is not known here")]
    Feature(String),
    /// A part of the model contradicts another one.
    #[error("{0}")]
    Harmed(String),
}
