"""The answers of the control API, and the bodies that are sent to it, each as a dataclass.

These are the types of `crates/server` that serde writes. The tests hold both to each other; the reference page and the
OpenAPI document are printed from the fields here and the words below them.
"""

from dataclasses import dataclass, field

from weir.store.decoding import KEY
from weir.store.trees import Position, SumFault, Tree


@dataclass(frozen=True, slots=True)
class DirectionCost:
    """The cost of requests in one direction: a fixed time, and the time of their bytes."""

    fixed_seconds: float
    """Time of each request beside the time of its bytes."""
    bytes_per_second: int | None
    """Rate of the bytes; null where bytes cost nothing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The expected cost of requests. It is learned; that of an emulated device is known."""

    read: DirectionCost
    """Cost of reads."""
    write: DirectionCost
    """Cost of writes."""


@dataclass(frozen=True, slots=True)
class Speed:
    """An emulated speed."""

    read_bytes_per_second: int | None
    """Rate of reads; null where their bytes cost nothing."""
    write_bytes_per_second: int | None
    """Rate of writes; null where their bytes cost nothing."""
    fixed_seconds: float
    """Time of each request beside the time of its bytes."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device: here the metadata service of a server."""

    load: float
    """Part of the last interval in which the device was busy, 0 to 1."""
    queued: int
    """Requests that wait for the device."""
    latency_seconds: float
    """Mean time a request was in service, in the last interval that had one."""
    busy_seconds: float
    """Time that the device has worked since the server started."""
    cost: Cost
    """Expected cost of requests."""
    speed: Speed | None
    """Emulated speed; null where none is emulated."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a server, which is a device too."""

    target: str
    """Name of the target, `SERVER.INDEX`."""
    backend: str
    """`ram` or `dir`."""
    capacity_bytes: int
    """Bytes that the target can hold. Targets on one disk cannot hold theirs together: see `disk`."""
    used_bytes: int
    """Bytes that the target holds."""
    disk: str | None
    """File system that the target lies on, whose room all targets on it share; null for a target in memory."""
    disk_free_bytes: int | None
    """Bytes that the file system has left; null for a target in memory."""
    trouble: str | None
    """Why the target answers EIO: its folder is gone, or its device failed some minutes ago; null where it works."""
    device_failures: int
    """Requests that the target's device failed since the server started."""
    keeps: str
    """The target's contents after a restart, in words. A store with a target in memory keeps those of no target."""
    state: str
    """`open`, or `retiring`: then the target gets no new files, and those that it has are to leave."""
    speed_class: str = field(metadata={KEY: "class"})
    """Class of speed: all targets of one class are expected to be equally fast."""
    speed_ratio: float
    """Speed of the target beside the store's usual target, which is 1."""
    achieved_bytes_per_second: float | None
    """Usual rate of the last requests above 256 KiB, of a slow target that of its largest ones; null before the first
    few, and where they took less than 200 us each, which shows no rate."""
    expected_bytes_per_second: float | None
    """Rate that such requests achieve on the other targets of the class, none counted as faster than 200 us; null with
    the rate above."""
    slow_since: float | None
    """Unix time at which the target became slow; null where it is not slow."""
    backlog_seconds: float
    """Time needed for the requests that wait, averaged over the last exchanges."""
    load: float
    """As for a device."""
    queued: int
    """As for a device."""
    latency_seconds: float
    """As for a device."""
    busy_seconds: float
    """As for a device."""
    cost: Cost
    """As for a device."""
    speed: Speed | None
    """As for a device."""
    absent: bool = False
    """Whether the target's folder is gone, or another one lies in its place."""
    failing_since: float | None = None
    """Unix time since when the target has its trouble; null where it works."""
    full_since: float | None = None
    """Unix time since when the target is full; null where it has room."""


@dataclass(frozen=True, slots=True)
class TakenPort:
    """A port of the server that another program had when the server started, which therefore listens elsewhere."""

    name: str
    """`data` or `control`."""
    wanted: str
    """Address that is taken."""
    address: str
    """Address at which the server listens instead."""
    holder: int | None
    """User whose program listens there; null where the system does not tell."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The load of a server's machine: parts of the last seconds, 0 to 1, null where not known."""

    processors: float | None
    """Time of its processors."""
    memory: float | None
    """Memory that programs cannot have."""
    network: float | None
    """Speed of its busiest network link, in the direction in which it moved more."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of a server."""

    state: str
    """`works`, or `stopped` since a sync failed: then changes answer EROFS, until the journal begins anew."""
    error: str | None
    """The last failure; null where nothing failed."""
    stopped_seconds: float | None
    """Time since the journal stopped; null where it works."""
    sync_failures: int
    """Syncs that failed since the server started."""
    appended: int
    """Number of the last change."""
    durable: int
    """Number of the last change on stable storage."""
    log_bytes: int
    """Length of the log."""


