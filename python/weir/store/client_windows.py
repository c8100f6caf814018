"""The windows in which programs count their operations on a store, as the files in the folders of users tell them.

The format of these files, and the check of who may use them, are of `crates/windows`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from weir import _core
from weir.store import window_folders
from weir.store.errors import StoreError

WINDOW_SECONDS = 1.0
"""Length of a window where cluster.toml names none."""
_RING_WINDOWS = 32
"""Windows of a file, as in `crates/windows`: the next one may take the place of the oldest already."""
_PROBLEMS_MAX = 16
"""Most problems that are told at a time."""
_GRACE_SECONDS = 0.11
"""Time after the end of a window until it is told, a little more than that of `crates/windows`."""


@dataclass(frozen=True, slots=True)
class ClientLine:
    """The operations of a job on a device that ended in a window, as its programs on one host counted them."""

    window: int
    """Number of the window since 1970."""
    job: str
    """Name of the job."""
    uid: int
    """Number of the job's user."""
    device: str
    """Target as `SERVER.INDEX`, or the metadata of a server as `SERVER.metadata`."""
    reads: int
    """Reads."""
    writes: int
    """Writes."""
    read_bytes: int
    """Bytes read."""
    written_bytes: int
    """Bytes written."""
    stats: int
    """Requests for attributes, layouts and links."""
    opens: int
    """Opens, also those that make a file."""
    closes: int
    """Closes."""
    others: int
    """Other metadata operations: changes and listings."""
    read_seconds: float
    """Sum of the times of the reads, from the begin of each request to its reply."""
    write_seconds: float
    """The same of the writes."""
    metadata_seconds: float
    """The same of the metadata operations."""


@dataclass(frozen=True, slots=True)
class ClientWindows:
    """Windows that have ended, of all users whose windows this process may read."""

    lines: tuple[ClientLine, ...]
    """The operations in them."""
    first: int
    """Number of the first window that could be told: earlier ones have gone, or were left out."""
    last: int
    """Number of the last window that has ended."""
    left_out: int
    """Operations that were not counted since the files were made: a user had too many jobs and devices at once."""
    problems: tuple[str, ...]
    """Files that were not used, each with the reason."""


def look(cluster: Mapping[str, object], after: int, *, window_seconds: float = 0.0) -> ClientWindows:
    """Read the windows of a store's programs on this host: those of this user, for the superuser those of all users.

    Args:
        cluster: The document of the store's cluster.json.
        after: Number of a window; those up to it are left out.
        window_seconds: Length of a window; by default the one in the document.

    Returns:
        The windows that have ended.

    Raises:
        StoreError: The document names no server.
    """
    store = _first_address(cluster)
    length = window_seconds or length_of(cluster)
    lines: list[ClientLine] = []
    now, left_out = time.time(), 0
    ended: list[int] = []
    folders, incomplete = window_folders.readable()
    problems = [] if incomplete is None else [incomplete]
    for folder, uid in folders:
        try:
            found = _core.client_windows(
                folder, window_seconds=length, uid=uid, store=store, after=after, now_seconds=now
            )
        except ValueError as error:
            problems.append(str(error))
            continue
        if found is not None:
            lines += [ClientLine(**line) for line in found[0]]
            ended.append(found[1])
            left_out += found[2]
    # Where no program has counted yet, the clock alone tells which windows have ended, with all of them empty.
    last = min(ended, default=max(after, int((now - _GRACE_SECONDS) / length) - 1))
    first = max(after + 1, int(now / length) + 2 - _RING_WINDOWS)
    if len(problems) > _PROBLEMS_MAX:
        problems[_PROBLEMS_MAX:] = ["further files of windows are not used either"]
    return ClientWindows(tuple(lines), first, last, left_out, tuple(problems))


def length_of(cluster: Mapping[str, object]) -> float:
    """The length of a store's windows.

    Args:
        cluster: The document of the store's cluster.json.

    Returns:
        Seconds.
    """
    length = cluster.get("window_seconds")
    return float(length) if isinstance(length, int | float) else WINDOW_SECONDS


def _first_address(cluster: Mapping[str, object]) -> str:
    """The address that names the store, as clients take it from cluster.json."""
    servers = cluster.get("servers")
    try:
        assert isinstance(servers, list)
        return str(min(servers, key=lambda server: int(server["server"]))["tcp"])
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise StoreError("cluster.json names no server", hint="is the store up? see `weir status`") from error
