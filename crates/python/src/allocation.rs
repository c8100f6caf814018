//! Allocators, for `weir place` and for replays.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::collections::HashMap;
use weir_placement::{AllocatorName, Demand, NamedTargets, SplitMix64, Stretch, Stripe};

/// An allocator, which keeps its place and its penalties from call to call.
///
/// `seed` begins its random numbers. Raises ValueError with the allocators that exist.
#[pyclass(module = "weir._core")]
pub(crate) struct Allocator {
    allocator: Box<dyn weir_placement::Allocator + Send + Sync>,
    random: SplitMix64,
}

/// The targets of the stripes of each demand.
#[pyclass(module = "weir._core", frozen)]
pub(crate) struct Allocation {
    names: Vec<String>,
    allocation: weir_placement::Allocation,
}

/// The names of the allocators.
#[pyfunction]
pub(crate) fn allocator_names() -> Vec<&'static str> {
    AllocatorName::NAMES.to_vec()
}

/// For the free and total bytes of each target, the part of its speed that its fill leaves it: 0 for a full one.
///
/// Raises ValueError when the lists differ in length.
#[pyfunction]
pub(crate) fn space_factors(free_bytes: Vec<u64>, total_bytes: Vec<u64>) -> PyResult<Vec<f64>> {
    same_length("total_bytes", total_bytes.len(), free_bytes.len())?;
    let space: Vec<(u64, u64)> = free_bytes.into_iter().zip(total_bytes).collect();
    Ok(weir_placement::space_factors(&space))
}

/// Exchange targets of stripes so that files that are written side by side meet on one late or never.
///
/// There is one entry for each component of each file: the number of its `files`, of its `components` in the file, and
/// the `targets` of its stripes. Each stripe (in `stripes`) has three numbers of bytes: those that its writer has
/// written before its first byte, those that it has written with its last byte, and those of the stripe itself.
/// `limits_bytes` bounds the bytes of each target.
///
/// Raises ValueError when the lists differ in length, a stripe ends before it begins, or a target has no limit.
#[pyfunction]
#[pyo3(signature = (targets, *, files, components, stripes, limits_bytes))]
pub(crate) fn arrange(
    py: Python<'_>,
    targets: Vec<Vec<String>>,
    files: Vec<u32>,
    components: Vec<u32>,
    stripes: Vec<Vec<(u64, u64, u64)>>,
    limits_bytes: HashMap<String, u64>,
) -> PyResult<Vec<Vec<String>>> {
    same_length("files", files.len(), targets.len())?;
    same_length("components", components.len(), targets.len())?;
    same_length("stripes", stripes.len(), targets.len())?;
    for (own, spans) in targets.iter().zip(&stripes) {
        same_length("a component's stripes", spans.len(), own.len())?;
        if let Some((begin, end, _)) = spans.iter().find(|(begin, end, _)| begin > end) {
            return Err(PyValueError::new_err(format!("a stripe begins at {begin} and ends at {end}")));
        }
    }
    let (names, limits): (Vec<&String>, Vec<u64>) =
        limits_bytes.iter().map(|(name, &limit)| (name, limit)).unzip();
    let numbers: HashMap<&String, u32> = names.iter().copied().zip(0..).collect();
    let number = |name| {
        let known = numbers.get(name).copied();
        known.ok_or_else(|| PyValueError::new_err(format!("limits_bytes has nothing of the target {name}")))
    };
    let mut placed: Vec<u32> = targets.iter().flatten().map(number).collect::<PyResult<_>>()?;
    let stripe = |(begin, end, bytes)| Stripe { begin, end, bytes };
    let rows = files.into_iter().zip(components).zip(stripes);
    let stretches: Vec<Stretch> = rows
        .map(|((file, component), spans)| Stretch {
            file,
            component,
            stripes: spans.into_iter().map(stripe).collect(),
        })
        .collect();
    py.detach(|| weir_placement::arrange(&stretches, &limits, &mut placed));
    let mut places = placed.into_iter();
    let own = |stretch: &Stretch| {
        places.by_ref().take(stretch.stripes.len()).map(|place| names[place as usize].clone()).collect()
    };
    Ok(stretches.iter().map(own).collect())
}