@dataclass(frozen=True, slots=True)
class Placements:
    """The placements of a server since it started."""

    stripes: dict[str, int]
    """Stripes by allocator."""
    targets: dict[str, int]
    """Stripes by target, on all servers."""
    refused: dict[str, int]
    """Files that were not made, by reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another server, as this server hears of it."""

    server: int
    """Number of the other server."""
    age_seconds: float | None
    """Age of its last report; null before the first."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A target that retires, as a home of files sees it."""

    target: str
    """Name of the target."""
    objects: int
    """Objects there of the home's files. The target can leave when no home has any."""


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """The identity in the stamps of a server's folders: its home, its journal and its targets."""

    store: str
    """Identity of the store, which follows from its key."""
    birth: str
    """Random number of the server's first start."""
    generation: int
    """Number of this start among the starts of the server."""


@dataclass(frozen=True, slots=True)
class Status:
    """A server, without its jobs."""

    server: int
    """Number of the server."""
    version: str
    """Version of the program."""
    boot: str
    """Identity of the server's start, another one for each start."""
    state: str
    """`open`; `retiring`: it takes no new trees, and its targets are emptied; or `retired`: it has only its trees."""
    uptime_seconds: float
    """Time since the start."""
    policy: str
    """Policy in force."""
    scheduler: str
    """Algorithm that enforces the policy."""
    allocator: str
    """Algorithm that chooses the targets of new files."""
    connections: int
    """Connections of clients."""
    outstanding: int
    """Requests that were received and not answered."""
    held_bytes: int
    """Memory held for clients."""
    kept_bytes: int
    """Memory that the server keeps for users: inodes, names, attributes, descriptions, intents, clients and replies."""
    kept_bytes_max: int
    """Bound of that memory, beyond which a change that takes more is answered ENOSPC or, for one user, EDQUOT."""
    inodes: int
    """Inodes whose home the server is."""
    unpublished_bytes: int
    """Bytes on its targets that no published size covers yet."""
    durable: bool
    """Whether names and sizes survive the server."""
    identity: FolderIdentity | None
    """The identity that the server's folders carry; null where nothing of the server survives it."""
    journal: Journal | None
    """The journal; null where the store keeps nothing."""
    full: bool
    """Whether the journal's file system has no room: then the server takes only changes that free room."""
    load: MachineLoad
    """Load of the server's machine."""
    targets: tuple[Target, ...]
    """Targets of the server, without those that have retired."""
    taken_ports: tuple[TakenPort, ...]
    """Ports of the server that other programs had when it started."""
    servers: int
    """Servers of the store, as far as this one knows: the next one gets this number."""
    target_numbers: int
    """Targets that the server ever had: the next one gets this number."""
    leaving: tuple[Leaving, ...]
    """Objects of this server's files on targets that retire, on all servers."""
    metadata: Device
    """Metadata service of the server."""
    placements: Placements
    """Placements of the server."""
    peers: tuple[Peer, ...]
    """The other servers."""
    reports_ignored: int
    """Reports of peers that came late or twice, and were ignored."""
    clock_seconds: float | None = None
    """Unix time by the server's clock; null from a server of before."""

    def _repr_html_(self) -> str:
        """The server as a table of HTML."""
        from weir.store.store_table import server_html

        return server_html(self)


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A job that another job waited for."""

    job: str
    """Name of the job."""
    user: str
    """User whom the job is accounted to."""
    uid: int
    """Number of the job's user."""
    seconds: float
    """Device time that the job received while the waiting job had requests queued."""


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """A job's account with one device."""

    device: str
    """A target, such as `0.1`, or the metadata of a server, such as `0.metadata`."""
    share_owed: float | None
    """Share of the device's time that the policy owes the job now: 0 where it is not active, null under `fifo`."""
    share_owed_for_seconds: float
    """Time for which the policy has owed the job this share, within half a point."""
    device_seconds: float
    """Time that the device worked for the job."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job on one server, since the server started. Times are in seconds.

    A server lists the jobs that are active at other servers, too.
    """

    job: str
    """Name of the job."""
    id: str
    """Number of the job, the same on all servers."""
    user: str
    """User that the job is accounted under."""
    group: str
    """Group that the job is accounted under."""
    uid: int
    """Number of the job's user."""
    nodes: int
    """Compute nodes."""
    priority: int
    """Priority."""
    active: bool
    """Whether the job has requests, or had some within the grace period."""
    connections: int
    """Connections of the job."""
    operations: int
    """Operations of the job."""
    bytes_read: int
    """Bytes read."""
    bytes_written: int
    """Bytes written."""
    charged_seconds: float
    """Device time that the cost model expected for the job's requests when they were dispatched."""
    device_seconds: float
    """Device time that these requests really took."""
    queue_wait_seconds_median: float
    """Median time that a request waited for its turn."""
    queue_wait_seconds_p90: float
    """90th percentile of the times that requests waited for their turn."""
    queue_wait_seconds_p99: float
    """99th percentile of the times that requests waited for their turn."""
    queue_wait_seconds_max: float
    """Longest time that a request waited for its turn."""
    queue_wait_seconds_total: float
    """Sum of all waits."""
    waited_for: tuple[WaitedFor, ...]
    """The jobs that received most device time while this job had requests queued, the greatest first."""
    waited_for_others_seconds: float
    """Device time that all further jobs received meanwhile."""
    devices: tuple[DeviceAccount, ...]
    """Devices that the job has used."""
    contended_seconds: float
    """Device time that the server gave to all jobs while this job was active at any server of the store."""
    owing_seconds: float
    """Part of `contended_seconds` that was given under a policy that owes shares; `fifo` owes none."""
    owed_seconds: float
    """Part of `owing_seconds` that the policy owed to the job, as far as the job could use it."""
    received_seconds: float
    """Part of `contended_seconds` that the job received."""
    share_owed: float | None
    """`owed_seconds` as a part of `owing_seconds`; null before the job was active, and under `fifo`."""
    share_received: float | None
    """`received_seconds` as a part of `contended_seconds`; null before the job was active."""
    last_seen_seconds: float
    """Time since the job's last request."""

    def _repr_html_(self) -> str:
        """The job as a table of HTML."""
        from weir.store.job_table import job_html

        return job_html(self)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The job table of one server."""

    jobs: tuple[Job, ...]
    """Jobs of the server, by name and user."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """A policy and its scheduler."""

    policy: str
    """Policy, such as `size-fair`."""
    scheduler: str
    """Scheduler, such as `virtual-time`."""


@dataclass(frozen=True, slots=True)
class WantedSharing:
    """A policy that is to be in force."""

    policy: str
    """Policy, such as `size-fair`."""
    scheduler: str | None = None
    """Scheduler; without this key it is the present one if that can enforce the policy, else the policy's own."""


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """One user's job of a name under a lease: its share beside that of the site, and the places of its new files."""

    job: str
    """Name of the job."""
    uid: int
    """Number of the job's user: another user's job of this name is another job."""
    weight: float | None = None
    """Factor of the weight that the policy and the site give."""
    limit: float | None = None
    """Most of each device's time, as a part of it; of this limit and the site's the lower one counts."""
    avoid: tuple[str, ...] = ()
    """Targets on which new files of the job get no stripes while other targets take these: at most 64, and never all of
    the store. Targets that the store does not have are left out. A layout of the user that names targets, or asks for
    more stripes than the other targets take, counts for more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The sharing that is in force on a server, and the lease that made it where there is one."""

    policy: str
    """Policy in force."""
    scheduler: str
    """Scheduler in force."""
    is_leased: bool
    """Whether a lease is in force in place of the decided sharing."""
    jobs: tuple[LeasedJob, ...]
    """Jobs under the lease."""
    seconds: float
    """Time until the lease ends unless it is renewed."""


