//! A logistic regression as numbers.

use crate::checks::{is_number, is_scale, ModelError};
use serde::Deserialize;
use std::collections::BTreeSet;

/// A regression from inputs to classes, some of which the training may not have had.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Logistic {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    /// The weights of each class; with two classes, those of the second one alone.
    weights: Vec<Vec<f64>>,
    offsets: Vec<f64>,
    classes: Vec<usize>,
}

impl Logistic {
    /// Checks the shapes, and writes out the weights of the first of two classes.
    pub(crate) fn checked(mut self, inputs: usize, classes: usize) -> Result<Logistic, ModelError> {
        if self.weights.len() == 1 && self.classes.len() == 2 {
            self.weights.insert(0, vec![0.0; inputs]);
            self.offsets.insert(0, 0.0);
        }
        let is_whole = self.mean.len() == inputs
            && self.deviation.len() == inputs
            && self.weights.len() == self.classes.len()
            && self.offsets.len() == self.classes.len()
            && !self.classes.is_empty()
            && self.weights.iter().all(|weights| weights.len() == inputs)
            && self.classes.iter().all(|&class| class < classes)
            // One probability of a repeated class would be lost, and the others' sum would be below 1.
            && self.classes.iter().collect::<BTreeSet<_>>().len() == self.classes.len();
        let numbers = || {
            self.mean.iter().chain(&self.deviation).chain(&self.offsets).chain(self.weights.iter().flatten())
        };
        if !is_whole
            || !numbers().all(|each| is_number(*each))
            || !self.deviation.iter().all(|each| is_scale(*each))
        {
            return Err(ModelError::Harmed("a regression does not fit its inputs and classes".into()));
        }
        Ok(self)
    }

    /// The probabilities of `count` classes.
    pub(crate) fn probabilities(&self, inputs: &[f64], count: usize) -> Vec<f64> {
        let scaled: Vec<f64> = self.scaled(inputs).collect();
        let score = |weights: &Vec<f64>| {
            weights.iter().zip(&scaled).map(|(weight, input)| weight * input).sum::<f64>()
        };
        let scores: Vec<f64> =
            self.weights.iter().zip(&self.offsets).map(|(weights, offset)| score(weights) + offset).collect();
        let mut made = vec![0.0; count];
        for (&class, probability) in self.classes.iter().zip(softmax(&scores)) {
            made[class] = probability;
        }
        made
    }

    /// How much each input speaks for a class, beside the mean class.
    pub(crate) fn parts(&self, inputs: &[f64], class: usize) -> Vec<f64> {
        let Some(place) = self.classes.iter().position(|&each| each == class) else {
            return vec![0.0; inputs.len()];
        };
        let mean = |input: usize| {
            self.weights.iter().map(|weights| weights[input]).sum::<f64>() / self.weights.len() as f64
        };
        let scaled = self.scaled(inputs).enumerate();
        scaled.map(|(input, scaled)| scaled * (self.weights[place][input] - mean(input))).collect()
    }

    fn scaled<'a>(&'a self, inputs: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let scales = self.mean.iter().zip(&self.deviation);
        inputs.iter().zip(scales).map(|(input, (mean, deviation))| (input - mean) / deviation)
    }
}

/// Probabilities of scores.
pub(crate) fn softmax(scores: &[f64]) -> Vec<f64> {
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - greatest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}
