//! Windows of clients: the counts, bytes and times of the operations of jobs on devices, in stretches of time.
//!
//! All processes of a user on a host count in one small file in memory: a [`Recorder`] maps the file, and a [`Reader`] reads
//! it. Neither makes the other wait. A process that dies leaves no lock and no half of a change, so the most that goes with it
//! is its operation in progress. Tables, windows and names are bounded, so the file never grows.
//! A [`Tally`] counts the operations of one process in the same way, for the process itself.

mod attempts;
mod contents;
mod error;
mod file;
mod format;
mod job;
mod mapping;
mod reader;
mod recorder;
mod table;
mod tally;

pub use attempts::Attempts;
pub use contents::{Contents, Counts, Line};
pub use error::WindowsError;
pub use format::{store_of, Device, Operation, JOB_BYTES_MAX, LINES, WINDOWS, WINDOW_MAX, WINDOW_MIN};
pub use job::Job;
pub use reader::Reader;
pub use recorder::Recorder;
pub use tally::{Tally, Tell};
