//! Windows of clients: the lines of a file become Python's dictionaries.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::time::Duration;
use weir_windows::{store_of, Line, Reader};

const NANOSECONDS: f64 = 1e9;

/// Read the windows of a user's programs on this host: the lines of a store's windows after a number, the number of the last
/// window that has ended, and the number of operations that were not counted. None where there are no windows.
///
/// The store is named by the address of its first server. Raises ValueError where the file is not used, with the reason.
#[pyfunction]
#[pyo3(signature = (folder, *, window_seconds, uid, store, after, now_seconds))]
pub(crate) fn client_windows<'py>(
    py: Python<'py>,
    folder: PathBuf,
    window_seconds: f64,
    uid: u32,
    store: &str,
    after: u64,
    now_seconds: f64,
) -> PyResult<Option<(Bound<'py, PyList>, u64, u64)>> {
    let wrong = |error: String| PyValueError::new_err(error);
    let window = Duration::try_from_secs_f64(window_seconds).map_err(|error| wrong(error.to_string()))?;
    let now = Duration::try_from_secs_f64(now_seconds).map_err(|error| wrong(error.to_string()))?;
    let reader = match Reader::look(&folder, window, uid) {
        Ok(reader) => reader,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let (lines, last) = reader.lines_after(after, now);
    let found = PyList::empty(py);
    let store = store_of(store);
    for line in lines.iter().filter(|line| line.store == store) {
        found.append(dictionary_of(py, line)?)?;
    }
    Ok(Some((found, last, reader.left_out())))
}

/// The dictionary of a line.
pub(crate) fn dictionary_of<'py>(py: Python<'py>, line: &Line) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / NANOSECONDS;
    let counts = &line.counts;
    let answer = PyDict::new(py);
    answer.set_item("window", line.window)?;
    answer.set_item("job", &line.job)?;
    answer.set_item("uid", line.uid)?;
    answer.set_item("device", line.device.to_string())?;
    answer.set_item("reads", counts.reads)?;
    answer.set_item("writes", counts.writes)?;
    answer.set_item("read_bytes", counts.read_bytes)?;
    answer.set_item("written_bytes", counts.written_bytes)?;
    answer.set_item("stats", counts.stats)?;
    answer.set_item("opens", counts.opens)?;
    answer.set_item("closes", counts.closes)?;
    answer.set_item("others", counts.others)?;
    answer.set_item("read_seconds", seconds(counts.read_nanoseconds))?;
    answer.set_item("write_seconds", seconds(counts.write_nanoseconds))?;
    answer.set_item("metadata_seconds", seconds(counts.metadata_nanoseconds))?;
    Ok(answer)
}
