//! Speeds and loads for allocators, from the statistics of a file system.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use weir_placement::{
    health as health_of, queue_excess, ServerId, ServerStatistics, TargetId, TargetStatistics, View,
};
use weir_wire::{Disk, DiskId, Room, TargetRoom};

/// Parts of processors, memory and network that are used.
type Busy = (Option<f64>, Option<f64>, Option<f64>);
/// The capacity and the used bytes of a target, and the name and free bytes of its disk.
type KnownRoom = (u64, u64, Option<(String, u64)>);
type Known = (Vec<f64>, Vec<f64>, HashMap<String, f64>, HashMap<String, f64>);

/// The capacity and the free bytes of targets together, each given by its capacity, used bytes, and the name and free bytes of its
/// disk, which counts once (None for a target in memory).
#[pyfunction]
pub(crate) fn room_together(targets: Vec<KnownRoom>) -> (u64, u64) {
    let mut numbers: HashMap<String, u64> = HashMap::new();
    let mut room = |(capacity_bytes, used_bytes, disk): KnownRoom| {
        let disk = disk.map(|(name, free_bytes)| {
            let next = numbers.len() as u64;
            let device = *numbers.entry(name).or_insert(next);
            Disk { id: DiskId { machine: 0, device }, free_bytes }
        });
        TargetRoom { capacity_bytes, used_bytes, disk }
    };
    let rooms: Vec<TargetRoom> = targets.into_iter().map(&mut room).collect();
    let Room { capacity_bytes, free_bytes } = Room::of(rooms);
    (capacity_bytes, free_bytes)
}

/// Speeds and loads of targets, and speeds and loads of servers by name, for files written in `horizon_seconds`.
///
/// All lists have one value for each target: its server, the part of `expected_bytes_per_second` that it achieves (None
/// where no speed was seen), its traffic, its size and its free bytes, and, if given, the length of its queue. Of a
/// queue the part counts that is beyond `backlog_usual_seconds`, and beyond twice the mean. `busy` is, by server name,
/// the used part of processors, memory and network, from 0 to 1 or None; servers that it does not name are never the
/// narrow place.
///
/// Raises ValueError where lists differ in length or a number cannot be used.
#[pyfunction]
#[pyo3(signature = (servers, *, expected_bytes_per_second, health, traffic_bytes_per_second, total_bytes, free_bytes,
    busy, horizon_seconds, backlog_seconds=None, backlog_usual_seconds=0.0))]
// One keyword per thing that is known of a target: Python names them.
#[allow(clippy::too_many_arguments)]
pub(crate) fn speeds_and_loads(
    servers: Vec<String>,
    expected_bytes_per_second: f64,
    health: Vec<Option<f64>>,
    traffic_bytes_per_second: Vec<f64>,
    total_bytes: Vec<u64>,
    free_bytes: Vec<u64>,
    busy: HashMap<String, Busy>,
    horizon_seconds: f64,
    backlog_seconds: Option<Vec<f64>>,
    backlog_usual_seconds: f64,
) -> PyResult<Known> {
    let count = servers.len();
    let waits = queue_excess(&backlog_seconds.unwrap_or_else(|| vec![0.0; count]), backlog_usual_seconds);
    let lengths =
        [health.len(), traffic_bytes_per_second.len(), total_bytes.len(), free_bytes.len(), waits.len()];
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
        let achieved_bytes_per_second = health[place].map(|part| part * expected_bytes_per_second);
        targets.push(TargetStatistics {
            target: TargetId { server, index: place as u16 },
            expected_bytes_per_second,
            achieved_bytes_per_second,
            traffic_bytes_per_second: traffic_bytes_per_second[place],
            pending_bytes: waits[place]
                * expected_bytes_per_second
                * health_of(achieved_bytes_per_second, expected_bytes_per_second),
            total_bytes: total_bytes[place],
            free_bytes: free_bytes[place],
        });
    }
    let known: Vec<(&String, ServerStatistics)> = busy
        .iter()
        .filter_map(|(name, &(processors, memory, network))| {
            let server = ServerId(*numbers.get(name.as_str())?);
            let bytes_per_second = None;
            Some((name, ServerStatistics { server, bytes_per_second, processors, memory, network }))
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
