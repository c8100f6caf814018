//! Messages between servers.

use crate::{
    Capability, ClientId, Fence, Identity, Ino, JobId, Moment, QuotaOwner, QuotaReport, QuotaUse,
    StoreSettings, TargetRoom,
};
use serde::{Deserialize, Serialize};
use weir_placement::{ServerId, TargetId};

/// A request of one server to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// The lambda exchange; the sender's [`ServerReport`] is the payload, the answer's payload is the receiver's.
    Exchange,
    /// Cut the object of `ino` on `target` to `length` bytes and raise its epoch to `epoch`.
    TruncateObject {
        /// File.
        ino: Ino,
        /// Target.
        target: TargetId,
        /// New length of the object.
        length: u64,
        /// New epoch; an object that has it already is left alone.
        epoch: u64,
    },
    /// Remove the object of `ino` on `target`; one that is not there is success.
    RemoveObject {
        /// File.
        ino: Ino,
        /// Target.
        target: TargetId,
    },
    /// Make a directory here for an entry that the sender is about to write.
    MakeDirectory {
        /// The sender's intent; a repeat answers the same inode.
        intent: u64,
        /// Parent that will hold the entry.
        parent: Ino,
        /// Name that the entry will have.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        /// Permission bits.
        permissions: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Layout defaults inherited from the parent.
        layout: weir_placement::LayoutRequest,
        /// Its times, so that the sender can answer its attributes.
        moment: Moment,
        /// Every intent of the sender below this one is settled and will not be repeated or forgotten.
        settled: u64,
    },
    /// The sender never wrote the entry of `intent`: remove the directory made for it.
    ForgetDirectory {
        /// The sender's intent.
        intent: u64,
    },
    /// Remove an empty directory whose entry the sender is about to remove. One that is gone is success.
    RemoveDirectory {
        /// The directory.
        ino: Ino,
        /// The only user who may remove it, where one is set (sticky parent).
        owner_only: Option<u32>,
    },
    /// The entry of `ino` moved.
    Reparent {
        /// The sender's intent; one that is older than the last is ignored.
        intent: u64,
        /// The directory.
        ino: Ino,
        /// Its new parent.
        parent: Ino,
        /// Its new name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Does the work of `TruncateObject`, and has the epoch on stable storage at the answer, so that no power loss lets
    /// in clients that know only an older epoch. [`crate::limits::FILE_BYTES`] as the length cuts nothing.
    FenceObject {
        /// File.
        ino: Ino,
        /// Target.
        target: TargetId,
        /// New length of the object.
        length: u64,
        /// New epoch; an object that has it already is left alone.
        epoch: u64,
    },
    /// Whether a user may move the entry of a directory that is held here.
    MayMove {
        /// The directory.
        ino: Ino,
        /// The user.
        who: Identity,
        /// The entry is in a sticky directory: the user must own this one.
        owner: bool,
        /// The parent changes: the user must have write permission on this one.
        write: bool,
    },
    /// Asks which of these capabilities, of files whose home is the receiver, belong to open descriptions, and for the
    /// receiver's fence.
    Confirm {
        /// At most [`crate::limits::CONFIRMATIONS`].
        capabilities: Vec<Capability>,
    },
    /// Clients wrote to these objects of the sender's targets, behind the ends that the sender knows to be paid for: how far
    /// they are. The receiver is the home of their files. Objects that it does not know are removed again.
    ObjectsHeld {
        /// At most [`crate::limits::OBJECTS_HELD`].
        objects: Vec<HeldObject>,
    },
    /// A target of the sender is full: the receiver carries out at once every deferred removal that gives room there.
    Room,
    /// A new file of the sender finds no target with room: the receiver carries out at once every deferred removal that gives
    /// room on any server, and answers as to `Room`. The answer's payload is its [`ServerReport`] of this moment.
    Vacancy,
}

/// The answer to a [`PeerRequest`] that did not fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerReply {
    /// The request was carried out.
    Done,
    /// The directory that was made.
    Made {
        /// Its inode.
        ino: Ino,
    },
    /// The receiver's [`ServerReport`] is the payload.
    Report,
    /// Whether each capability that was asked about holds, in the same order.
    Confirmed {
        /// One for each.
        holds: Vec<bool>,
        /// The state of the sender's locks.
        fence: Fence,
    },
    /// How far each object that was told of is paid for, in the same order.
    ObjectsPaid {
        /// One for each.
        objects: Vec<PaidObject>,
        /// The use of their users on this server, with the bytes that were told of.
        users: Vec<(QuotaOwner, QuotaUse)>,
    },
    /// Whether the receiver has removals that are not done yet and will give room where it was asked for.
    Room {
        /// Whether removals under way will make room.
        is_promised: bool,
    },
}

