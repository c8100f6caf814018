//! The kernel-based network of the interference paper (section III-C): one dense network reads the vector of each server, and
//! the joined outputs of all servers go through a classifier.

use crate::checks::{is_number, is_scale, ModelError};
use crate::logistic::softmax;
use crate::windows::{Window, CLIENT, REDUCED};
use serde::Deserialize;

/// The numbers of a server: the job's counts and rates there, and the counters.
const VECTOR: usize = 2 * CLIENT.len() + REDUCED;
/// Layers: two that read a server's vector, and two that read all servers.
const LAYERS: usize = 4;
/// Layers that read one server.
const KERNEL: usize = 2;
/// Most servers and outputs of a layer.
const SERVERS_MAX: usize = 4096;
const OUTPUTS_MAX: usize = 4096;

/// A trained network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    servers: usize,
    mean: Vec<f64>,
    deviation: Vec<f64>,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    /// The weights of each input, one for each output.
    weights: Vec<Vec<f64>>,
    offsets: Vec<f64>,
}

impl Network {
    /// Checks the shapes.
    pub(crate) fn checked(self, classes: usize) -> Result<Network, ModelError> {
        let mut inputs = VECTOR;
        let mut is_whole = self.layers.len() == LAYERS
            && (1..=SERVERS_MAX).contains(&self.servers)
            && self.mean.len() == VECTOR
            && self.deviation.len() == VECTOR
            && self.mean.iter().chain(&self.deviation).all(|each| is_number(*each))
            && self.deviation.iter().all(|each| is_scale(*each));
        for (place, layer) in self.layers.iter().enumerate() {
            if place == KERNEL {
                inputs = inputs.saturating_mul(self.servers);
            }
            let outputs = layer.offsets.len();
            is_whole = is_whole
                && (1..=OUTPUTS_MAX).contains(&outputs)
                && layer.weights.len() == inputs
                && layer.weights.iter().all(|weights| weights.len() == outputs)
                && layer.weights.iter().flatten().chain(&layer.offsets).all(|each| is_number(*each));
            inputs = outputs;
        }
        match is_whole && inputs == classes {
            true => Ok(self),
            false => Err(ModelError::Harmed("its network has layers that do not fit together".into())),
        }
    }

    /// The probabilities of the classes; none where there are more or fewer servers than in the training.
    pub(crate) fn probabilities(&self, window: &Window<'_>) -> Option<Vec<f64>> {
        if window.servers() != self.servers {
            return None;
        }
        let mut joined = Vec::new();
        for server in 0..self.servers {
            let vector = self.vector(window, server);
            let read =
                self.layers[..KERNEL].iter().fold(vector, |inputs, layer| rectified(layer.apply(&inputs)));
            joined.extend(read);
        }
        let hidden = rectified(self.layers[KERNEL].apply(&joined));
        Some(softmax(&self.layers[KERNEL + 1].apply(&hidden)))
    }

    /// The vector of a server on a logarithmic scale.
    fn vector(&self, window: &Window<'_>, server: usize) -> Vec<f64> {
        let seconds = window.io_seconds.max(1e-9);
        let counts = (0..CLIENT.len()).map(|count| window.count(server, count));
        let rates = (0..CLIENT.len()).map(|count| window.count(server, count) / seconds);
        let counters = (0..REDUCED).map(|place| window.counter(server, place));
        let scales = self.mean.iter().zip(&self.deviation);
        let all = counts.chain(rates).chain(counters).zip(scales);
        all.map(|(value, (mean, deviation))| (value.max(0.0).ln_1p() - mean) / deviation).collect()
    }
}

impl Layer {
    fn apply(&self, inputs: &[f64]) -> Vec<f64> {
        let mut outputs = self.offsets.clone();
        for (input, weights) in inputs.iter().zip(&self.weights) {
            for (output, weight) in outputs.iter_mut().zip(weights) {
                *output += input * weight;
            }
        }
        outputs
    }
}

fn rectified(mut outputs: Vec<f64>) -> Vec<f64> {
    outputs.iter_mut().for_each(|output| *output = output.max(0.0));
    outputs
}
