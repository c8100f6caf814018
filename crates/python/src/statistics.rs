//! From what a file system's statistics say to the speeds and loads that an allocator is given.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use weir_placement::{ServerId, ServerStatistics, TargetId, TargetStatistics, View};

type Known = (Vec<f64>, Vec<f64>, HashMap<String, f64>, HashMap<String, f64>);

/// Speeds and loads of targets, and speeds and loads of servers by name, for files written in `horizon_seconds`.
///
/// All lists are one value for each target: its server, the part of `expected_bytes_per_second` that it achieves (None
/// where that was not seen), the traffic that it has, its size and what is free. `busy` is, by server name, the part of
/// processor, memory and network that is used, from 0 to 1; servers that it does not name are never the narrow place.
///
/// Raises ValueError where lists differ in length or a number is none that can be used.
#[pyfunction]
#[pyo3(signature = (servers, *, expected_bytes_per_second, health, traffic_bytes_per_second, total_bytes, free_bytes,
    busy, horizon_seconds))]
// One keyword per thing that is known of a target: Python names them.
#[allow(clippy::too_many_arguments)]
pub(crate) fn speeds_and_loads(
    servers: Vec<String>,
    expected_bytes_per_second: f64,
    health: Vec<Option<f64>>,
    traffic_bytes_per_second: Vec<f64>,
    total_bytes: Vec<u64>,
    free_bytes: Vec<u64>,
    busy: HashMap<String, (f64, f64, f64)>,
    horizon_seconds: f64,
) -> PyResult<Known> {
    let count = servers.len();
    let lengths = [health.len(), traffic_bytes_per_second.len(), total_bytes.len(), free_bytes.len()];
    if lengths.iter().any(|&length| length != count) || count > usize::from(u16::MAX) {
        return Err(PyValueError::new_err(format!(
            "{lengths:?} values are told of {count} targets: as many are expected, at most {}",
            u16::MAX
        )));
    }
    let mut numbers: HashMap<&str, u16> = HashMap::new();
    let mut targets = Vec::with_capacity(count);
    for (place, server) in servers.iter().enumerate() {
        let next = numbers.len() as u16;
        let server = ServerId(*numbers.entry(server).or_insert(next));
        targets.push(TargetStatistics {
            target: TargetId { server, index: place as u16 },
            expected_bytes_per_second,
            achieved_bytes_per_second: health[place].map(|part| part * expected_bytes_per_second),
            traffic_bytes_per_second: traffic_bytes_per_second[place],
            pending_bytes: 0.0,
            total_bytes: total_bytes[place],
            free_bytes: free_bytes[place],
        });
    }
    let known: Vec<(&String, ServerStatistics)> = busy
        .iter()
        .filter_map(|(name, &(processor, memory, network))| {
            let server = ServerId(*numbers.get(name.as_str())?);
            let bytes_per_second = None;
            Some((
                name,
                ServerStatistics { server, bytes_per_second, processor, memory, network, queue: 0.0 },
            ))
        })
        .collect();
    let states: Vec<ServerStatistics> = known.iter().map(|(_, state)| *state).collect();
    let view = View::of_statistics(&targets, &states, horizon_seconds)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    // A view begins with the servers that it was given, in their order.
    let of_server = || known.iter().map(|(name, _)| (*name).clone()).zip(view.servers());
    Ok((
        view.targets().iter().map(|state| state.speed).collect(),
        view.targets().iter().map(|state| state.load_bytes).collect(),
        of_server().map(|(name, state)| (name, state.speed)).collect(),
        of_server().map(|(name, state)| (name, state.load_bytes)).collect(),
    ))
}
