//! Arrays refactored into a small base and augmentations.
//!
//! [`refactor`] turns an array into a container: a header, a base, and chunks that each lower the error. Any part of it
//! that begins with the header restores: [`Header::restore`] decodes the bytes that are there and tells how far the
//! result may be off. [`TileCodec`] is the work of a codec on one tile. Everything here is a pure function of its
//! arguments; loops over tiles run on as many threads as the caller allows.
#![deny(unsafe_code)]

mod accuracy;
mod assemble;
mod block;
mod bytes;
pub mod codec;
mod corrections;
mod course;
mod curve;
mod decimate;
mod error;
mod escape;
mod fills;
mod grid;
mod header;
mod judge;
mod kinds;
mod lengths;
mod lines;
mod lossless;
mod mesh;
mod ordinary;
mod parallel;
mod parameters;
mod pieces;
mod plan;
pub mod planes;
mod prefixes;
mod quantised;
mod range;
mod records;
mod residuals;
mod restore;
mod sample;
mod scaled;
mod spelling;
mod stream;
mod table;
mod tile;
mod version;
mod write;

pub use accuracy::Accuracy;
pub use assemble::Container;
pub use codec::{Coded, Deferred, Progress, Segment, TileCodec};
pub use decimate::{Decimate, Layout};
pub use error::RefactorError;
pub use fills::{Fill, FILLS_MAX};
pub use header::{header_bytes, Chunk, Header, Point, MAGIC, PREFIX_BYTES};
pub use judge::{Errors, Judge, Measuring};
pub use kinds::{refactor, Kind};
pub use mesh::{order_by_connectivity, order_by_coordinates, NodeOrder};
pub use parameters::CodecParameters;
pub use pieces::Pieces;
pub use restore::{Asked, Known, Region, Restored};
pub use sample::{DataType, Sample};
pub use stream::Part;
pub use version::VERSION;
pub use write::Options;
