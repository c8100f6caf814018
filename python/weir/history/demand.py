"""The demand of jobs, as a history tells it: streams of requests, in which what others caused is no part.

A job's programs have a number of requests under way, at most, and pause between them. The servers tell the greatest
number at a device, and Little's law the mean number at all devices: the time between arrivals and ends over that of the
window. What is missing to the greatest number are pauses. The work of a window is done when its turn comes, however
long that takes, so a job that is served faster ends earlier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir.history.reading import Cell
from weir.simulation.workload import Kind, Steps, Work
from weir.store.observations import METADATA

ROUNDS = (1, 2, 4, 8)
"""Bursts into which a stream's requests of a window may be cut. A record does not tell how many there were: requests
one after the other get through a device together, and requests between pauses do not."""
UNDER_WAY_TOLD_MAX = 64
"""Bound of `crates/core/src/accounts/observed.rs`."""
STREAMS_MAX = 1024
"""Most streams of a job."""
_SMOOTHING = 5
"""Windows over which the number of requests under way is a mean: a long request counts as a whole where it ends."""
_SLACK = 0.2
"""Requests under way above a whole number that are taken for noise."""


@dataclass(frozen=True, slots=True)
class Place:
    """A device of the replay.

    Attributes:
        layout: Layout of a file on the target; None for a metadata service.
        home: Number of its server.
    """

    layout: str | None
    home: int


@dataclass(frozen=True, slots=True)
class _Window:
    """The work of a job in a bucket."""

    begin: float
    """Seconds from the begin of the replay."""
    seconds: float
    cells: tuple[Cell, ...]

    @property
    def request_seconds(self) -> float:
        """Time between arrivals and ends, summed over requests."""
        return sum(cell.request_seconds for cell in self.cells)


def work_of(cells: Sequence[Cell], places: dict[str, Place], begin: int, rounds: int) -> Work:
    """Make the work of a job from what was recorded of it.

    Args:
        cells: Its work in the order of time.
        places: The devices of the replay by name; work at others is left out.
        begin: Begin of the replay, in Unix milliseconds.
        rounds: Most bursts of each stream in a window, with pauses between.

    Returns:
        The work, whose files lie on the devices that served it.
    """
    windows = _windows(cells, places, begin)
    streams = _streams(windows)
    targets = sorted({cell.device for window in windows for cell in window.cells})
    parts: list[_Columns] = []
    reached = asked = paused = 0.0
    for number, window in enumerate(windows):
        end = window.begin + window.seconds
        asked += window.request_seconds
        # A request counts as a whole in the window of its end: what a window has too much, earlier ones had too little.
        pause = max(0.0, end - asked / streams - paused)
        idle = min(pause, max(0.0, window.begin - reached))
        parts.append(_columns(window, targets, (streams, rounds, number), (idle, pause - idle)))
        paused, reached = paused + pause, end
    return _assembled(parts, streams, targets, places)


def _streams(windows: Sequence[_Window]) -> int:
    """The greatest number of requests under way.

    At one device it is told. Requests that a program sends to several devices at once add up there, and those that it
    sends to one after the other do not: Little's law tells these apart.
    """
    means = _smoothed([window.request_seconds / window.seconds for window in windows])
    mean = math.ceil(max(means, default=0.0) - _SLACK)
    at_a_device = max((cell.under_way for window in windows for cell in window.cells), default=0)
    # A program opens a file before it reads: requests to a metadata service come one after the other with those.
    together = max((_at_targets(window) for window in windows), default=0) or at_a_device
    is_known = 0 < at_a_device < UNDER_WAY_TOLD_MAX
    most = max(at_a_device, min(mean, together)) if is_known else max(at_a_device, mean)
    return min(max(1, most), STREAMS_MAX)


def _at_targets(window: _Window) -> int:
    return sum(cell.under_way for cell in window.cells if not cell.device.endswith(METADATA))


def _windows(cells: Sequence[Cell], places: dict[str, Place], begin: int) -> list[_Window]:
    by_begin: dict[int, list[Cell]] = {}
    for cell in cells:
        if cell.device in places and _requests(cell):
            by_begin.setdefault(cell.begin, []).append(cell)
    return [
        _Window((at - begin) / 1000, max(cell.width for cell in of_window) / 1000, tuple(of_window))
        for at, of_window in sorted(by_begin.items())
    ]


def _requests(cell: Cell) -> int:
    return cell.metadata if cell.device.endswith(METADATA) else cell.reads + cell.writes


def _smoothed(values: Sequence[float]) -> list[float]:
    half = _SMOOTHING // 2
    return [
        sum(part) / len(part)
        for place in range(len(values))
        for part in (values[max(0, place - half) : place + half + 1],)
    ]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Steps of one window as columns."""

    stream: list[int]
    kind: list[int]
    device: list[int]
    after: list[float]
    bytes: list[int]
    request: list[int]


