//! The predictor: trees for a job of the training, and for another one those models that were best in training.

use crate::checks::ModelError;
use crate::logistic::Logistic;
use crate::model::{Model, RatioTrees, Unfamiliar};
use crate::network::Network;
use crate::pooled::{self, pooled, Sources};
use crate::ratios::{self, Costs, Ratios};
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
    ratios: Chosen,
    costs: Costs,
    unfamiliar: Unfamiliar,
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
    trees: Calibrated,
    above_quiet: Logistic,
    /// The trees of unfamiliar jobs, where the model sends these to them.
    ratio_trees: Option<Calibrated>,
    network: Option<Network>,
}

/// Trees, and a regression from their probabilities to calibrated ones.
#[derive(Debug)]
struct Calibrated {
    trees: Trees,
    calibration: Logistic,
}

/// The windows of a job, as far as they have to be compared with each other.
#[derive(Debug)]
enum Compared {
    Not,
    Relative(Relative),
    Ratios(Ratios),
}

/// The models by which a prediction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The job was in the training.
    Trees,
    /// The job is unfamiliar: its waits go to trees as ratios to the device time of its own work.
    RatioTrees,
    /// The job is unfamiliar, and compared with its own quiet windows.
    AboveQuiet,
    /// The job is unfamiliar and has too few windows.
    NotKnown,
}

impl Basis {
    /// The name as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Trees => "trees",
            Basis::RatioTrees => "ratio trees",
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
        let ratios = Chosen::of(model.ratios, &ratios::names())?;
        let horizon = |horizon: crate::model::Horizon| {
            let calibrated =
                |found: RatioTrees| Calibrated::decode(&found.trees, found.calibration, classes, &ratios);
            Ok(Ahead {
                trees: Calibrated::decode(&horizon.trees, horizon.calibration, classes, &pooled)?,
                above_quiet: horizon.above_quiet.checked(relative.places.len(), classes)?,
                ratio_trees: horizon.ratio_trees.map(calibrated).transpose()?,
                network: horizon.network.map(|network| network.checked(classes)).transpose()?,
            })
        };
        let horizons = model.horizons.into_iter().map(horizon).collect::<Result<Vec<Ahead>, ModelError>>()?;
        let unfamiliar = model.unfamiliar.by;
        let has_trees = horizons.iter().all(|ahead| ahead.ratio_trees.is_some());
        if unfamiliar == Unfamiliar::RatioTrees && !has_trees {
            return Err(ModelError::Harmed("it has no trees for unfamiliar jobs".into()));
        }
        let workloads = model.workloads.into_iter().collect();
        let (bins, costs, sources) = (model.bins, model.costs.checked()?, Sources::new());
        Ok(Predictor { bins, workloads, pooled, relative, ratios, costs, unfamiliar, horizons, sources })
    }

    /// Slowdowns at which a class begins, ascending.
    pub fn bins(&self) -> &[f64] {
        &self.bins
    }

    /// Predicts from the windows of one job, of which those from `first` on are asked for. All of them are compared.
    pub fn predict(&self, workload: &str, windows: &Windows<'_>, first: usize) -> Vec<Prediction> {
        let is_trained = self.workloads.contains(workload);
        let compared = if is_trained { Compared::Not } else { self.compared(windows) };
        let basis = match compared {
            Compared::Not if is_trained => Basis::Trees,
            Compared::Not => Basis::NotKnown,
            Compared::Relative(_) => Basis::AboveQuiet,
            Compared::Ratios(_) => Basis::RatioTrees,
        };
        let mut made = Vec::new();
        for window in first..windows.len() {
            let features = match &compared {
                Compared::Not if is_trained => self.pooled.values(&pooled(windows, window)),
                Compared::Not => Vec::new(),
                Compared::Relative(relative) => self.relative.values(&relative.features(window)),
                Compared::Ratios(ratios) => self.ratios.values(&ratios.features(window)),
            };
            for ahead in 0..self.horizons.len() {
                made.push(self.predicted(basis, windows, (window, ahead), &features));
            }
        }
        made
    }

    fn compared(&self, windows: &Windows<'_>) -> Compared {
        match self.unfamiliar {
            Unfamiliar::RatioTrees => {
                Ratios::of(windows, &self.costs).map_or(Compared::Not, Compared::Ratios)
            }
            Unfamiliar::AboveQuiet => Relative::of(windows).map_or(Compared::Not, Compared::Relative),
        }
    }

    fn predicted(
        &self,
        basis: Basis,
        windows: &Windows<'_>,
        (window, ahead): (usize, usize),
        features: &[f64],
    ) -> Prediction {
        let (models, count) = (&self.horizons[ahead], self.bins.len() + 1);
        let probabilities = match (basis, &models.ratio_trees) {
            (Basis::Trees, _) if !features.is_empty() => models.trees.probabilities(features, count),
            (Basis::RatioTrees, Some(trees)) => trees.probabilities(features, count),
            (Basis::AboveQuiet, _) => models.above_quiet.probabilities(features, count),
            _ => vec![1.0 / count as f64; count],
        };
        let class = likeliest(&probabilities);
        let busiest = |_| pooled::busiest(&windows.window(window));
        let driven_by = match (basis, &models.ratio_trees) {
            _ if features.is_empty() => Vec::new(),
            (Basis::Trees, _) => {
                let server = |feature: usize| {
                    self.sources.server(&windows.window(window), self.pooled.places[feature])
                };
                drivers(&models.trees.trees.parts(features, class), &self.pooled.names, server)
            }
            (Basis::RatioTrees, Some(trees)) => {
                drivers(&trees.trees.parts(features, class), &self.ratios.names, busiest)
            }
            (Basis::AboveQuiet, _) => {
                drivers(&models.above_quiet.parts(features, class), &self.relative.names, busiest)
            }
            _ => Vec::new(),
        };
        let network =
            models.network.as_ref().and_then(|network| network.probabilities(&windows.window(window)));
        Prediction { window, ahead, basis, class, probabilities, driven_by, network }
    }
}

impl Calibrated {
    fn decode(
        text: &str,
        calibration: Logistic,
        classes: usize,
        features: &Chosen,
    ) -> Result<Calibrated, ModelError> {
        let trees = Trees::decode(text, classes, features.places.len())?;
        Ok(Calibrated { trees, calibration: calibration.checked(classes, classes)? })
    }

    fn probabilities(&self, features: &[f64], count: usize) -> Vec<f64> {
        let raw = self.trees.probabilities(features);
        let logarithms: Vec<f64> = raw.iter().map(|each| each.clamp(PROBABILITY_MIN, 1.0).ln()).collect();
        self.calibration.probabilities(&logarithms, count)
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
