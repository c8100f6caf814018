"""The windows of the control API: the work of devices and jobs in stretches of time.

These are types of `crates/server`, as those of `weir.store.answers` are.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from weir.store.answers import WaitedFor

METADATA = ".metadata"
"""End of the name of a device that is no target."""


class JobKey(NamedTuple):
    """A job: another user's job of the same name is another one."""

    job: str
    """Name of the job."""
    uid: int
    """Number of its user."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """The reduction of a counter over the samples of a window."""

    sum: float
    """Sum over the samples."""
    mean: float
    """Mean over the samples."""
    deviation: float
    """Standard deviation of the samples, which are all that there are."""


@dataclass(frozen=True, slots=True)
class ObservedDevice:
    """A device in a window. No scheduler merges requests, so there is no count of merged requests."""

    device: str
    """Target as `SERVER.INDEX`, or the metadata of a server as `SERVER.metadata`."""
    reads: Statistic
    """Reads that were completed; at a metadata service, requests that change nothing."""
    writes: Statistic
    """Writes that were completed; at a metadata service, changes."""
    read_sectors: Statistic
    """Sectors of 512 bytes that completed reads moved."""
    written_sectors: Statistic
    """Sectors of 512 bytes that completed writes moved."""
    read_milliseconds: Statistic
    """Time between the arrivals of completed reads and their ends."""
    write_milliseconds: Statistic
    """Time between the arrivals of completed writes and their ends."""
    in_progress: Statistic
    """Requests that were queued or in service when a sample was taken."""
    busy_milliseconds: Statistic
    """Time that the device worked; the time of a request counts when the request ends."""
    queued_milliseconds: Statistic
    """Time for which requests were queued or in service, summed over requests."""


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """The work of a job at a device in a window."""

    job: str
    """Name of the job."""
    user: str
    """User whom the job is accounted to."""
    uid: int
    """Number of the job's user."""
    device: str
    """Name of the device."""
    reads: int
    """Reads that were completed."""
    writes: int
    """Writes that were completed."""
    read_bytes: int
    """Bytes of these reads."""
    written_bytes: int
    """Bytes of these writes."""
    stats: int
    """Requests for attributes, layouts and links that were completed."""
    opens: int
    """Opens, also those that make a file."""
    closes: int
    """Closes, which wait for no device."""
    lists: int
    """Lists of directories."""
    makes: int
    """Directories, links and other nodes that were made."""
    removes: int
    """Removals."""
    renames: int
    """Renames."""
    changes: int
    """Other changes, such as those of attributes."""
    request_seconds: float
    """Time between the arrivals of the completed requests and their ends."""
    under_way_max: int = field(default=0, kw_only=True)
    """Most of these requests that were under way at once; at most 64 are told, and none by older servers."""
    device_seconds: float
    """Device time that the job received."""
    waited_for: tuple[WaitedFor, ...]
    """Jobs that the job waited for at the device, the longest first."""
    waited_for_others_seconds: float
    """Time that the job waited for further jobs."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time."""

    number: int
    """Number of the window since 1970: its begin is this many times its length, in Unix time."""
    devices: tuple[ObservedDevice, ...]
    """The devices."""
    jobs: tuple[ObservedJob, ...]
    """Work of jobs at devices, by job; of the caller's own user unless the caller knows the site's key."""
    left_out: int
    """Number of pairs of a job and a device with less work, which are left out where there are too many."""
    is_whole: bool = True
    """Whether the server observed the window from its begin on, and did not start in it."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a server that have ended, the oldest first."""

    server: int
    """Number of the server."""
    boot: str
    """Number of the server's start."""
    window_seconds: float
    """Length of a window."""
    samples: int
    """Samples of a window."""
    windows: tuple[Window, ...]
    """The windows."""


def waited_ratio(received: float, waited: float) -> float | None:
    """The wait of a job beside the work that was done for it.

    Args:
        received: Device time that the job received.
        waited: Device time that others received while the job had requests queued, in the same unit.

    Returns:
        The time waited over the time received; None where the job received none.
    """
    return waited / received if received > 0 else None


def measured_slowdown(received: float, waited: float) -> float | None:
    """The slowdown of a job as its store knows it.

    Args:
        received: Device time that the job received.
        waited: Device time that others received while the job had requests queued, in the same unit.

    Returns:
        The time received and waited over the time received, 1 for a job that nobody slows; None where the job received
        none.
    """
    ratio = waited_ratio(received, waited)
    return None if ratio is None else 1.0 + ratio