def _columns(
    window: _Window, devices: list[str], division: tuple[int, int, int], times: tuple[float, float]
) -> _Columns:
    """Divide the work of a window among streams and rounds.

    Args:
        devices: Names of devices; their places are their numbers.
        division: Streams, most rounds, and the stream that comes first, so that no stream gets ahead of the others.
        times: Idle time before the window, for which all streams wait for each other, and pauses in it.
    """
    (streams, rounds_max, first), (idle, pause) = division, times
    loads = [load for cell in window.cells for load in _loads(cell, devices.index(cell.device))]
    most = max(count for _, _, count, _ in loads)
    rounds = min(max(1, round(most / streams)), rounds_max)
    found = _Columns([], [], [], [], [], [])
    slots = streams * rounds
    for stream in range(streams):
        if idle and streams > 1:
            _put(found, stream, (Kind.BARRIER, 0, 0, 0), 0.0)
        for turn in range(rounds):
            slot = turn * streams + (stream + first) % streams
            after = pause / rounds + (idle if turn == 0 else 0.0)
            begun = len(found.stream)
            for place in range(len(loads)):
                kind, device, count, size = loads[(place + stream) % len(loads)]
                # The rounds of all streams together have exactly the requests of the window.
                own = (slot + 1) * count // slots - slot * count // slots
                if own:
                    _put(found, stream, (kind, device, own, size), after if len(found.stream) == begun else 0.0)
            if len(found.stream) == begun:
                _put(found, stream, (Kind.COMPUTE, 0, 0, 0), after)
    return found


def _put(found: _Columns, stream: int, load: tuple[int, int, int, int], after: float) -> None:
    kind, device, count, size = load
    found.stream.append(stream)
    found.kind.append(kind)
    found.device.append(device)
    found.after.append(after)
    found.bytes.append(count if kind == Kind.METADATA else count * size)
    found.request.append(size)


def _loads(cell: Cell, device: int) -> list[tuple[int, int, int, int]]:
    """Kind, device, number and mean bytes of the requests of a cell."""
    if cell.device.endswith(METADATA):
        return [(Kind.METADATA, device, cell.metadata, 0)]
    ways = ((Kind.READ, cell.reads, cell.read_bytes), (Kind.WRITE, cell.writes, cell.written_bytes))
    return [(kind, device, count, max(1, round(total / count))) for kind, count, total in ways if count]


def _assembled(parts: list[_Columns], streams: int, targets: list[str], places: dict[str, Place]) -> Work:
    """Put the windows of a job together; each stream has a file of its own at each device."""
    stream = np.array([each for part in parts for each in part.stream], dtype=np.uint32)
    device = np.array([each for part in parts for each in part.device], dtype=np.uint32)
    count = np.array([each for part in parts for each in part.bytes], dtype=np.uint64)
    kind = np.array([each for part in parts for each in part.kind], dtype=np.uint8)
    steps = Steps.of(
        len(stream),
        stream=stream,
        kind=kind,
        after_seconds=np.array([each for part in parts for each in part.after]),
        file=stream * np.uint32(max(len(targets), 1)) + device,
        bytes=count,
        request_bytes=np.array([each for part in parts for each in part.request], dtype=np.uint64),
        depth=1,
    )
    is_transfer = (kind == Kind.READ) | (kind == Kind.WRITE)
    sizes = np.zeros(streams * max(len(targets), 1), dtype=np.uint64)
    np.maximum.at(sizes, steps.file[is_transfer], count[is_transfer])
    layouts = tuple(places[name].layout for _ in range(streams) for name in targets)
    homes = tuple(places[name].home for _ in range(streams) for name in targets)
    return Work(1, np.zeros(streams, np.uint32), sizes, steps, layouts, homes)
