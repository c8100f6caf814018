//! One tile: its escapes, its codec's layers, and the residual that makes it exact.
//!
//! Layer 0 holds the samples that the codec does not take, and the next ones are the codec's. Where an array is exact,
//! its last layer holds the difference between the bits of the samples and of those that all layers before it restore.

use crate::codec::{bytes_of, Deferred, Progress, TileCodec};
use crate::escape;
use crate::fills::Apart;
use crate::judge::{Errors, Measuring, Original};
use crate::lossless::{self, Digits};
use crate::ordinary::Ordinary;
use crate::pieces::Pieces;
use crate::sample::Sample;
use std::borrow::Cow;

/// An encoded tile.
pub(crate) struct Encoded<'a> {
    /// Layer by layer; behind the codec's last one there are none.
    pub(crate) layers: Vec<Vec<u8>>,
    /// The layer behind those, if its bytes are not made yet; there is no residual then.
    pub(crate) deferred: Option<Box<dyn Deferred + 'a>>,
    /// Empty if the layers restore every bit.
    pub(crate) residual: Vec<u8>,
    /// The error that is left, from nothing to all layers.
    pub(crate) progress: Vec<Progress>,
    /// Samples that the codec takes.
    pub(crate) taken: usize,
}

impl Encoded<'_> {
    /// All of its bytes are made.
    pub(crate) fn completed(self, threads: usize) -> Encoded<'static> {
        let Self { mut layers, deferred, residual, progress, taken } = self;
        layers.extend(deferred.map(|deferred| bytes_of(deferred.as_ref(), threads)));
        Encoded { layers, deferred: None, residual, progress, taken }
    }
}

/// Codes the tiles of an array.
pub(crate) struct Coder<T: Sample> {
    pub(crate) codec: Box<dyn TileCodec<T>>,
    pub(crate) exact: bool,
    /// The digits of the residual.
    pub(crate) digits: Digits,
    /// The array is one tile.
    pub(crate) is_alone: bool,
    /// Estimates may be beyond the largest finite sample, and infinite.
    pub(crate) overflows: bool,
    /// No estimate is a fill value.
    pub(crate) apart: Apart<T>,
}

impl<T: Sample> Coder<T> {
    /// The codec takes the ordinary samples; about `base_bytes` of the tile are in the base.
    pub(crate) fn encode<'a>(
        &self,
        samples: &'a [T],
        shape: [usize; 4],
        threads: usize,
        (ordinary, base_bytes, scale): (Ordinary, usize, f64),
    ) -> Encoded<'a> {
        let (escaped, filled) = escape::encode(samples, ordinary);
        let count = |_: &Vec<T>| samples.iter().filter(|sample| ordinary.holds(**sample)).count();
        let taken = filled.as_ref().map_or(samples.len(), count);
        let judge =
            Original { samples, taken: filled.is_some().then_some(ordinary), scale, apart: &self.apart };
        let measuring = Measuring { judge: &judge, unit: scale, base_bytes, is_alone: self.is_alone };
        let own = filled.map_or(Cow::Borrowed(samples), Cow::Owned);
        let mut coded = self.codec.encode(own, shape, threads, &measuring);
        if self.exact {
            coded.complete(threads);
        }
        let mut progress = with_escapes(coded.progress, escaped.len());
        let mut layers = vec![escaped];
        for segment in coded.segments {
            let layer = usize::from(segment.layer) + 1;
            layers.resize(layers.len().max(layer + 1), Vec::new());
            layers[layer] = segment.bytes;
        }
        let mut residual = Vec::new();
        if self.exact {
            let segments: Vec<Pieces<'_>> = layers.iter().map(|layer| layer.as_slice().into()).collect();
            let mut restored = vec![T::default(); samples.len()];
            self.decode_layers(shape, &segments, (threads, false), &mut restored);
            residual = lossless::encode(samples, &restored, self.digits);
            if let Some(last) = progress.last_mut().filter(|_| residual.is_empty()) {
                last.errors = Errors::default();
            }
        }
        Encoded { layers, deferred: coded.deferred, residual, progress, taken }
    }

    /// Set the samples to the best estimate from the first layers, of which the last may be cut, and the residual: the
    /// last layer, if that and all before it are wholly there.
    pub(crate) fn decode(
        &self,
        shape: [usize; 4],
        (layers, residual): (&[Pieces<'_>], Option<&Pieces<'_>>),
        threads: usize,
        samples: &mut [T],
    ) {
        let is_bounded = self.overflows && residual.is_none();
        self.decode_layers(shape, layers, (threads, is_bounded), samples);
        if let Some(residual) = residual {
            lossless::decode(&residual.joined(), samples, self.digits);
        }
    }

    /// Set the samples to the best estimate from all layers but the residual, which belongs to estimates that are not bounded.
    fn decode_layers(
        &self,
        shape: [usize; 4],
        layers: &[Pieces<'_>],
        (threads, is_bounded): (usize, bool),
        samples: &mut [T],
    ) {
        self.codec.decode(shape, layers.get(1..).unwrap_or_default(), threads, samples);
        if is_bounded {
            samples.iter_mut().for_each(|sample| *sample = sample.bounded());
        }
        if !self.apart.is_empty() {
            samples.iter_mut().for_each(|sample| *sample = self.apart.of(*sample));
        }
        escape::decode(&layers.first().map(Pieces::joined).unwrap_or_default(), samples);
    }
}

/// The codec's progress behind that of the escapes: without them, the samples that the codec does not take are as wrong
/// as can be.
fn with_escapes(codec: Vec<Progress>, escaped_bytes: usize) -> Vec<Progress> {
    let mut progress = Vec::with_capacity(codec.len() + 2);
    if escaped_bytes > 0 {
        let errors = Errors { squares: f64::INFINITY, largest: f64::INFINITY };
        let wrong = |bytes| Progress { layer: 0, bytes, errors, measured: true };
        progress.extend([wrong(0), wrong(escaped_bytes - 1)]);
    }
    if let Some(nothing) = codec.first() {
        progress.push(Progress { layer: 0, bytes: escaped_bytes, ..*nothing });
    }
    progress.extend(codec.into_iter().map(|point| Progress { layer: point.layer + 1, ..point }));
    progress
}
