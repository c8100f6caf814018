//! The predictor: trees for a job of the training, and a comparison with the job's own quiet windows for another one.

use crate::checks::ModelError;
use crate::logistic::Logistic;
use crate::model::Model;
use crate::network::Network;
use crate::pooled::{self, pooled, Sources};
use crate::relative::{self, Relative};
use crate::trees::Trees;
use crate::windows::Windows;
use std::collections::HashSet;

/// Features that a prediction names at most.
pub const DRIVERS: usize = 3;
/// Probabilities below are as good as this one to the calibration.
const PROBABILITY_MIN: f64 = 1e-6;

/// A trained model.
#[derive(Debug)]
pub struct Predictor {
    bins: Vec<f64>,
    workloads: HashSet<String>,
    pooled: Chosen,
    relative: Chosen,
    horizons: Vec<Ahead>,
    sources: Sources,
}

/// The features of a model among those that are computed, by their places.
#[derive(Debug)]
struct Chosen {
    places: Vec<usize>,
    names: Vec<String>,
}

/// The models for one window.
#[derive(Debug)]
struct Ahead {
    trees: Trees,
    calibration: Logistic,
    above_quiet: Logistic,
    network: Option<Network>,
}

/// The models by which a prediction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The job was in the training.
    Trees,
    /// The job is compared with its own quiet windows.
    AboveQuiet,
    /// The job is unfamiliar and has too few windows.
    NotKnown,
}

impl Basis {
    /// The name as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Trees => "trees",
            Basis::AboveQuiet => "above quiet",
            Basis::NotKnown => "not known",
        }
    }
}

/// A feature that speaks for a prediction, and the place of the server that has most of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The name of the feature.
    pub feature: String,
    /// The place of the server in the window; none where no server has any of it.
    pub server: Option<usize>,
}

/// The predicted class of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The place of the window from which it is predicted.
    pub window: usize,
    /// 0 for that window, 1 for the next one, and so on.
    pub ahead: usize,
    /// The models by which it is made.
    pub basis: Basis,
    /// Place of the likeliest class.
    pub class: usize,
    /// Probability of each class.
    pub probabilities: Vec<f64>,
    /// The strongest first.
    pub driven_by: Vec<Driver>,
    /// Probabilities by the paper's network, where the model has one for as many servers.
    pub network: Option<Vec<f64>>,
}

impl Predictor {
    /// Decodes a model file.
    ///
    /// # Errors
    /// [`ModelError`] where the file is no model of this version, or is harmed.
    pub fn decode(bytes: &[u8]) -> Result<Predictor, ModelError> {
        let model = Model::decode(bytes)?;
        let classes = model.bins.len() + 1;
        let pooled = Chosen::of(model.pooled, &pooled::names())?;
        let relative = Chosen::of(model.relative, &relative::names())?;
        let horizon = |horizon: crate::model::Horizon| {
            Ok(Ahead {
                trees: Trees::decode(&horizon.trees, classes, pooled.places.len())?,
                calibration: horizon.calibration.checked(classes, classes)?,
                above_quiet: horizon.above_quiet.checked(relative.places.len(), classes)?,
                network: horizon.network.map(|network| network.checked(classes)).transpose()?,
            })
        };
        let horizons = model.horizons.into_iter().map(horizon).collect::<Result<_, ModelError>>()?;
        let workloads = model.workloads.into_iter().collect();
        Ok(Predictor { bins: model.bins, workloads, pooled, relative, horizons, sources: Sources::new() })
    }

    /// Slowdowns at which a class begins, ascending.
    pub fn bins(&self) -> &[f64] {
        &self.bins
    }

    /// Predicts from the windows of one job, of which those from `first` on are asked for. All of them are compared.
    pub fn predict(&self, workload: &str, windows: &Windows<'_>, first: usize) -> Vec<Prediction> {
        let is_trained = self.workloads.contains(workload);
        let relative = if is_trained { None } else { Relative::of(windows) };
        let basis = match (is_trained, &relative) {
            (true, _) => Basis::Trees,
            (false, Some(_)) => Basis::AboveQuiet,
            (false, None) => Basis::NotKnown,
        };
        let mut made = Vec::new();
        for window in first..windows.len() {
            let features = match (basis, &relative) {
                (Basis::Trees, _) => self.pooled.values(&pooled(windows, window)),
                (_, Some(relative)) => self.relative.values(&relative.features(window)),
                _ => Vec::new(),
            };
            for ahead in 0..self.horizons.len() {
                made.push(self.predicted(basis, windows, (window, ahead), &features));
            }
        }
        made
    }

    fn predicted(
        &self,
        basis: Basis,
        windows: &Windows<'_>,
        (window, ahead): (usize, usize),
        features: &[f64],
    ) -> Prediction {
        let (models, count) = (&self.horizons[ahead], self.bins.len() + 1);
        let probabilities = match basis {
            Basis::Trees if features.is_empty() => vec![1.0 / count as f64; count],
            Basis::Trees => {
                let raw = models.trees.probabilities(features);
                let logarithms: Vec<f64> =
                    raw.iter().map(|each| each.clamp(PROBABILITY_MIN, 1.0).ln()).collect();
                models.calibration.probabilities(&logarithms, count)
            }
            Basis::AboveQuiet => models.above_quiet.probabilities(features, count),
            Basis::NotKnown => vec![1.0 / count as f64; count],
        };
        let class = likeliest(&probabilities);
        let driven_by = match basis {
            _ if features.is_empty() => Vec::new(),
            Basis::Trees => {
                let parts = models.trees.parts(features, class);
                let server = |feature: usize| {
                    self.sources.server(&windows.window(window), self.pooled.places[feature])
                };
                drivers(&parts, &self.pooled.names, server)
            }
            Basis::AboveQuiet => {
                let busiest = pooled::busiest(&windows.window(window));
                drivers(&models.above_quiet.parts(features, class), &self.relative.names, |_| busiest)
            }
            Basis::NotKnown => Vec::new(),
        };
        let network =
            models.network.as_ref().and_then(|network| network.probabilities(&windows.window(window)));
        Prediction { window, ahead, basis, class, probabilities, driven_by, network }
    }
}

impl Chosen {
    fn of(names: Vec<String>, known: &[String]) -> Result<Chosen, ModelError> {
        if names.is_empty() || names.len() > known.len() {
            return Err(ModelError::Harmed("it has too many features, or none".into()));
        }
        let place = |name: &String| {
            known.iter().position(|each| each == name).ok_or_else(|| ModelError::Feature(name.clone()))
        };
        let places = names.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Chosen { places, names })
    }

    /// The model's features of a window; none where none were computed.
    fn values(&self, all: &[f64]) -> Vec<f64> {
        let values: Option<Vec<f64>> = self.places.iter().map(|&place| all.get(place).copied()).collect();
        values.unwrap_or_default()
    }
}

fn likeliest(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (class, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[best] {
            best = class;
        }
    }
    best
}

/// The features that speak most, of those that speak for the class at all.
fn drivers(parts: &[f64], names: &[String], server: impl Fn(usize) -> Option<usize>) -> Vec<Driver> {
    let mut order: Vec<usize> = (0..parts.len()).filter(|&feature| parts[feature] > 0.0).collect();
    order.sort_by(|&one, &other| parts[other].total_cmp(&parts[one]));
    order.truncate(DRIVERS);
    order
        .into_iter()
        .map(|feature| Driver { feature: names[feature].clone(), server: server(feature) })
        .collect()
}
