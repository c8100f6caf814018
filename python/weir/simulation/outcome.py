"""The answer of a simulated run: the jobs, targets and servers, as the engine accounts for them.

The fields are those of `Outcome` in `crates/simulator/src/outcome.rs`. Times are virtual seconds since the run's begin.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from weir.simulation.errors import SimulationError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Series = NDArray[numpy.float32]

Kind = TypeVar("Kind")

SECONDS_MIN = 1e-12
"""Shortest time that something is divided by."""
NUMBER_MAX = 1e19
"""Greatest number of a run: more than 2**63, the most bytes that a file can have."""


@dataclass(frozen=True, slots=True, eq=False)
class JobOutcome:
    """A job's part of a run."""

    started_seconds: float
    """Begin of its first step."""
    ended_seconds: float
    """End of its last step; the end of the run, if steps are left."""
    is_complete: bool
    """Whether all its steps were done."""
    read_bytes: int
    """Bytes read."""
    written_bytes: int
    """Bytes written."""
    reading_seconds: float
    """Time in which any of its streams was in a read."""
    writing_seconds: float
    """Time in which any of its streams was in a write."""
    busy_seconds: float
    """Time in which any of its streams was in any step but a pause or a barrier."""
    device_seconds: float
    """Device time that targets spent on it."""
    owed_seconds: float
    """Device time that the policy owed it while it wanted time."""
    refused_files: int
    """Files that could not be made, because no target was left for them."""
    refused_bytes: int
    """Bytes of writes that found no room."""
    device_series: "Series"
    """Device time received in each interval of the series, in seconds; shape (intervals,), float32."""

    @property
    def read_bytes_per_second(self) -> float | None:
        """Bytes read a second, over the time in reads; None where nothing was read."""
        return _rate(self.read_bytes, self.reading_seconds)

    @property
    def write_bytes_per_second(self) -> float | None:
        """Bytes written a second, over the time in writes; None where nothing was written."""
        return _rate(self.written_bytes, self.writing_seconds)

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes moved a second, over the time in any I/O, metadata included; None where nothing was moved."""
        return _rate(self.read_bytes + self.written_bytes, self.busy_seconds)


@dataclass(frozen=True, slots=True, eq=False)
class TargetOutcome:
    """A target's part of a run."""

    server: int
    """Number of its server."""
    index: int
    """Its number on that server."""
    read_bytes: int
    """Bytes read from it."""
    written_bytes: int
    """Bytes written to it."""
    used_bytes: int
    """Bytes in use at the end."""
    stripes: int
    """Stripes of files that it was given."""
    busy_seconds: float
    """Time in which it worked."""
    busy_series: "Series"
    """Part of each interval of the series in which it worked; shape (intervals,), float32."""

    @property
    def name(self) -> str:
        """Its name, `SERVER.INDEX`, as stores and layouts spell it."""
        return f"{self.server}.{self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class ServerOutcome:
    """A server's part of a run."""

    received_bytes: int
    """Bytes that came to it."""
    sent_bytes: int
    """Bytes that it sent."""
    link_series: "Series"
    """Part of its link's rate in the busier direction that was used in each interval; shape (intervals,), float32."""
    processor_series: "Series"
    """Part of its processor that was used in each interval; shape (intervals,), float32; empty without a bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A simulated run."""

    seconds: float
    """Moment of the last event."""
    is_complete: bool
    """Whether all work was done."""
    is_interrupted: bool
    """Whether the user ended the run before its end."""
    events: int
    """Events that the engine took."""
    sample_seconds: float
    """Interval of the series, in seconds; 0 where none was kept."""
    target_cost: float
    """Greatest use of a target's capacity by the workload, divided by the mean use: Tarazu's equation 4; 1 where
    nothing was written."""
    jobs: tuple[JobOutcome, ...]
    """The jobs, in the order of the workload."""
    targets: tuple[TargetOutcome, ...]
    """The targets, server by server."""
    servers: tuple[ServerOutcome, ...]
    """The servers, by their numbers."""
    observed: "Observed | None" = None
    """The windows of the store and the steps of one job, where a run keeps them."""

    def _repr_html_(self) -> str:
        """The jobs of the run as a table of HTML."""
        from weir.simulation.run_table import outcome_html

        return outcome_html(self)


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of a device, reduced over the samples of a window."""

    sum: float
    """Sum over the samples."""
    mean: float
    """Mean over the samples."""
    deviation: float
    """Standard deviation of the samples."""


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """The wait of the observed job for another one."""

    job: int
    """Place of the other job in the workload."""
    seconds: float
    """Device time that it received while the observed job had requests queued."""


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """A device in a window, and the work of the observed job there."""

    device: str
    """`SERVER.INDEX` for a target, `SERVER.metadata` for a metadata service, as stores name them."""
    counters: dict[str, Counter]
    """The counters by their names in `weir.store.observations.ObservedDevice`."""
    reads: int
    """Reads of the job that were completed."""
    writes: int
    """Writes of the job that were completed."""
    read_bytes: int
    """Bytes of these reads."""
    written_bytes: int
    """Bytes of these writes."""
    request_seconds: float
    """Time between the arrivals of the job's completed requests and their ends, metadata operations among them."""
    device_seconds: float
    """Device time that the job received."""
    waited_for: tuple[WaitedFor, ...]
    """Jobs that the job waited for."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step of the observed job."""

    step: int
    """Place of the step in the workload."""
    begin_seconds: float
    """Its begin."""
    seconds: float
    """Its length."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The windows of a run and the steps of one job."""

    windows: tuple[tuple[DeviceWindow, ...], ...]
    """The devices in each window; the first window begins with the run."""
    steps: tuple[StepTime, ...]
    """Steps of the job that ended, in the order of their ends."""