/// The bytes of one user and one client in an object behind its paid end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldObject {
    /// File.
    pub ino: Ino,
    /// Place of the object.
    pub place: TargetId,
    /// The user who wrote.
    pub uid: u32,
    /// The client that wrote.
    pub client: ClientId,
    /// One past the last byte that was written.
    pub end: u64,
    /// Bytes of the pages that were written; 0 only asks how far the object is paid for.
    pub bytes: u64,
    /// The client is gone from the sender: it will publish nothing.
    pub is_left: bool,
}

/// The answer about a [`HeldObject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaidObject {
    /// The file is gone: its objects go.
    Gone,
    /// The file has no object there: the bytes go.
    Nowhere,
    /// The file pays for so many bytes of the object.
    Bytes(u64),
}

/// A server's job table and load, as exchanged every lambda.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// The reporting server.
    pub server: ServerId,
    /// Random number of this start of the server.
    pub boot: u64,
    /// The moment of its start, in milliseconds of Unix time.
    pub started: u64,
    /// Grows with every report of this start; older reports are ignored.
    pub sequence: u64,
    /// The use of its machine.
    pub load: MachineLoad,
    /// The jobs it knows.
    pub jobs: Vec<JobReport>,
    /// Its targets.
    pub targets: Vec<TargetReport>,
    /// The bytes that it placed lately, on targets of all servers; targets without a share are left out.
    pub placed: Vec<PlacedReport>,
    /// The shared settings, as far as it knows of decisions.
    pub settings: StoreSettings,
    /// For each target that it knows to retire, its files there. It gives none of its files to these targets any more.
    pub leaving: Vec<LeavingReport>,
    /// The use of its inodes by owner.
    pub quotas: QuotaReport,
}

/// The files of one server on a target that retires.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeavingReport {
    /// The target.
    pub target: TargetId,
    /// Objects there by the layouts of its files, and copies of moves under way.
    pub objects: u64,
}

/// The use of a machine: parts from 0 to 1 of the last seconds, absent where not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Time of its processors.
    pub processors: Option<f32>,
    /// Memory that programs cannot have.
    pub memory: Option<f32>,
    /// Speed of its busiest network link, in the direction in which it moved more.
    pub network: Option<f32>,
}

/// One job in a [`ServerReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Accounting user.
    pub user: String,
    /// Accounting group.
    pub group: String,
    /// Numeric user.
    pub uid: u32,
    /// Compute nodes.
    pub nodes: u32,
    /// Priority.
    pub priority: u32,
    /// Whether it had requests within the grace period.
    pub active: bool,
    /// Device time it received here, in seconds since the server started.
    pub device_seconds: f64,
    /// The devices of the server that it uses now, each once.
    pub uses: Vec<DeviceUse>,
}

/// The demand of a job on one device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Index of the target, or [`weir_fairshare::METADATA_DEVICE`].
    pub device: u8,
    /// The fraction of the device's time it uses and wants; none: it waits for more than it gets.
    pub wanted: Option<f32>,
}

/// One target in a [`ServerReport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// The target.
    pub target: TargetId,
    /// Its room.
    pub room: TargetRoom,
    /// Share of the last interval in which it was busy, 0 to 1.
    pub load: f64,
    /// Requests waiting.
    pub queued: u64,
    /// Time that its queue takes, in seconds, averaged over the last ones.
    pub backlog_seconds: f32,
    /// The usual rate of its requests by direction and size class (the reporting server's numbering), in bytes a second.
    pub rates: Vec<(u8, f32)>,
    /// Its speed beside the store's usual target, which is 1.
    pub speed: f32,
    /// The moment since when it achieves under half of its expected speed, in milliseconds of Unix time.
    pub slow_since: Option<u64>,
}

impl TargetReport {
    /// A target without work, at the usual speed.
    pub fn idle(target: TargetId, room: TargetRoom) -> TargetReport {
        TargetReport {
            target,
            room,
            load: 0.0,
            queued: 0,
            backlog_seconds: 0.0,
            rates: Vec::new(),
            speed: 1.0,
            slow_since: None,
        }
    }
}

/// The stripes that one server placed on one target in the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedReport {
    /// The target.
    pub target: TargetId,
    /// One stripe of each, in bytes, older ones counting less.
    pub bytes: f32,
}
