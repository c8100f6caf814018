//! The present state of servers and targets: alive, heard by their peers, fast, full.

use crate::scenario::{Fault, FaultKind};
use crate::topology::{Fullness, Target, Topology};
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::TargetRoom;

/// The servers and targets of a run. Targets have one number through all servers.
#[derive(Clone, Debug)]
pub(crate) struct Machines {
    pub(crate) servers: Vec<ServerMachine>,
    pub(crate) targets: Vec<TargetMachine>,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerMachine {
    /// The number of its first target.
    pub(crate) first: u32,
    pub(crate) is_alive: bool,
    pub(crate) is_parted: bool,
    /// The moment from which on its peers hear nothing of it.
    pub(crate) silent_since: Option<Nanos>,
}

#[derive(Clone, Debug)]
pub(crate) struct TargetMachine {
    pub(crate) server: u32,
    pub(crate) capacity_bytes: u64,
    /// Bytes of others than the workload.
    foreign_bytes: u64,
    /// Bytes of the workload's files.
    pub(crate) workload_bytes: u64,
    /// Part of its rate at which it works, by faults.
    pub(crate) speed: f64,
    fullness: Vec<Fullness>,
}

impl Machines {
    pub(crate) fn new(topology: &Topology) -> Machines {
        let (mut servers, mut targets) = (Vec::new(), Vec::new());
        for (number, server) in topology.servers.iter().enumerate() {
            servers.push(ServerMachine {
                first: targets.len() as u32,
                is_alive: true,
                is_parted: false,
                silent_since: None,
            });
            targets.extend(server.targets.iter().map(|target| TargetMachine::new(number as u32, target)));
        }
        Machines { servers, targets }
    }

    /// The number of a target through all servers.
    pub(crate) fn number(&self, target: TargetId) -> u32 {
        self.servers[usize::from(target.server.0)].first + u32::from(target.index)
    }

    /// The number of the target with this index on its server.
    #[inline]
    pub(crate) fn at(&self, server: u32, index: u32) -> u32 {
        self.servers[server as usize].first + index
    }

    pub(crate) fn name(&self, number: u32) -> TargetId {
        let server = self.targets[number as usize].server;
        let index = number - self.servers[server as usize].first;
        TargetId { server: ServerId(server as u16), index: index as u16 }
    }

    /// The targets of a server, and the room on each.
    pub(crate) fn rooms(&self, server: u16) -> impl Iterator<Item = (TargetId, TargetRoom)> + '_ {
        let first = self.servers[usize::from(server)].first as usize;
        let own = self.targets[first..].iter().take_while(move |target| target.server == u32::from(server));
        own.zip(0..).map(move |(target, index)| {
            let (capacity_bytes, used_bytes) = (target.capacity_bytes, target.used_bytes());
            let room = TargetRoom { capacity_bytes, used_bytes, disk: None };
            (TargetId { server: ServerId(server), index }, room)
        })
    }

    /// A fault of a scenario that was checked takes effect.
    pub(crate) fn hit(&mut self, fault: &Fault, now: Nanos) {
        let server = &mut self.servers[fault.server as usize];
        let target = &mut self.targets[(server.first + fault.target) as usize];
        match fault.kind {
            FaultKind::Speed(part) => target.speed = part,
            FaultKind::Fill(part) => {
                let filled = (part * target.capacity_bytes as f64) as u64;
                target.foreign_bytes = filled.saturating_sub(target.workload_bytes);
            }
            FaultKind::Dies => server.is_alive = false,
            FaultKind::Returns => server.is_alive = true,
            FaultKind::Parted => server.is_parted = true,
            FaultKind::Joined => server.is_parted = false,
        }
        let is_heard = server.is_alive && !server.is_parted;
        server.silent_since = (!is_heard).then(|| server.silent_since.unwrap_or(now));
    }
}

impl TargetMachine {
    fn new(server: u32, target: &Target) -> TargetMachine {
        TargetMachine {
            server,
            capacity_bytes: target.capacity_bytes,
            foreign_bytes: target.used_bytes,
            workload_bytes: 0,
            speed: 1.0,
            fullness: target.fullness.clone(),
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.foreign_bytes + self.workload_bytes
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    /// The part of its rate at which it works as it is: by faults, and by the part of its capacity in use.
    pub(crate) fn pace(&self) -> f64 {
        if self.fullness.is_empty() {
            return self.speed;
        }
        let used = self.used_bytes() as f64 / self.capacity_bytes.max(1) as f64;
        self.speed * rate_at(&self.fullness, used)
    }
}

/// The rate that a curve gives at a part in use: linear between two points, level before the first and behind the last.
fn rate_at(curve: &[Fullness], used: f64) -> f64 {
    let behind = curve.partition_point(|point| point.used <= used);
    match (behind.checked_sub(1).map(|before| curve[before]), curve.get(behind)) {
        (Some(before), Some(after)) => {
            let part = (used - before.used) / (after.used - before.used);
            before.rate + part * (after.rate - before.rate)
        }
        (Some(point), None) => point.rate,
        (None, Some(point)) => point.rate,
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_slows_along_its_curve_as_it_fills() {
        let curve = [Fullness { used: 0.5, rate: 1.0 }, Fullness { used: 0.9, rate: 0.6 }];
        for (used, rate) in [(0.0, 1.0), (0.5, 1.0), (0.7, 0.8), (0.9, 0.6), (1.0, 0.6)] {
            assert!((rate_at(&curve, used) - rate).abs() < 1e-12, "{used}");
        }
        assert_eq!(rate_at(&[], 0.3), 1.0);
    }
}
