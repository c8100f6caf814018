//! The records of a program's files, of its accesses and of its operations in windows, and the format of the trace file that holds them.
//!
//! A trace is one file per process image. Its writer appends [`block`]s of [`Record`]s, each with its checksums, so that
//! the records of a killed process can be read: [`decode`] tells a torn end from damage. Times and bytes come in as
//! arguments; this crate opens no file and reads no clock.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod record;
mod windows;

pub use decode::{decode, DecodeError, Torn, Trace};
pub use encode::{
    block, header, EncodeError, BLOCK_HEADER_BYTES, HEADER_BYTES, MAGIC, OLDEST_VERSION, PAYLOAD_BYTES,
    VERSION,
};
pub use record::{
    Accessed, Ended, Job, Launcher, Opened, Opening, Pattern, Placed, Process, Rank, Record, Renamed,
    Uncounted, Unlinked, Window, Written, ALIGNMENT_BYTES, SIZE_BOUNDS,
};
pub use windows::Windows;
