//! Predictions of how much a job is slowed by others.
//!
//! A [`Predictor`] is decoded from the model file of `weir interference train`. It takes the [`Windows`] of one job and
//! answers a class of slowdown with a calibrated probability for each window and for those after it. The model file is
//! input that may be harmed: every size is bounded, every index is checked once, and no step recurses.
#![forbid(unsafe_code)]

mod checks;
mod logistic;
mod model;
mod nearness;
mod network;
mod pooled;
mod predictor;
mod ratios;
mod relative;
mod sums;
mod trees;
mod windows;

pub use checks::{ModelError, MODEL_BYTES_MAX, VERSION};
pub use pooled::{names as pooled_names, pooled};
pub use predictor::{Basis, Driver, Prediction, Predictor, DRIVERS};
pub use ratios::{names as ratio_names, Costs, Ratios};
pub use relative::{names as relative_names, Relative, WINDOWS_MIN};
pub use windows::{ShapeError, Windows, CLIENT, SERVER, STATISTICS};
