"""An allocator's view of a Lustre file system: the server, space, load and speed of each target.

The view comes from the document of `weir stats subscribe`, or from the text of `lfs df` alone, which knows only space.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from weir.lustre.collector import KIND
from weir.lustre.devices import inactive, parse_lctl_dl, servers_of
from weir.lustre.message import VERSION, RejectedError, Statistics, from_document
from weir.lustre.space import file_system, parse_lfs_df, target_index

HORIZON_SECONDS = 300.0
"""Assumed duration of the present traffic."""
TARGET_BYTES_PER_SECOND = 1e9
"""Speed of an array of disks, where a site names no other."""


class UnusableError(ValueError):
    """A document or text in which no file system can be seen."""


@dataclass(frozen=True, slots=True)
class Target:
    """One OST that can take stripes."""

    index: int
    """OST index of the target, as `lfs setstripe -o` takes it."""
    name: str
    server: str
    """Name or network address of the target's OSS; the target's own name where no OSS is known."""
    total_bytes: int
    available_bytes: int
    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    requests_in_service: float | None = None
    """Mean number of requests in service at once."""
    speed: float | None = None
    """Bytes for each second of service time, as a part of the median of all targets, at most 1; None where it is not
    known."""
    degraded: bool = False
    """Whether the back end reports a missing disk."""

    @property
    def fill(self) -> float:
        """Part of the space that files cannot have, from 0 to 1 (the paper's cost of an OST, algorithm 1)."""
        return 1.0 - self.available_bytes / self.total_bytes if self.total_bytes else 1.0

    @property
    def load_bytes_per_second(self) -> float | None:
        """Bytes read and written in a second; None where neither is known."""
        if self.read_bytes_per_second is None and self.write_bytes_per_second is None:
            return None
        return (self.read_bytes_per_second or 0.0) + (self.write_bytes_per_second or 0.0)


@dataclass(frozen=True, slots=True)
class Server:
    """Load of an OSS; None where a value is not known."""

    cpu_fraction: float | None
    memory_fraction: float | None
    network_bytes_per_second: float | None
    age_seconds: float | None


class Inputs(TypedDict):
    """An allocator's input about targets and servers: keyword arguments of `weir._core.Allocator.allocate`."""

    targets: list[str]
    servers: list[str]
    speeds: list[float]
    loads_bytes: list[float]
    free_bytes: list[int]
    server_speeds: dict[str, float]
    server_loads_bytes: dict[str, float]


@dataclass(frozen=True, slots=True)
class View:
    """A file system as an allocator sees it."""

    file_system: str
    time_seconds: float | None
    """Unix time of the view; None where the text does not tell it."""
    targets: tuple[Target, ...]
    """Targets that can take stripes, by index."""
    servers: Mapping[str, Server]
    """Load of each server, by its name."""
    left_out: Mapping[str, str]
    """Targets that must not be used, with the reason."""
    waits_for: str | None = None
    """Reason why an allocation should wait; None where an allocation may run."""

    def inputs(
        self,
        *,
        horizon_seconds: float = HORIZON_SECONDS,
        expected_bytes_per_second: float = TARGET_BYTES_PER_SECOND,
    ) -> Inputs:
        """Make an allocator's input for files that will be written soon.

        LNet's bandwidth is not known, so a server's network does not count as busy.

        Args:
            horizon_seconds: Time in which the files will be written.
            expected_bytes_per_second: Speed of a healthy target; all speeds are in proportion to it.

        Returns:
            The input, in the order of `targets`.
        """
        from weir._core import speeds_and_loads

        servers = [target.server for target in self.targets]
        speeds, loads_bytes, server_speeds, server_loads_bytes = speeds_and_loads(
            servers,
            expected_bytes_per_second=expected_bytes_per_second,
            health=[target.speed for target in self.targets],
            traffic_bytes_per_second=[target.load_bytes_per_second or 0.0 for target in self.targets],
            total_bytes=[target.total_bytes for target in self.targets],
            free_bytes=[target.available_bytes for target in self.targets],
            busy={
                name: (server.cpu_fraction, server.memory_fraction or 0.0, 0.0)
                for name, server in self.servers.items()
                if server.cpu_fraction is not None
            },
            horizon_seconds=horizon_seconds,
        )
        return Inputs(
            targets=[str(target.index) for target in self.targets],
            servers=servers,
            speeds=speeds,
            loads_bytes=loads_bytes,
            free_bytes=[target.available_bytes for target in self.targets],
            server_speeds=server_speeds,
            server_loads_bytes=server_loads_bytes,
        )


def view_of_lfs_df(text: str, source: str, *, devices: str = "", of: str | None = None) -> View:
    """Make a view of the text of `lfs df`.

    Args:
        text: Output of `lfs df`.
        source: Origin of the text, for errors.
        devices: Output of `lctl dl -t`, which names each target's server; empty where it is not there.
        of: Name of the file system; None is the only one in the text.

    Returns:
        The view, without load and speed.

    Raises:
        MalformedError: A line is not from these commands.
        UnusableError: The text has no such file system, or has several and `of` names none.
    """
    found = parse_lctl_dl(devices, "lctl dl -t")
    servers, down = servers_of(found), inactive(found)
    spaces = parse_lfs_df(text, source)
    name = _chosen({file_system(each.target) for each in spaces}, of, source)
    targets, left_out = [], {}
    for space in spaces:
        if file_system(space.target) != name:
            continue
        if not space.active or space.target in down:
            left_out[space.target] = "it is inactive, or takes no new files"
        else:
            targets.append(
                Target(
                    space.index,
                    space.target,
                    servers.get(space.target, space.target),
                    space.total_bytes,
                    space.available_bytes,
                    degraded=space.degraded,
                )
            )
    targets.sort(key=lambda each: each.index)
    return View(name, None, tuple(targets), {}, left_out)


def view_of_document(document: object, source: str, *, of: str | None = None) -> View:
    """Make a view of a document of `weir stats subscribe`.

    Silent servers and their targets are left out, as are targets whose space is not known. If two servers report a
    target (it moved to the other server of a pair), the younger reading counts.

    Args:
        document: The document, as `json.loads` gives it.
        source: Origin of the document, for errors.
        of: Name of the file system; None is the only one in the document.

    Raises:
        UnusableError: The value is no such document, or has no such file system, or has several and `of` names none.
    """
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UnusableError(f"{source}: no document of `weir stats subscribe`")
    if document.get("version") != VERSION:
        raise UnusableError(f"{source}: version {document.get('version')!r}; this program reads version {VERSION}")
    try:
        heard = sorted((_heard(each) for each in document["servers"]), key=lambda each: -each[1])
        silent = [
            (str(each["server"]), _finite(each["heard_seconds"]), [str(target) for target in each["targets"]])
            for each in document["silent"]
        ]
        speeds = {str(name): _finite(speed) for name, speed in document["speeds"].items()}
        time_seconds = _finite(document["time_seconds"])
        waits_for = document["own"]["waits_for"]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise UnusableError(f"{source}: no document of `weir stats subscribe`: {error}") from None
    name = _chosen({file_system(each.target) for said, _ in heard for each in said.targets}, of, source)
    targets: dict[str, Target] = {}
    left_out: dict[str, str] = {}
    for server, seconds, its in silent:
        for target in its:
            if file_system(target) == name:
                left_out[target] = f"its server {server} was last heard {seconds:.0f} s ago"
    for said, _ in heard:
        _see(said, name, speeds, targets, left_out)
    return View(
        name,
        time_seconds,
        tuple(sorted(targets.values(), key=lambda each: each.index)),
        {said.server: _server(said, age) for said, age in heard},
        left_out,
        None if waits_for is None else str(waits_for),
    )


def _heard(entry: Any) -> tuple[Statistics, float]:
    message = from_document(entry["statistics"])
    if not isinstance(message, Statistics):
        raise RejectedError("a heartbeat where statistics should be")
    return message, _finite(entry["age_seconds"])


def _finite(value: Any) -> float:
    number = float(value)
    if not 0.0 <= number < math.inf:
        raise ValueError(f"{value!r} is no number from 0")
    return number


def _see(
    said: Statistics, name: str, speeds: Mapping[str, float], targets: dict[str, Target], left_out: dict[str, str]
) -> None:
    """Add a server's targets; the servers come in the order of their readings, the oldest first."""
    for each in said.targets:
        index = target_index(each.target)
        if index is None or file_system(each.target) != name:
            continue
        if not each.total_bytes or each.available_bytes is None:
            if each.target not in targets:
                left_out[each.target] = f"its server {said.server} does not tell its space"
            continue
        rates = each.rates
        left_out.pop(each.target, None)
        targets[each.target] = Target(
            index,
            each.target,
            said.server,
            each.total_bytes,
            min(each.available_bytes, each.total_bytes),
            rates.read_bytes_per_second if rates else None,
            rates.write_bytes_per_second if rates else None,
            rates.service_seconds_per_second if rates else None,
            speeds.get(each.target),
            each.degraded,
        )


def _server(said: Statistics, age_seconds: float) -> Server:
    network = said.network
    moved = network.sent_bytes_per_second + network.received_bytes_per_second if network else None
    return Server(said.cpu_fraction, said.memory_fraction, moved, age_seconds)


def _chosen(names: set[str], of: str | None, source: str) -> str:
    known = sorted(name for name in names if name)
    if of is not None and of in known:
        return of
    listed = ", ".join(known) or "none"
    if of is not None:
        raise UnusableError(f"{source}: no file system {of!r} there, but {listed}")
    if len(known) != 1:
        raise UnusableError(f"{source}: one file system has to be named; there are: {listed}")
    return known[0]
