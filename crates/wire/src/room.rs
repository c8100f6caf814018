//! The room on targets, several of which may lie on one disk.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// A file system of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DiskId {
    /// A number of the machine, from its last start.
    pub machine: u128,
    /// The machine's number of the file system.
    pub device: u64,
}

impl fmt::Display for DiskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}.{:x}", self.machine, self.device)
    }
}

/// The file system below a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The file system.
    pub id: DiskId,
    /// The bytes that it has left.
    pub free_bytes: u64,
}

/// The room on one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRoom {
    /// The bytes that the target may hold, if it had its disk alone.
    pub capacity_bytes: u64,
    /// The bytes that it holds.
    pub used_bytes: u64,
    /// Its disk; none for a target in memory.
    pub disk: Option<Disk>,
}

/// The room on several targets together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The bytes that they hold, and those that they can still take.
    pub capacity_bytes: u64,
    /// The bytes that they can still take.
    pub free_bytes: u64,
}

impl TargetRoom {
    /// The bytes that the target can still take, if it has its disk alone.
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes)
    }
}

impl Room {
    /// Adds up targets. Those on one disk can take no more than the disk has left, however much each may hold.
    pub fn of(targets: impl IntoIterator<Item = TargetRoom>) -> Room {
        let (mut used_bytes, mut free_bytes) = (0_u64, 0_u64);
        let mut disks: HashMap<DiskId, (u64, u64)> = HashMap::new();
        for target in targets {
            used_bytes = used_bytes.saturating_add(target.used_bytes);
            let Some(disk) = target.disk else {
                free_bytes = free_bytes.saturating_add(target.free_bytes());
                continue;
            };
            let (promised, left) = disks.entry(disk.id).or_insert((0, disk.free_bytes));
            *promised = promised.saturating_add(target.free_bytes());
            // Servers report one after the other, so the lowest figure is the safe one.
            *left = disk.free_bytes.min(*left);
        }
        let on_disks = disks.values().map(|&(promised, left)| promised.min(left));
        free_bytes = on_disks.fold(free_bytes, u64::saturating_add);
        Room { capacity_bytes: used_bytes.saturating_add(free_bytes), free_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn on(device: u64, capacity: u64, used: u64, free: u64) -> TargetRoom {
        let disk = Disk { id: DiskId { machine: 7, device }, free_bytes: free * GIB };
        TargetRoom { capacity_bytes: capacity * GIB, used_bytes: used * GIB, disk: Some(disk) }
    }

    #[test]
    fn a_disk_counts_once_however_many_targets_lie_on_it() {
        let memory = TargetRoom { capacity_bytes: 4 * GIB, used_bytes: GIB, disk: None };
        for (name, targets, capacity, free) in [
            ("nothing", vec![], 0, 0),
            ("memory", vec![memory, memory], 8, 6),
            ("two disks", vec![on(1, 10, 2, 8), on(2, 20, 0, 20)], 30, 28),
            ("one disk that is promised twice", vec![on(1, 10, 2, 8), on(1, 9, 1, 8)], 11, 8),
            ("small parts of a large disk", vec![on(1, 4, 1, 100), on(1, 4, 4, 100)], 8, 3),
            ("a report that is older", vec![on(1, 10, 2, 8), on(1, 7, 1, 6)], 9, 6),
            ("all kinds", vec![memory, on(1, 10, 2, 8), on(1, 9, 1, 8), on(2, 5, 0, 5)], 20, 16),
            ("a target that is gone has no room", vec![on(1, 2, 2, 8), on(1, 9, 1, 8)], 11, 8),
        ] {
            let expected = Room { capacity_bytes: capacity * GIB, free_bytes: free * GIB };
            assert_eq!(Room::of(targets), expected, "{name}");
        }
    }

    #[test]
    fn disks_of_two_machines_with_one_number_are_two() {
        let mut other = on(1, 10, 0, 10);
        other.disk = other.disk.map(|disk| Disk { id: DiskId { machine: 8, ..disk.id }, ..disk });
        assert_eq!(Room::of([on(1, 10, 0, 10), other]).free_bytes, 20 * GIB);
    }
}
