//! Schedulers and allocators that are written in Python, as the simulator's engine calls them.
//!
//! An exception of an algorithm is kept, and the run ends at the engine's next look; until then the algorithm is not
//! called again. `weir.plugins` checks each answer before the engine gets it, and names the algorithm at fault.

use pyo3::prelude::*;
use pyo3::types::PyFloat;
use std::sync::{Arc, Mutex, PoisonError};
use weir_fairshare::{Choice, Chooser, Nanos, Waiting};
use weir_placement::online::AllocatorMaker;
use weir_placement::{Allocation, AllocationError, Allocator, Demand, View};
use weir_simulator::Algorithms;

/// The first exception of any algorithm of a run.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<PyErr>>>);

impl Fault {
    /// Whether an algorithm failed.
    pub(crate) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes the exception.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks an algorithm, unless one failed before; none where it fails.
    fn ask<T>(&self, question: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.is_there() {
            return None;
        }
        let keep = |error| *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Python::attach(question).map_err(keep).ok()
    }
}

/// The algorithms of a run. Each argument is called with the start of its dice, and answers an object: one for each device
/// that has `choose`, and one for each home server that has `allocate`.
pub(crate) fn algorithms(
    py: Python<'_>,
    (chooser, allocator): (Option<Py<PyAny>>, Option<Py<PyAny>>),
    fault: &Fault,
) -> PyResult<Algorithms> {
    let mut found = Algorithms::default();
    if let Some(make) = chooser {
        let fault = fault.clone();
        found.chooser = Some(Arc::new(move |seed: u64| -> Box<dyn Chooser> {
            let object = fault.ask(|py| make.call1(py, (seed,)));
            Box::new(PythonChooser { object, fault: fault.clone() })
        }));
    }
    if let Some(make) = allocator {
        let name = make.getattr(py, "name")?.extract(py)?;
        found.allocator = Some(Arc::new(Maker { make, name, fault: fault.clone() }));
    }
    Ok(found)
}

/// A scheduler of one device.
struct PythonChooser {
    /// None where its making failed.
    object: Option<Py<PyAny>>,
    fault: Fault,
}

impl PythonChooser {
    /// The place of the job to serve, or, as a float, the moment in seconds until which nobody is served.
    fn ask(&self, py: Python<'_>, waiting: &[Waiting], now: Nanos) -> PyResult<Choice> {
        let rows: Vec<(u64, usize, f64, f64, f64, f64)> = waiting
            .iter()
            .map(|job| {
                let [cost, waited, charged] = [job.cost, job.waited, job.charged].map(seconds);
                (job.attributes.job.0, job.queued, job.owed, cost, waited, charged)
            })
            .collect();
        let Some(object) = &self.object else { return Ok(Choice::Serve(0)) };
        let answer = object.bind(py).call_method1("choose", (rows, seconds(now)))?;
        if answer.is_exact_instance_of::<PyFloat>() {
            return Ok(Choice::Hold(Nanos((answer.extract::<f64>()? * 1e9).ceil() as u64)));
        }
        Ok(Choice::Serve(answer.extract()?))
    }
}

impl Chooser for PythonChooser {
    fn choose(&mut self, waiting: &[Waiting], now: Nanos) -> Choice {
        self.fault.ask(|py| self.ask(py, waiting, now)).unwrap_or(Choice::Serve(0))
    }
}

/// Makes the allocators of the home servers.
struct Maker {
    make: Py<PyAny>,
    name: String,
    fault: Fault,
}

impl AllocatorMaker for Maker {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self, seed: u64) -> Box<dyn Allocator + Send + Sync> {
        let object = self.fault.ask(|py| self.make.call1(py, (seed,)));
        Box::new(PythonAllocator { object, name: self.name.clone(), fault: self.fault.clone() })
    }
}

/// An allocator of one home server.
struct PythonAllocator {
    /// None where its making failed.
    object: Option<Py<PyAny>>,
    name: String,
    fault: Fault,
}

impl Allocator for PythonAllocator {
    fn name(&self) -> &str {
        &self.name
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        _random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        let used: Vec<u32> =
            (0..view.targets().len() as u32).filter(|&target| view.is_used(target as usize)).collect();
        let rows: Vec<(String, u16, f64, f64, u64, f64, f64)> = used
            .iter()
            .map(|&index| {
                let target = &view.targets()[index as usize];
                let server = &view.servers()[view.server_of(index as usize)];
                let room = (target.speed, target.load_bytes, target.free_bytes);
                let id = target.target;
                (id.to_string(), id.server.0, room.0, room.1, room.2, server.speed, server.load_bytes)
            })
            .collect();
        let asked: Vec<(u16, u64, u32)> =
            demands.iter().map(|demand| (demand.stripes, demand.stripe_bytes, demand.program)).collect();
        let places: Option<Vec<Vec<usize>>> = self.fault.ask(|py| {
            let Some(object) = &self.object else { return Ok(Vec::new()) };
            object.bind(py).call_method1("allocate", (rows, asked))?.extract()
        });
        let index = |place: &usize| used.get(*place).copied().unwrap_or(u32::MAX);
        let targets: Vec<Vec<u32>> =
            places.unwrap_or_default().iter().map(|own| own.iter().map(index).collect()).collect();
        Allocation::of(view, demands, &targets)
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}
