//! Traces: the bytes of one become Python's tuples.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use weir_trace::{decode, Launcher, Opening, Process, Record};

const NANOSECONDS: f64 = 1e9;

/// Read a trace: the process, its calls in order, and the torn end (its beginning, its bytes) if there is one.
///
/// Times are seconds since the process started. Raises ValueError with the wrong part of the bytes.
#[pyfunction]
pub(crate) fn decode_trace<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let trace = decode(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let answer = PyDict::new(py);
    let records = PyList::empty(py);
    answer.set_item("process", py.None())?;
    for record in &trace.records {
        match record {
            Record::Process(process) => answer.set_item("process", process_of(py, process)?)?,
            other => records.append(tuple_of(py, other)?)?,
        }
    }
    answer.set_item("records", records)?;
    answer.set_item("torn", trace.torn.map(|torn| (torn.offset, torn.bytes)))?;
    Ok(answer)
}

fn text(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / NANOSECONDS
}

fn process_of<'py>(py: Python<'py>, process: &Process<'_>) -> PyResult<Bound<'py, PyDict>> {
    let arguments = process.arguments.strip_suffix(b"\0").unwrap_or(process.arguments);
    let list: Vec<&OsStr> = match arguments {
        b"" => Vec::new(),
        _ => arguments.split(|byte| *byte == 0).map(text).collect(),
    };
    let answer = PyDict::new(py);
    answer.set_item("run", process.run)?;
    answer.set_item("node", text(process.node))?;
    answer.set_item("process", process.process)?;
    answer.set_item("parent", process.parent)?;
    answer.set_item("is_first", process.is_first)?;
    answer.set_item("program", text(process.program))?;
    answer.set_item("arguments", list)?;
    answer.set_item("directory", text(process.directory))?;
    answer.set_item("job", text(process.job))?;
    answer.set_item("rank", process.rank.map(|rank| rank.number))?;
    answer.set_item("ranks", process.rank.map(|rank| rank.size))?;
    answer.set_item("launcher", process.rank.map(|rank| launcher_name(rank.launcher)))?;
    answer.set_item("started", seconds(process.started_nanoseconds))?;
    Ok(answer)
}

fn tuple_of<'py>(py: Python<'py>, record: &Record<'_>) -> PyResult<Bound<'py, PyAny>> {
    let tuple = match record {
        Record::Process(process) => return Ok(process_of(py, process)?.into_any()),
        Record::Opened(opened) => {
            let opening = opening_name(opened.opening);
            let (path, true_path) = (text(opened.path), text(opened.true_path));
            ("opened", opened.file, path, true_path, opening, seconds(opened.after_nanoseconds))
                .into_pyobject(py)?
        }
        Record::Written(written) => {
            let at = seconds(written.after_nanoseconds);
            let (end, bytes) = (written.end_bytes, written.written_bytes);
            ("written", written.file, end, bytes, written.is_estimate, written.is_closed, at)
                .into_pyobject(py)?
        }
        Record::Placed(placed) => ("placed", placed.file, placed.layout).into_pyobject(py)?,
        Record::Renamed(renamed) => {
            let at = seconds(renamed.after_nanoseconds);
            ("renamed", text(renamed.from), text(renamed.to), at).into_pyobject(py)?
        }
        Record::Unlinked(unlinked) => {
            ("unlinked", text(unlinked.path), seconds(unlinked.after_nanoseconds)).into_pyobject(py)?
        }
        Record::Ended(ended) => {
            ("ended", seconds(ended.after_nanoseconds), ended.missed_files).into_pyobject(py)?
        }
    };
    Ok(tuple.into_any())
}

fn opening_name(opening: Opening) -> &'static str {
    match opening {
        Opening::Created => "created",
        Opening::Truncated => "truncated",
        Opening::Existing => "existing",
        Opening::Inherited => "inherited",
    }
}

fn launcher_name(launcher: Launcher) -> &'static str {
    match launcher {
        Launcher::Pmi => "pmi",
        Launcher::OpenMpi => "openmpi",
        Launcher::Mvapich => "mvapich",
        Launcher::Pmix => "pmix",
        Launcher::Slurm => "slurm",
    }
}
