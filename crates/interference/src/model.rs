//! The model file: JSON of one version.

use crate::checks::{ModelError, MODEL_BYTES_MAX, VERSION};
use crate::logistic::Logistic;
use crate::network::Network;
use crate::ratios::Costs;
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
    /// Names of the features that the trees for unfamiliar jobs read.
    pub(crate) ratios: Vec<String>,
    /// Device times of requests, from which ratios are made.
    pub(crate) costs: Costs,
    /// The models for jobs that the training did not have.
    pub(crate) unfamiliar: Choice,
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
    /// Trees on ratios, where unfamiliar jobs go to them.
    #[serde(default)]
    pub(crate) ratio_trees: Option<RatioTrees>,
    /// The paper's network, where the model has it.
    #[serde(default)]
    pub(crate) network: Option<Network>,
}

/// Trees on ratios.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RatioTrees {
    pub(crate) trees: String,
    pub(crate) calibration: Logistic,
}

/// The models for unfamiliar jobs, and the F1 of both kinds where one workload after the other was left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Choice {
    pub(crate) by: Unfamiliar,
    #[serde(rename = "above_quiet_f1")]
    _above_quiet: Option<f64>,
    #[serde(rename = "ratio_trees_f1")]
    _ratio_trees: Option<f64>,
}

/// The models that a job goes to which the training did not have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Unfamiliar {
    #[serde(rename = "ratio trees")]
    RatioTrees,
    #[serde(rename = "above quiet")]
    AboveQuiet,
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
