//! The events of a run, as JSON objects on standard output.

use serde::Serialize;
use std::io::Write;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    /// The plan. A `stuck` object has no place to go to.
    Planned { objects: usize, files: usize, bytes: u64, stuck: usize },
    /// An object that would be moved, of a file in the store.
    Would { path: String, from: String, to: String, bytes: u64 },
    /// An object that was moved.
    Moved { path: String, from: String, to: String, bytes: u64 },
    /// A file that was left as it is.
    Left { path: String, error: String },
    /// The end; `copied_bytes` were read and written, those that changed meanwhile more than once.
    Done { objects: usize, bytes: u64, copied_bytes: u64, left: usize, interrupted: bool },
}

/// Writes one line. Nobody may be reading any more; the work goes on.
pub(crate) fn tell(event: &Event) {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(&line).and_then(|()| output.flush());
}
