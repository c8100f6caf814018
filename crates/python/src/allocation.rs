//! Allocators, for `weir place` and for replays.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::collections::{HashMap, HashSet};
use weir_placement::{
    AllocatorName, Demand, ServerId, ServerState, Stretch, Stripe, TargetId, TargetState, View,
};

/// An allocator, which keeps its place and its penalties from call to call.
///
/// `seed` begins its random numbers. Raises ValueError with the allocators that exist.
#[pyclass(module = "weir._core")]
pub(crate) struct Allocator {
    allocator: Box<dyn weir_placement::Allocator + Send + Sync>,
    state: u64,
}

/// Where the stripes of each demand go.
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
/// One entry for each component of each file: the number of its `files`, of its `components` in the file, the `targets`
/// of its stripes, and of each stripe (in `stripes`) what its writer has written before its first byte, what with its
/// last, and what it holds, in bytes. `limits_bytes` says what each target may come to have of them.
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
        Ok(Allocator { allocator: name.build(), state: seed })
    }

    /// The name it was made by.
    #[getter]
    fn name(&self) -> String {
        self.allocator.name().to_string()
    }

    /// Choose the targets of demands: `stripes[i]` on distinct targets, of `stripe_bytes[i]` each.
    ///
    /// `targets` are names (`3.1` or an OST's index); `servers` says on which server each lies, by default what stands
    /// before the dot, else a server of its own. `speeds` (0: not used), `loads_bytes` and `free_bytes` are one for each
    /// target; by default all are equally fast, idle and empty. `server_speeds` and `server_loads_bytes` are by server
    /// name; a server without a speed is never the narrow place. `programs` says which program's each demand is; by
    /// default all are of one.
    ///
    /// Raises ValueError saying what is wrong with the arguments, or how much does not fit.
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
        let count = targets.len();
        let known = Known {
            servers: of_each("servers", servers, count)?,
            speeds: of_each("speeds", speeds, count)?,
            loads_bytes: of_each("loads_bytes", loads_bytes, count)?,
            free_bytes: of_each("free_bytes", free_bytes, count)?,
            server_speeds: server_speeds.unwrap_or_default(),
            server_loads_bytes: server_loads_bytes.unwrap_or_default(),
        };
        let view = known.view(&targets)?;
        same_length("stripe_bytes", stripe_bytes.len(), stripes.len())?;
        let programs =
            of_each("programs", programs, stripes.len())?.unwrap_or_else(|| vec![0; stripes.len()]);
        let demands = stripes.into_iter().zip(stripe_bytes).zip(programs);
        let demands: Vec<Demand> = demands
            .map(|((stripes, stripe_bytes), program)| Demand { stripes, stripe_bytes, program })
            .collect();
        let Allocator { allocator, state } = self;
        let mut random = || next(state);
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

    /// Bytes of work of each target, what was placed included.
    #[getter]
    fn loads_bytes(&self) -> Vec<f64> {
        self.allocation.loads_bytes.clone()
    }

    /// Sum over targets and servers of squared load over speed.
    #[getter]
    fn cost(&self) -> f64 {
        self.allocation.cost
    }

    /// What no placement can cost less than; None where the allocator proves nothing.
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

/// What the caller knows of targets and servers.
struct Known {
    servers: Option<Vec<String>>,
    speeds: Option<Vec<f64>>,
    loads_bytes: Option<Vec<f64>>,
    free_bytes: Option<Vec<u64>>,
    server_speeds: HashMap<String, f64>,
    server_loads_bytes: HashMap<String, f64>,
}

impl Known {
    fn view(&self, targets: &[String]) -> PyResult<View> {
        if targets.len() > usize::from(u16::MAX) {
            return Err(PyValueError::new_err(format!("{} targets; at most {}", targets.len(), u16::MAX)));
        }
        let mut numbers: HashMap<&str, u16> = HashMap::new();
        let mut servers = Vec::new();
        let mut states = Vec::with_capacity(targets.len());
        let mut seen = HashSet::new();
        for (place, name) in targets.iter().enumerate() {
            if !seen.insert(name) {
                return Err(PyValueError::new_err(format!("target {name} occurs twice; name each once")));
            }
            let server = self.server_of(place, name)?;
            let next = numbers.len() as u16;
            let number = *numbers.entry(server).or_insert(next);
            if number == next {
                servers.push(self.server_state(number, server)?);
            }
            // Unique whatever the names are: the place in the list.
            let target = TargetId { server: ServerId(number), index: place as u16 };
            states.push(self.target_state(place, name, target)?);
        }
        let unknown = self.server_speeds.keys().chain(self.server_loads_bytes.keys());
        if let Some(name) = unknown.into_iter().find(|name| !numbers.contains_key(name.as_str())) {
            return Err(PyValueError::new_err(format!(
                "no target lies on server {name}, of which something is told"
            )));
        }
        View::new(states, &servers).map_err(wrong)
    }

    fn server_of<'a>(&'a self, place: usize, name: &'a str) -> PyResult<&'a str> {
        let is_index = name.parse::<u16>().is_ok() && !name.starts_with('+');
        if !is_index && name.parse::<TargetId>().is_err() {
            let error = format!(
                "`{name}` is no target: write SERVER.INDEX (3.1) on a store, an OST's index on Lustre"
            );
            return Err(PyValueError::new_err(error));
        }
        let own = || name.split_once('.').map_or(name, |(server, _)| server);
        Ok(self.servers.as_ref().map_or_else(own, |servers| &servers[place]))
    }

    fn target_state(&self, place: usize, name: &str, target: TargetId) -> PyResult<TargetState> {
        let speed = self.speeds.as_ref().map_or(1.0, |speeds| speeds[place]);
        let load_bytes = self.loads_bytes.as_ref().map_or(0.0, |loads| loads[place]);
        let free_bytes = self.free_bytes.as_ref().map_or(u64::MAX, |free| free[place]);
        if !speed.is_finite() || !load_bytes.is_finite() || load_bytes < 0.0 {
            return Err(PyValueError::new_err(format!(
                "target {name} has speed {speed} and load {load_bytes}: both are finite, a load is not negative"
            )));
        }
        Ok(TargetState { target, speed, load_bytes, free_bytes })
    }

    fn server_state(&self, number: u16, name: &str) -> PyResult<ServerState> {
        let speed = self.server_speeds.get(name).copied().unwrap_or(f64::INFINITY);
        let load_bytes = self.server_loads_bytes.get(name).copied().unwrap_or(0.0);
        if speed.is_nan() || !load_bytes.is_finite() || load_bytes < 0.0 {
            return Err(PyValueError::new_err(format!(
                "server {name} has speed {speed} and load {load_bytes}: a speed is a number, a load finite and not \
                 negative"
            )));
        }
        Ok(ServerState { server: ServerId(number), speed, load_bytes })
    }
}

fn of_each<T>(name: &str, values: Option<Vec<T>>, targets: usize) -> PyResult<Option<Vec<T>>> {
    if let Some(values) = &values {
        same_length(name, values.len(), targets)?;
    }
    Ok(values)
}

fn same_length(name: &str, length: usize, expected: usize) -> PyResult<()> {
    if length == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name} has {length} values where {expected} are expected")))
}

/// The next of a sequence of uniform numbers (Steele, Lea and Flood's SplitMix64, OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