@dataclass(frozen=True, slots=True)
class WantedLease:
    """A lease that is to be in force on one server, in place of the present one."""

    seconds: float
    """Time after which the server returns to the decided sharing, at most 60 s; 0 ends the lease now."""
    jobs: tuple[LeasedJob, ...]
    """Jobs, at most 64, each once."""
    policy: str | None = None
    """Policy in place of the decided one; without this key the decided one."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """The algorithm that chooses the targets of new files."""

    allocator: str
    """`balanced`, `lustre-standard` or `random`."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The use of one owner on one server, and the limits of the owner on the whole store."""

    kind: str
    """`user` or `group`."""
    id: int | None
    """Number of the user or group; null for the limits of all owners of the kind that have none of their own."""
    bytes: int
    """Bytes of its files on this server, in whole pages."""
    inodes: int
    """Its inodes on this server, of every kind."""
    unpublished_bytes: int
    """The part of the bytes that was written behind the ends of files with this home, and not published yet."""
    bytes_max: int | None
    """The most bytes on all servers; null without a limit."""
    inodes_max: int | None
    """The most inodes on all servers; null without a limit."""
    is_set: bool
    """Whether these limits were set for this owner itself."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas, as one server knows them."""

    owners: tuple[Quota, ...]
    """Every owner with inodes on the server or with limits."""


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Limits of one owner."""

    bytes_max: int | None = None
    """The most bytes; without this key there is no limit."""
    inodes_max: int | None = None
    """The most inodes; without this key there is no limit."""


@dataclass(frozen=True, slots=True)
class WantedQuota:
    """Limits that are to be in force."""

    kind: str
    """`user` or `group`."""
    id: int | None = None
    """Number of the user or group; without this key, all owners of the kind that have no limits of their own."""
    limits: QuotaLimits | None = None
    """The limits; without this key the owner is left to the limits of all."""


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """An object on a target of the server."""

    target: str
    """Name of the target."""
    ino: int
    """Number of the file's inode; the upper 16 bits are the number of its home server."""
    bytes: int
    """Length of the object; on a `ram` target in whole pages."""


