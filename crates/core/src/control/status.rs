//! The answer of `/v1/status`.

use crate::config::TakenPort;
use crate::identity::IdentityStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_wire::{MachineLoad, TargetState};

/// `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub(crate) server: u16,
    pub(crate) version: &'static str,
    pub(crate) boot: String,
    pub(crate) state: TargetState,
    pub(crate) uptime_seconds: f64,
    /// The policy in force.
    pub policy: String,
    /// The scheduler that enforces it.
    pub scheduler: String,
    /// The allocator of new files.
    pub allocator: String,
    pub(crate) connections: usize,
    pub(crate) outstanding: usize,
    /// Memory held for clients.
    pub(crate) held_bytes: usize,
    /// Memory that the namespace keeps for users, and its bound.
    pub(crate) kept_bytes: u64,
    pub(crate) kept_bytes_max: u64,
    pub(crate) inodes: u64,
    /// Bytes on targets here behind the ends of their files.
    pub(crate) unpublished_bytes: u64,
    pub(crate) durable: bool,
    /// The identity that the server's folders carry; absent where nothing outlives the server.
    pub(crate) identity: Option<IdentityStatus>,
    /// Absent where the store keeps nothing.
    pub(crate) journal: Option<JournalStatus>,
    /// The file system of the journal has no room: only changes that give room back are taken.
    pub(crate) full: bool,
    pub(crate) load: MachineLoad,
    pub(crate) targets: Vec<TargetStatus>,
    /// The ports that other programs had when the server started.
    pub(crate) taken_ports: Vec<TakenPort>,
    /// Servers of the store, as far as this one knows: the next one gets this number.
    pub(crate) servers: usize,
    /// Numbers given to targets so far, also to those that have retired: the next target gets this number.
    pub(crate) target_numbers: usize,
    /// Objects of this home's files on targets of all servers that retire.
    pub(crate) leaving: Vec<LeavingStatus>,
    pub(crate) metadata: DeviceStatus,
    pub(crate) placements: Placements,
    pub(crate) peers: Vec<PeerStatus>,
    /// Reports of peers that came late or twice, and were ignored.
    pub(crate) reports_ignored: u64,
    /// Unix time by the server's clock.
    pub(crate) clock_seconds: f64,
}

/// The journal in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JournalStatus {
    /// `works`, or `stopped` since a sync of it failed: changes answer EROFS, and it is tried to begin it anew.
    pub(crate) state: &'static str,
    /// The last failure, and the time for which the journal has been stopped.
    pub(crate) error: Option<String>,
    pub(crate) stopped_seconds: Option<f64>,
    /// Syncs that failed since the server started.
    pub(crate) sync_failures: u64,
    /// The last change, and the last one on stable storage.
    pub(crate) appended: u64,
    pub(crate) durable: u64,
    pub(crate) log_bytes: u64,
}

/// One target in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TargetStatus {
    pub(crate) target: String,
    pub(crate) backend: &'static str,
    pub(crate) capacity_bytes: u64,
    pub(crate) used_bytes: u64,
    /// Memory of its free pages, which only `/metrics` shows.
    #[serde(skip)]
    pub(crate) spare_bytes: u64,
    /// The file system that the target lies on, and the bytes left there; absent for a target in memory.
    pub(crate) disk: Option<String>,
    pub(crate) disk_free_bytes: Option<u64>,
    /// Why the target answers EIO, or its device's last failure for some minutes; absent where it works.
    pub(crate) trouble: Option<String>,
    /// Failures of its device since it was opened.
    pub(crate) device_failures: u64,
    pub(crate) keeps: &'static str,
    pub(crate) state: TargetState,
    #[serde(flatten)]
    pub(crate) placement: PlacementStatus,
    #[serde(flatten)]
    pub(crate) device: DeviceStatus,
    /// Whether its folder is gone, or another one lies in its place.
    pub(crate) absent: bool,
    /// Unix time since when it is troubled.
    pub(crate) failing_since: Option<f64>,
    /// Unix time since when it is full.
    pub(crate) full_since: Option<f64>,
}

/// The figures of a target by which new files are placed, in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlacementStatus {
    /// Targets of one class are expected to be equally fast.
    pub(crate) class: String,
    /// The speed of the target beside the store's usual target, which is 1.
    pub(crate) speed_ratio: f64,
    /// The rate that its last requests achieved, and the rate of such requests on the other targets of its class; absent where the
    /// requests show none.
    pub(crate) achieved_bytes_per_second: Option<f64>,
    pub(crate) expected_bytes_per_second: Option<f64>,
    /// Unix time since when it is slow.
    pub(crate) slow_since: Option<f64>,
    /// Time needed for the waiting requests, averaged over the last exchanges.
    pub(crate) backlog_seconds: f64,
}

/// The objects of a home on a target that retires, in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeavingStatus {
    pub(crate) target: String,
    pub(crate) objects: u64,
}

/// A device in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceStatus {
    /// Share of the last interval in which it was busy.
    pub(crate) load: f64,
    pub(crate) queued: usize,
    /// Mean time a request was in service in the last interval in which there was one.
    pub(crate) latency_seconds: f64,
    pub(crate) busy_seconds: f64,
    pub(crate) cost: CostStatus,
    pub(crate) speed: Option<SpeedStatus>,
}

/// The expected time of a request: learned, but for an emulated device, whose speed is known.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CostStatus {
    pub(crate) read: DirectionCost,
    pub(crate) write: DirectionCost,
}

/// The cost of requests in one direction: a fixed time, and bytes a second; an absent rate means that bytes cost nothing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DirectionCost {
    pub(crate) fixed_seconds: f64,
    pub(crate) bytes_per_second: Option<u64>,
}

/// An emulated speed; absent rates mean that bytes cost nothing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SpeedStatus {
    pub(crate) read_bytes_per_second: Option<u64>,
    pub(crate) write_bytes_per_second: Option<u64>,
    pub(crate) fixed_seconds: f64,
}

/// The placements of this server since it started, in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Placements {
    /// Stripes by allocator, and by target.
    pub(crate) stripes: BTreeMap<String, u64>,
    pub(crate) targets: BTreeMap<String, u64>,
    /// Files that were not made, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
}

/// The last news of another server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PeerStatus {
    pub(crate) server: u16,
    /// Age of its last report; absent before the first.
    pub(crate) age_seconds: Option<f64>,
}
