//! Traces: the bytes of one become Python's tuples, and its windows Python's dictionaries.

use crate::windows::dictionary_of;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use weir_trace::{decode, Launcher, Opening, Pattern, Process, Record, Trace, Window, Windows};
use weir_windows::{Counts, Device, Line};

const NANOSECONDS: f64 = 1e9;

/// Read a trace: the process, its calls in order, and the torn end (its beginning, its bytes) if there is one.
///
/// Times are seconds since the process started. Raises ValueError with the wrong part of the bytes.
#[pyfunction]
pub(crate) fn decode_trace<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let trace = decoded(bytes)?;
    let answer = PyDict::new(py);
    let records = PyList::empty(py);
    answer.set_item("process", py.None())?;
    for record in &trace.records {
        match record {
            Record::Process(process) => answer.set_item("process", process_of(py, process)?)?,
            other => {
                if let Some(tuple) = tuple_of(py, other)? {
                    records.append(tuple)?;
                }
            }
        }
    }
    answer.set_item("records", records)?;
    answer.set_item("torn", trace.torn.map(|torn| (torn.offset, torn.bytes)))?;
    Ok(answer)
}

/// Read the windows of a trace: the job, the lines of its windows, and the numbers of those that are missing. None where the
/// process counted no operations.
///
/// Raises ValueError with the wrong part of the bytes.
#[pyfunction]
pub(crate) fn trace_windows<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyDict>>> {
    let trace = decoded(bytes)?;
    let Some(windows) = trace.windows() else { return Ok(None) };
    let answer = PyDict::new(py);
    answer.set_item("store", windows.job.store)?;
    answer.set_item("job", windows.job.name)?;
    answer.set_item("uid", windows.job.uid)?;
    answer.set_item("window_seconds", seconds(windows.job.window_nanoseconds))?;
    let lines = PyList::empty(py);
    for window in &windows.lines {
        lines.append(dictionary_of(py, &line_of(&windows, window))?)?;
    }
    answer.set_item("lines", lines)?;
    answer.set_item("missed_windows", windows.uncounted.map_or(0, |missed| missed.windows))?;
    answer.set_item("missed_operations", windows.uncounted.map_or(0, |missed| missed.operations))?;
    Ok(Some(answer))
}

fn decoded(bytes: &[u8]) -> PyResult<Trace<'_>> {
    decode(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn line_of(windows: &Windows<'_>, window: &Window) -> Line {
    Line {
        window: window.number,
        store: windows.job.store,
        uid: windows.job.uid,
        job: windows.job.name.to_owned(),
        device: match window.target {
            Some(target) => Device::target(window.server, target),
            None => Device::metadata(window.server),
        },
        counts: Counts {
            reads: window.reads,
            read_bytes: window.read_bytes,
            read_nanoseconds: window.read_nanoseconds,
            writes: window.writes,
            written_bytes: window.written_bytes,
            write_nanoseconds: window.write_nanoseconds,
            stats: window.stats,
            opens: window.opens,
            closes: window.closes,
            others: window.others,
            metadata_nanoseconds: window.metadata_nanoseconds,
        },
    }
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

/// The tuple of a record about a file. Absent for the process, and for windows.
fn tuple_of<'py>(py: Python<'py>, record: &Record<'_>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let tuple = match record {
        Record::Process(_) | Record::Job(_) | Record::Window(_) | Record::Uncounted(_) => return Ok(None),
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
        Record::Accessed(accessed) => {
            let (reads, writes) = (pattern_of(py, &accessed.reads)?, pattern_of(py, &accessed.writes)?);
            let at = seconds(accessed.after_nanoseconds);
            ("accessed", text(accessed.path), accessed.layout, reads, writes, at).into_pyobject(py)?
        }
        Record::Ended(ended) => {
            ("ended", seconds(ended.after_nanoseconds), ended.missed_files).into_pyobject(py)?
        }
    };
    Ok(Some(tuple.into_any()))
}

fn pattern_of<'py>(py: Python<'py>, pattern: &Pattern) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("sizes", pattern.sizes)?;
    answer.set_item("bytes", pattern.bytes)?;
    answer.set_item("unaligned", pattern.unaligned)?;
    answer.set_item("ahead", pattern.ahead)?;
    answer.set_item("consecutive", pattern.consecutive)?;
    Ok(answer)
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