@dataclass(frozen=True, slots=True)
class WantedObject:
    """An object that a file may have."""

    target: str
    """Name of the target."""
    bytes_min: int | None
    """Bytes that the object must have at least; null for an object that need not exist."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the server, or one that is gone while its objects are being removed."""

    ino: int
    """Number of the inode."""
    size_bytes: int
    """Size of the file."""
    objects: tuple[WantedObject, ...]
    """The objects of its layout."""
    former: tuple[str, ...]
    """More targets that may have an object of the file."""
    is_changing: bool
    """Whether the file is being cut, moved or removed."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A part of the objects and files of one server."""

    objects: tuple[ObjectEntry, ...]
    """The objects on its targets."""
    files: tuple[FileEntry, ...]
    """The files with this home. They were looked at after the objects."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an inode in the tree, by one of its names."""

    ino: int
    """Number of the inode."""
    path: str
    """Path below the directory `above`."""
    above: int
    """Number of the root directory, or of a directory of this server whose name another server has."""
    server: int
    """The server that has the name of `above`."""


@dataclass(frozen=True, slots=True)
class Places:
    """Places of inodes."""

    places: tuple[Place, ...]
    """The places of those that have names on the server."""


@dataclass(frozen=True, slots=True)
class FolderFault:
    """A folder that a start would refuse: the home, the journal or a target of a server."""

    place: str
    """The place in words, such as `target 0.1`."""
    path: str
    """Path of the folder."""
    found: str
    """The finding, in words."""
    way_out: str
    """The remedy, in words."""


@dataclass(frozen=True, slots=True)
class StoppedInventory:
    """The inventory of a server that is not running, as `weir-server --inventory` prints it."""

    objects: tuple[ObjectEntry, ...]
    """The objects on its targets."""
    files: tuple[FileEntry, ...]
    """The files with this home."""
    places: tuple[Place, ...]
    """Places of all files, of inodes at fault, and of directories of other servers with names here."""
    tree: Tree
    """The tree, as far as the server knows it."""
    directories: tuple[Position, ...]
    """Places of all directories, by their own records."""
    sums: tuple[SumFault, ...]
    """Owners whose accounted use is not that of their inodes."""
    folders: tuple[str, ...]
    """Directories of the targets."""
    identities: tuple[FolderFault, ...]
    """The folders that a start would refuse."""
    notices: tuple[str, ...]
    """Words about records of the journal that a start cuts off."""


@dataclass(frozen=True, slots=True)
class WantedSpeed:
    """A speed that is to be emulated; an empty object is none."""

    read: str | None = None
    """Rate of reads, such as `29MB/s`."""
    write: str | None = None
    """Rate of writes."""
    fixed: str | None = None
    """Time of each request, such as `1ms`."""


@dataclass(frozen=True, slots=True)
class WantedTarget:
    """A target that is to be opened: its table in cluster.toml."""

    backend: str
    """`ram` or `dir`."""
    capacity: str | None = None
    """Most bytes, such as `4GiB`; absent is the free room of the folder's file system."""
    path: str | None = None
    """Whole path of a folder that is empty or not there yet; absent is one in the server's own folder."""
    speed: WantedSpeed | None = None
    """Emulated speed; absent is as fast as it is."""
    speed_class: str | None = field(default=None, metadata={KEY: "class"})
    """Class of speed; absent is the backend's name."""
    expected: str | None = None
    """Rate that large requests should achieve; absent is that of the other targets of the class."""


@dataclass(frozen=True, slots=True)
class WantedServer:
    """A server that runs and is to join the store: its table in cluster.toml."""

    listen: str
    """Address at which it listens, `HOST:PORT`."""
    control: str
    """Address of its control API, `HOST:PORT`."""
    target: tuple[WantedTarget, ...]
    """Its targets."""


@dataclass(frozen=True, slots=True)
class AddedServer:
    """A server that joined."""

    server: int
    """Number of the server."""


@dataclass(frozen=True, slots=True)
class WantedState:
    """A state that a target or a server is to have."""

    state: str
    """`retiring`, `open` where a target is to take files again, or `retired` where no home has an object there."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A target that was changed."""

    target: str
    """Name of the target."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error."""

    error: str
    """The failure."""
    hint: str
    """A remedy."""
