//! Simulated runs: scenarios and outcomes as JSON, the steps of a workload as columns.

use crate::algorithms::{algorithms, Fault};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_simulator::{Outcome, Progress, Scenario, Step, StepKind};

/// Least time between two calls of `progress`, which takes the interpreter's lock.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// The columns of the steps: their names, and the types of their numbers.
const COLUMNS: [(&str, &str); 9] = [
    ("stream", "uint32"),
    ("kind", "uint8"),
    ("after_seconds", "float64"),
    ("not_before_seconds", "float64"),
    ("file", "uint32"),
    ("offset", "uint64"),
    ("bytes", "uint64"),
    ("request_bytes", "uint64"),
    ("depth", "uint32"),
];

/// The works of steps, in the order of their numbers in the column `kind`.
const KINDS: [(&str, StepKind); 7] = [
    ("compute", StepKind::Compute),
    ("barrier", StepKind::Barrier),
    ("create", StepKind::Create),
    ("read", StepKind::Read),
    ("write", StepKind::Write),
    ("metadata", StepKind::Metadata),
    ("remove", StepKind::Remove),
];

/// An outcome, and why it has an end.
#[derive(Serialize)]
struct Answer<'a> {
    is_interrupted: bool,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Run a scenario, and answer its outcome as JSON.
///
/// `scenario` is the scenario as JSON. `steps` has a buffer for each column of `step_columns`, one number for each
/// step; without it the steps stand in the scenario's workload. `progress` is called now and then with the virtual time
/// in seconds, the events taken, the steps done and the steps of the workload.
///
/// `chooser` and `allocator` replace the scheduler and the allocator that the scenario names. Each is called with the start of
/// its dice, a number: `chooser` for each device, and `allocator`, which has a `name`, for each home server. The objects that
/// they answer have `choose(waiting, now_seconds)` and `allocate(targets, demands)`, as `weir.plugins` has them. An exception
/// of any of these ends the run and is raised.
///
/// The interpreter's lock is free during the run. A KeyboardInterrupt, of the user or raised by `progress`, ends the
/// run early: the answer then has all that was done, and its `is_interrupted` is true. Other exceptions of `progress`
/// end the run and are raised. Raises ValueError with the fault of the scenario.
#[pyfunction]
#[pyo3(signature = (scenario, steps=None, progress=None, *, chooser=None, allocator=None))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: &str,
    steps: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
    chooser: Option<Py<PyAny>>,
    allocator: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut scenario: Scenario = serde_json::from_str(scenario)
        .map_err(|error| PyValueError::new_err(format!("the scenario cannot be read: {error}")))?;
    if let Some(columns) = steps {
        if !scenario.workload.steps.is_empty() {
            return Err(PyValueError::new_err("steps are given as columns and in the scenario's workload"));
        }
        scenario.workload.steps = steps_of(columns)?;
    }
    let fault = Fault::default();
    let own = algorithms(py, (chooser, allocator), &fault)?;
    let (outcome, raised) = py.detach(|| {
        let mut raised = None;
        let mut told_at: Option<Instant> = None;
        let mut observe = |at: Progress| {
            if fault.is_there() {
                return ControlFlow::Break(());
            }
            if told_at.is_some_and(|moment| moment.elapsed() < PROGRESS_PAUSE) {
                return ControlFlow::Continue(());
            }
            raised = told(progress.as_ref(), at).err();
            told_at = Some(Instant::now());
            if raised.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        (weir_simulator::run_by(&scenario, &own, &mut observe), raised)
    });
    let raised = fault.take().or(raised);
    let is_interrupted = match raised {
        None => false,
        Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => true,
        Some(error) => return Err(error),
    };
    let outcome = outcome.map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.detach(|| serde_json::to_string(&Answer { is_interrupted, outcome: &outcome }))
        .map_err(|error| PyValueError::new_err(format!("the outcome cannot be written: {error}")))
}

/// The columns of `simulate`'s steps, and the type of the numbers of each, as numpy calls it.
#[pyfunction]
pub(crate) fn step_columns() -> Vec<(&'static str, &'static str)> {
    COLUMNS.to_vec()
}

/// The works of steps; the place of each is its number in the column `kind`.
#[pyfunction]
pub(crate) fn step_kinds() -> Vec<&'static str> {
    KINDS.iter().map(|(name, _)| *name).collect()
}

/// Tell a caller how far the run has come, and hear whether the user interrupted it.
fn told(progress: Option<&Py<PyAny>>, at: Progress) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        match progress {
            Some(progress) => progress.call1(py, (at.seconds, at.events, at.steps_done, at.steps)).map(drop),
            None => Ok(()),
        }
    })
}

fn steps_of(columns: &Bound<'_, PyDict>) -> PyResult<Vec<Step>> {
    for name in columns.keys() {
        let name: String = name.extract()?;
        if !COLUMNS.iter().any(|(known, _)| *known == name) {
            let known = COLUMNS.map(|(known, _)| known).join(", ");
            return Err(PyValueError::new_err(format!("steps have no column {name}; there are {known}")));
        }
    }
    let streams: Vec<u32> = column(columns, "stream", None)?;
    let count = streams.len();
    let kinds: Vec<u8> = column(columns, "kind", Some(count))?;
    let after_seconds: Vec<f64> = column(columns, "after_seconds", Some(count))?;
    let not_before_seconds: Vec<f64> = column(columns, "not_before_seconds", Some(count))?;
    let files: Vec<u32> = column(columns, "file", Some(count))?;
    let offsets: Vec<u64> = column(columns, "offset", Some(count))?;
    let bytes: Vec<u64> = column(columns, "bytes", Some(count))?;
    let request_bytes: Vec<u64> = column(columns, "request_bytes", Some(count))?;
    let depths: Vec<u32> = column(columns, "depth", Some(count))?;
    let step = |place: usize| {
        let kind = KINDS.get(usize::from(kinds[place])).map(|(_, kind)| *kind).ok_or_else(|| {
            let last = KINDS.len() - 1;
            PyValueError::new_err(format!(
                "step {place} has the kind {}; kinds are 0 to {last}",
                kinds[place]
            ))
        })?;
        Ok(Step {
            stream: streams[place],
            kind,
            after_seconds: after_seconds[place],
            not_before_seconds: not_before_seconds[place],
            file: files[place],
            offset: offsets[place],
            bytes: bytes[place],
            request_bytes: request_bytes[place],
            depth: depths[place],
        })
    };
    (0..count).map(step).collect()
}

/// The numbers of a column, which has as many as `expected`.
fn column<T: Element>(columns: &Bound<'_, PyDict>, name: &str, expected: Option<usize>) -> PyResult<Vec<T>> {
    let object = columns
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("the steps lack the column {name}")))?;
    let kind = COLUMNS.iter().find(|(known, _)| *known == name).map_or("", |(_, kind)| *kind);
    let wrong = || PyTypeError::new_err(format!("the column {name} is no array of {kind} with one axis"));
    let buffer = PyBuffer::<T>::get(&object).map_err(|_| wrong())?;
    if buffer.dimensions() != 1 {
        return Err(wrong());
    }
    match expected {
        Some(expected) if buffer.item_count() != expected => Err(PyValueError::new_err(format!(
            "the column {name} has {} numbers where there are {expected} steps",
            buffer.item_count()
        ))),
        _ => buffer.to_vec(columns.py()),
    }
}
