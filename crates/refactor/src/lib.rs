//! Arrays refactored into a small base and augmentations.
//!
//! [`refactor`] turns an array into a container: a header, a base, and chunks that each lower the error. Any part of
//! it that begins with the header restores: [`Header::restore`] decodes what is there and says how far it may be off.
//! [`TileCodec`] is what a codec does with one tile. Everything here is a pure function of its arguments; loops over
//! tiles run on as many threads as the caller says.
#![deny(unsafe_code)]

mod block;
mod bytes;
pub mod codec;
mod decimate;
mod error;
mod escape;
mod grid;
mod header;
mod lossless;
mod mesh;
mod ordinary;
mod parallel;
mod parameters;
pub mod planes;
mod quantised;
mod restore;
mod sample;
mod scaled;
mod stream;
mod tile;
mod write;

pub use codec::{Segment, TileCodec};
pub use decimate::Decimate;
pub use error::RefactorError;
pub use header::{header_bytes, Accuracy, Chunk, Header, MAGIC, PREFIX_BYTES, VERSION};
pub use mesh::{order_by_connectivity, order_by_coordinates, NodeOrder};
pub use parameters::CodecParameters;
pub use restore::{Region, Restored};
pub use sample::{DataType, Sample};
pub use stream::Part;
pub use write::{refactor, Options};