def decode(text: str) -> Outcome:
    """Read the engine's answer.

    Args:
        text: The answer, as JSON.

    Raises:
        SimulationError: The text is no answer of this version's engine.
    """
    try:
        document = json.loads(text)
        parts = {
            "jobs": tuple(part_of(JobOutcome, each) for each in document["jobs"]),
            "targets": tuple(part_of(TargetOutcome, each) for each in document["targets"]),
            "servers": tuple(part_of(ServerOutcome, each) for each in document["servers"]),
            "observed": _observed(document["observed"]) if "observed" in document else None,
        }
        return part_of(Outcome, {**document, **parts})
    except (ValueError, KeyError, TypeError) as error:
        raise SimulationError(
            f"the answer of the simulator cannot be read: {error!r}",
            hint="the extension module is of another version than the package: install both again",
        ) from error


def _observed(document: dict[str, Any]) -> Observed:
    windows = (tuple(_device_window(each) for each in window["devices"]) for window in document["windows"])
    return Observed(tuple(windows), tuple(part_of(StepTime, each) for each in document["steps"]))


def _device_window(document: dict[str, Any]) -> DeviceWindow:
    place = "metadata" if document["index"] is None else int(number(document["index"], "index"))
    parts = {
        "device": f"{int(number(document['server'], 'server'))}.{place}",
        "counters": {name: part_of(Counter, each) for name, each in document["counters"].items()},
        "waited_for": tuple(part_of(WaitedFor, each) for each in document["job"]["waited_for"]),
    }
    return part_of(DeviceWindow, {**document["job"], **parts})


def part_of(kind: type[Kind], document: dict[str, Any]) -> Kind:
    """Make one of the dataclasses here of its document.

    Args:
        kind: The dataclass.
        document: Values by the names of the fields; others are passed over.

    Returns:
        The object.

    Raises:
        KeyError: A value without a default is missing.
        TypeError: A value is of another type.
        ValueError: A number is out of bounds, or a series has something else than numbers.
    """
    import numpy

    values = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.default is not dataclasses.MISSING and field.name not in document:
            continue
        value = document[field.name]
        if field.name.endswith("_series"):
            wide = numpy.asarray(value, numpy.float64)
            if wide.ndim != 1 or not (numpy.abs(wide) <= NUMBER_MAX).all():
                raise ValueError(f"{field.name} is no list of numbers of a run")
            value = wide.astype(numpy.float32)
        elif field.type in (int, float):
            value = field.type(number(value, field.name))
        elif field.type is bool and not isinstance(value, bool):
            raise TypeError(f"{field.name} is {value!r}")
        values[field.name] = value
    return kind(**values)


def number(value: Any, name: str) -> float:
    """Check a number of a run.

    Args:
        name: Its name, for errors.

    Raises:
        TypeError: The value is no number.
        ValueError: The number is not from 0 to `NUMBER_MAX`.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    if not 0 <= value <= NUMBER_MAX:
        raise ValueError(f"{name} is {value:g}, and a number of a run is from 0 to {NUMBER_MAX:g}")
    return value


def _rate(count: int, duration: float) -> float | None:
    return count / duration if count and duration > SECONDS_MIN else None