#[pymethods]
impl Allocator {
    #[new]
    #[pyo3(signature = (name = "balanced", *, seed = 0))]
    fn new(name: &str, seed: u64) -> PyResult<Allocator> {
        let name: AllocatorName = name.parse().map_err(wrong)?;
        Ok(Allocator { allocator: name.build(), random: SplitMix64(seed) })
    }

    /// The name it was made by.
    #[getter]
    fn name(&self) -> String {
        self.allocator.name().to_owned()
    }

    /// Choose the targets of demands: `stripes[i]` on distinct targets, of `stripe_bytes[i]` each.
    ///
    /// `targets` are names (`3.1` or an OST's index). `servers` names the server of each target; by default that is the
    /// part before the dot, else a server of its own. `speeds` (0: not used), `loads_bytes` and `free_bytes` are one
    /// for each target; by default all are equally fast, idle and empty. `server_speeds` and `server_loads_bytes` are
    /// by server name; a server without a speed is never the narrow place. `programs` names the program of each demand;
    /// by default all are of one.
    ///
    /// Raises ValueError with the wrong argument, or with the number of stripes that do not fit.
    #[pyo3(signature = (targets, stripes, stripe_bytes, *, servers = None, speeds = None, loads_bytes = None,
        free_bytes = None, server_speeds = None, server_loads_bytes = None, programs = None))]
    // One keyword per thing that is known of a target or server: Python names them.
    #[allow(clippy::too_many_arguments)]
    fn allocate(
        &mut self,
        py: Python<'_>,
        targets: Vec<String>,
        stripes: Vec<u16>,
        stripe_bytes: Vec<u64>,
        servers: Option<Vec<String>>,
        speeds: Option<Vec<f64>>,
        loads_bytes: Option<Vec<f64>>,
        free_bytes: Option<Vec<u64>>,
        server_speeds: Option<HashMap<String, f64>>,
        server_loads_bytes: Option<HashMap<String, f64>>,
        programs: Option<Vec<u32>>,
    ) -> PyResult<Allocation> {
        let known = NamedTargets {
            servers,
            speeds,
            loads_bytes,
            free_bytes,
            server_speeds: server_speeds.unwrap_or_default(),
            server_loads_bytes: server_loads_bytes.unwrap_or_default(),
        };
        let view = known.view(&targets).map_err(wrong)?;
        same_length("stripe_bytes", stripe_bytes.len(), stripes.len())?;
        let programs = programs.unwrap_or_else(|| vec![0; stripes.len()]);
        same_length("programs", programs.len(), stripes.len())?;
        let demands = stripes.into_iter().zip(stripe_bytes).zip(programs);
        let demands: Vec<Demand> = demands
            .map(|((stripes, stripe_bytes), program)| Demand { stripes, stripe_bytes, program })
            .collect();
        let Allocator { allocator, random } = self;
        let mut random = || random.draw();
        let allocation = py.detach(|| allocator.allocate(&view, &demands, &mut random)).map_err(wrong)?;
        Ok(Allocation { names: targets, allocation })
    }
}

#[pymethods]
impl Allocation {
    /// The names of the targets of each demand, in stripe order.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names: Vec<_> = self.names.iter().map(|name| pyo3::types::PyString::new(py, name)).collect();
        let lists = self
            .allocation
            .iter()
            .map(|targets| PyList::new(py, targets.iter().map(|&target| names[target as usize].clone())));
        PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
    }

    /// Places in the list of targets, of all demands one after the other: 32-bit numbers in this machine's byte order.
    #[getter]
    fn flat<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> =
            self.allocation.targets().iter().flat_map(|target| target.to_ne_bytes()).collect();
        PyBytes::new(py, &bytes)
    }

    /// Bytes of work of each target, the placed ones included.
    #[getter]
    fn loads_bytes(&self) -> Vec<f64> {
        self.allocation.loads_bytes.clone()
    }

    /// Sum over targets and servers of squared load over speed.
    #[getter]
    fn cost(&self) -> f64 {
        self.allocation.cost
    }

    /// The least cost of any placement; None where the allocator proves nothing.
    #[getter]
    fn bound(&self) -> Option<f64> {
        self.allocation.bound
    }

    /// Cost over the best possible, at most; None where the allocator proves nothing.
    #[getter]
    fn ratio(&self) -> Option<f64> {
        self.allocation.ratio()
    }
}

fn same_length(name: &str, length: usize, expected: usize) -> PyResult<()> {
    if length == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name} has {length} values where {expected} are expected")))
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
