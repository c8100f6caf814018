//! The progressive codec of one tile: wavelet transform, bit-planes, entropy coder.
//!
//! Samples less their centre are transformed along all axes (`bands`, `transform`, `lifting`) into coefficients of
//! unit gain, so that a plane of bits weighs the same in every band, and the error of the samples is that of the
//! coefficients. Bands are cut into blocks of 64 (`lattice`), a plane of a block being one word (`magnitudes`);
//! planes are coded from the top (`passes`), significance by adaptive models of four bits (`model`) and an
//! asymmetric numeral system (`rans`), everything else as it is.
//!
//! A segment is one pass of one plane of all bands, coarse bands first; any prefix decodes. The first segment (layer 0)
//! holds the centre and the highest plane. A missing segment ends the stream, for what follows builds on it.
//!
//! Samples must be finite: one that is not yields a tile of arbitrary samples, but no panic. Doubles have 50 planes at
//! most below the largest coefficient, and none below `2^-1000`. Integers are exact when all planes are there.

mod bands;
mod boxes;
mod decode;
mod encode;
mod lattice;
mod layout;
mod lifting;
mod magnitudes;
mod measure;
mod model;
mod number;
mod passes;
mod rans;
mod squares;
mod steps;
#[cfg(test)]
mod tests;
mod transform;
mod words;

use crate::codec::{Coded, Segment, TileCodec};
use crate::judge::Measuring;
use crate::pieces::Pieces;
pub(crate) use number::scaled;
pub use number::Number;
use std::borrow::Cow;
pub(crate) use words::{dispatch, Kernel, Words};

/// The parameters that all tiles of an array share. Coefficients have unit gain in the L2 norm, so a plane of exponent
/// `e` means a quantiser step of `2^e` in units of the samples, in every band of every tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Exponent of the highest plane of any tile.
    pub top: i32,
    /// Exponent of the last plane. Integers have no more planes than make them exact.
    pub finest: i32,
}

/// Encode a tile of finite samples in C order.
pub fn encode_tile<T: Number>(samples: &[T], shape: [usize; 4], settings: Settings) -> Vec<Segment> {
    dispatch(encode::Encoding { samples, shape, settings, measuring: None }).segments
}

/// The best estimate that the segments of layers 0, 1, ... give.
pub fn decode_tile<T: Number>(shape: [usize; 4], settings: Settings, segments: &[&[u8]]) -> Vec<T> {
    let mut samples = vec![T::default(); shape.iter().product()];
    dispatch(decode::DecodingTo {
        tile: decode::Decoding { shape, settings, segments },
        samples: &mut samples,
    });
    samples
}

impl<T: Number> TileCodec<T> for Settings {
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        shape: [usize; 4],
        _threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a,
    {
        let measuring = Some(measuring);
        dispatch(encode::Encoding { samples: &samples, shape, settings: *self, measuring })
    }

    fn decode(&self, shape: [usize; 4], segments: &[Pieces<'_>], _threads: usize, samples: &mut [T]) {
        let joined: Vec<Cow<'_, [u8]>> = segments.iter().map(Pieces::joined).collect();
        let segments: Vec<&[u8]> = joined.iter().map(|bytes| bytes.as_ref()).collect();
        let tile = decode::Decoding { shape, settings: *self, segments: &segments };
        dispatch(decode::DecodingTo { tile, samples });
    }
}
