//! Arrays refactored into a small base and augmentations.
//!
//! [`codec::TileCodec`] is what a codec does with one tile. Everything here is a pure function of its arguments; loops
//! over tiles run on as many threads as the caller says.
#![forbid(unsafe_code)]

pub mod codec;
mod sample;

pub use codec::{Segment, TileCodec};
pub use sample::{DataType, Sample};
