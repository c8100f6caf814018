//! What a codec of one tile does.

use crate::sample::Sample;

/// A piece of an encoded tile: what layer it belongs to, and its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Layers are comparable between tiles: the container stores layer 0 of all tiles, then layer 1 of all tiles, ...
    pub layer: u16,
    /// Any prefix of them decodes.
    pub bytes: Vec<u8>,
}

/// Codes one tile, most important bytes first.
pub trait TileCodec<T: Sample>: Sync {
    /// The tile's segments in the order of their layers. `samples` are in C order; axes that the array lacks come
    /// first with length 1.
    fn encode(&self, samples: &[T], shape: [usize; 4]) -> Vec<Segment>;

    /// The best estimate from the segments of layers 0, 1, ...: they may stop anywhere, the last one may be cut
    /// anywhere, and layers that the tile has no bytes in are empty. Hostile bytes give wrong samples, never a panic.
    fn decode(&self, shape: [usize; 4], segments: &[&[u8]]) -> Vec<T>;
}
