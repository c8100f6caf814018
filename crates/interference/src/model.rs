//! The model file: JSON of one version.

use crate::checks::{ModelError, MODEL_BYTES_MAX, VERSION};
use crate::logistic::Logistic;
use crate::network::Network;
use serde::Deserialize;

/// Most bins, windows ahead, and workloads of a model.
const BINS_MAX: usize = 8;
const HORIZONS_MAX: usize = 16;
const WORKLOADS_MAX: usize = 1 << 20;

/// The model as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    // The version is read by `Versioned`, before anything else.
    #[serde(rename = "version")]
    _version: u64,
    /// Slowdowns at which a class begins.
    pub(crate) bins: Vec<f64>,
    /// Workloads of the training.
    pub(crate) workloads: Vec<String>,
    /// Windows of the training.
    #[serde(rename = "windows")]
    _windows: u64,
    /// Names of the features that the trees read.
    pub(crate) pooled: Vec<String>,
    /// Names of the features by which a job is compared with its own quiet windows.
    pub(crate) relative: Vec<String>,
    /// The current window, and those after it.
    pub(crate) horizons: Vec<Horizon>,
}

/// The models for one window.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Horizon {
    /// LightGBM's text form.
    pub(crate) trees: String,
    /// From the logarithms of the trees' probabilities to calibrated ones.
    pub(crate) calibration: Logistic,
    pub(crate) above_quiet: Logistic,
    /// The paper's network, where the model has it.
    #[serde(default)]
    pub(crate) network: Option<Network>,
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Model {
    /// Decodes a file.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Model, ModelError> {
        if bytes.len() > MODEL_BYTES_MAX {
            return Err(ModelError::Large);
        }
        let Versioned { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(ModelError::Version(version));
        }
        let model: Model = serde_json::from_slice(bytes)?;
        let ascends = model.bins.windows(2).all(|pair| pair[0] < pair[1]);
        let is_positive = model.bins.iter().all(|bin| *bin > 0.0 && bin.is_finite());
        if !(1..=BINS_MAX).contains(&model.bins.len()) || !ascends || !is_positive {
            return Err(ModelError::Harmed("its bins do not ascend from above 0".into()));
        }
        if !(1..=HORIZONS_MAX).contains(&model.horizons.len()) || model.workloads.len() > WORKLOADS_MAX {
            return Err(ModelError::Harmed("it has too many parts, or none".into()));
        }
        Ok(model)
    }
}
