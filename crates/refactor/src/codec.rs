//! The interface of a codec of one tile.

use crate::judge::{Errors, Measuring};
use crate::pieces::Pieces;
use crate::sample::Sample;
use std::borrow::Cow;

/// A piece of an encoded tile: its layer, and its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Layers are comparable between tiles: the container stores layer 0 of all tiles, then layer 1 of all tiles, ...
    pub layer: u16,
    /// Any prefix of them decodes.
    pub bytes: Vec<u8>,
}

/// The error of a tile that is known up to a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The layer of the point: all layers before it are there.
    pub layer: u16,
    /// And so many bytes of it.
    pub bytes: usize,
    /// The errors of the tile's samples. Between two points of a layer the sum of squares falls along a straight line,
    /// and the largest error is that of the first.
    pub errors: Errors,
    /// Whether the errors were measured, and not derived.
    pub measured: bool,
}

/// A segment whose bytes are made when their places are known, so that they need not be copied there.
pub trait Deferred: Send + Sync {
    /// The number of its bytes.
    fn length(&self) -> usize;

    /// Writes its bytes to places that have just as many together, on at most `threads` threads.
    fn write(&self, places: Vec<&mut [u8]>, threads: usize);
}

/// An encoded tile.
#[derive(Default)]
pub struct Coded<'a> {
    /// In the order of their layers.
    pub segments: Vec<Segment>,
    /// The segment of the layer behind those of `segments`, if its bytes are not made yet.
    pub deferred: Option<Box<dyn Deferred + 'a>>,
    /// In the order of layers and bytes, from nothing to everything.
    pub progress: Vec<Progress>,
}

impl Coded<'_> {
    /// Makes the bytes of the last segment, if they are not made yet.
    pub fn complete(&mut self, threads: usize) {
        let Some(deferred) = self.deferred.take() else { return };
        let layer = self.segments.last().map_or(0, |last| last.layer + 1);
        self.segments.push(Segment { layer, bytes: bytes_of(deferred.as_ref(), threads) });
    }
}

/// The bytes of a deferred segment.
pub(crate) fn bytes_of(deferred: &dyn Deferred, threads: usize) -> Vec<u8> {
    let mut bytes = vec![0; deferred.length()];
    deferred.write(vec![&mut bytes], threads);
    bytes
}

/// Codes one tile, most important bytes first.
pub trait TileCodec<T: Sample>: Sync {
    /// The tile's segments, and their accuracies. `samples` are in C order; axes that the array lacks come first with
    /// length 1. A codec whose tiles are large works on at most `threads` threads; the answer is the same on any
    /// number.
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a;

    /// Set the tile's samples to the best estimate from the segments of layers 0, 1, ...: they may stop anywhere, the last
    /// one may be cut anywhere, and layers that the tile has no bytes in are empty. Hostile bytes give wrong samples, never
    /// a panic.
    fn decode(&self, shape: [usize; 4], segments: &[Pieces<'_>], threads: usize, samples: &mut [T]);
}
