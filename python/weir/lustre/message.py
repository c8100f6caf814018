"""The messages from an OSS to the subscriber: versioned JSON, checked field by field."""

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

VERSION = 1
"""Version of the messages; a message of another version is refused."""
TOPIC = b"weir-statistics"
"""First frame of every message; the second frame is the JSON."""
MESSAGE_BYTES_MAX = 4 << 20
"""Longest message; a server of 36 targets with 16 jobs each sends about 100 KB."""
TARGETS_MAX = 1024
"""Most targets of one server."""
JOBS_MAX = 256
"""Most jobs of one target."""
NAME_CHARACTERS_MAX = 1024
"""Longest name; a job's name in Lustre has at most 31 characters (2.15) or 255 bytes (2.16)."""


class RejectedError(ValueError):
    """A refused message: it is no message of this version, or there is no room for it."""


@dataclass(frozen=True, slots=True)
class DiskIo:
    """Disk I/Os of a target, from its histograms. In the means each I/O counts as the upper bound of its bucket."""

    ios_per_second: float
    bytes_mean: float | None
    milliseconds_mean: float | None
    in_flight_mean: float | None


@dataclass(frozen=True, slots=True)
class JobRates:
    """Rates of one job on one target."""

    job: str
    read_bytes_per_second: float
    write_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class NetworkRates:
    """Rates of a server's LNet."""

    sent_bytes_per_second: float
    received_bytes_per_second: float
    dropped_messages_per_second: float


@dataclass(frozen=True, slots=True)
class TargetRates:
    """Rates of one target; None where a rate is not known."""

    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    reads_per_second: float | None = None
    writes_per_second: float | None = None
    service_seconds_per_second: float | None = None
    """Seconds that requests were in service, added up over all requests: the mean number of requests at once."""
    disk: DiskIo | None = None
    jobs: tuple[JobRates, ...] = ()
    """The jobs that moved most bytes, the greatest first."""


@dataclass(frozen=True, slots=True)
class TargetStatistics:
    """One target of a server; None where a value is not known."""

    target: str
    total_bytes: int | None
    free_bytes: int | None
    available_bytes: int | None
    """Bytes that files can still have: the free space without the reserve."""
    degraded: bool
    rates: TargetRates | None
    """Rates; None in a server's first message, and in the first one after the target moved to the server."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life between two messages."""

    server: str
    instance: str
    """Identity of the publisher's start, another one for each start."""
    sequence: int
    """Number of the message among those of the instance, from 0; heartbeats count."""
    interval_seconds: float
    """Time between two statistics."""
    heartbeat_seconds: float
    """Longest time between two messages of any kind."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The state of a server and its targets, as the server tells it."""

    server: str
    instance: str
    sequence: int
    interval_seconds: float
    heartbeat_seconds: float
    time_seconds: float
    """Unix time of the reading, by the server's clock."""
    age_seconds: float
    """Age of the reading when the message was sent: a new subscriber gets the last reading again."""
    period_seconds: float | None
    """Time over which the rates are taken; None in the first message."""
    load_average: float | None
    """Load average over one minute."""
    processors: int | None
    cpu_fraction: float | None
    memory_total_bytes: int | None
    memory_fraction: float | None
    network: NetworkRates | None
    targets: tuple[TargetStatistics, ...]
    unread: tuple[str, ...] = field(default=())
    """Files that could not be read or understood, with the reason."""


Message = Statistics | Heartbeat
_KINDS: dict[str, type[Statistics] | type[Heartbeat]] = {"statistics": Statistics, "heartbeat": Heartbeat}


def encode(message: Message) -> bytes:
    """Encode a message.

    Returns:
        The JSON of the message, in UTF-8.
    """
    kind = next(name for name, each in _KINDS.items() if isinstance(message, each))
    return json.dumps({"version": VERSION, "kind": kind, **asdict(message)}, separators=(",", ":")).encode()


def decode(content: bytes) -> Message:
    """Decode a message.

    Args:
        content: JSON of the message.

    Raises:
        RejectedError: The content is too long, is no JSON, or has a wrong field. The error names the field.
    """
    if len(content) > MESSAGE_BYTES_MAX:
        raise RejectedError(f"{len(content)} bytes, of at most {MESSAGE_BYTES_MAX}")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"no JSON: {error}") from None
    return from_document(document)


def from_document(document: object) -> Message:
    """Make a message of a JSON document.

    Args:
        document: The document, as `json.loads` gives it.

    Raises:
        RejectedError: The document has another version or kind, or a wrong field. The error names the field.
    """
    if not isinstance(document, dict):
        raise RejectedError("no JSON object")
    if document.get("version") != VERSION:
        raise RejectedError(f"version {document.get('version')!r}; this program reads version {VERSION}")
    kind = document.get("kind")
    if kind == "heartbeat":
        return Heartbeat(**_envelope(document))
    if kind == "statistics":
        return _statistics(document)
    raise RejectedError(f"kind {kind!r}; known are {', '.join(_KINDS)}")


def _envelope(document: dict[str, Any]) -> dict[str, Any]:
    server = _text(document, "server")
    if not server:
        raise RejectedError("server: empty")
    return {
        "server": server,
        "instance": _text(document, "instance"),
        "sequence": _integer(document, "sequence"),
        "interval_seconds": _number(document, "interval_seconds"),
        "heartbeat_seconds": _number(document, "heartbeat_seconds"),
    }


def _statistics(document: dict[str, Any]) -> Statistics:
    network = document.get("network")
    return Statistics(
        **_envelope(document),
        time_seconds=_number(document, "time_seconds"),
        age_seconds=_number(document, "age_seconds"),
        period_seconds=_number_or_none(document, "period_seconds"),
        load_average=_number_or_none(document, "load_average"),
        processors=_integer_or_none(document, "processors"),
        cpu_fraction=_number_or_none(document, "cpu_fraction"),
        memory_total_bytes=_integer_or_none(document, "memory_total_bytes"),
        memory_fraction=_number_or_none(document, "memory_fraction"),
        network=None if network is None else NetworkRates(**_numbers(_object(network, "network"), NetworkRates)),
        targets=tuple(_target(each) for each in _list(document, "targets", TARGETS_MAX)),
        unread=tuple(str(each)[:NAME_CHARACTERS_MAX] for each in _list(document, "unread", TARGETS_MAX)),
    )


def _target(value: object) -> TargetStatistics:
    document = _object(value, "targets")
    found = document.get("rates")
    degraded = document.get("degraded")
    if not isinstance(degraded, bool):
        raise RejectedError(f"degraded: {degraded!r} is not true or false")
    return TargetStatistics(
        target=_text(document, "target"),
        total_bytes=_integer_or_none(document, "total_bytes"),
        free_bytes=_integer_or_none(document, "free_bytes"),
        available_bytes=_integer_or_none(document, "available_bytes"),
        degraded=degraded,
        rates=None if found is None else _rates(_object(found, "rates")),
    )


def _rates(document: dict[str, Any]) -> TargetRates:
    disk = document.get("disk")
    jobs = [_object(each, "jobs") for each in _list(document, "jobs", JOBS_MAX)]
    return TargetRates(
        read_bytes_per_second=_number_or_none(document, "read_bytes_per_second"),
        write_bytes_per_second=_number_or_none(document, "write_bytes_per_second"),
        reads_per_second=_number_or_none(document, "reads_per_second"),
        writes_per_second=_number_or_none(document, "writes_per_second"),
        service_seconds_per_second=_number_or_none(document, "service_seconds_per_second"),
        disk=None if disk is None else _disk(_object(disk, "disk")),
        jobs=tuple(
            JobRates(_text(job, "job"), _number(job, "read_bytes_per_second"), _number(job, "write_bytes_per_second"))
            for job in jobs
        ),
    )


def _disk(document: dict[str, Any]) -> DiskIo:
    return DiskIo(
        _number(document, "ios_per_second"),
        _number_or_none(document, "bytes_mean"),
        _number_or_none(document, "milliseconds_mean"),
        _number_or_none(document, "in_flight_mean"),
    )


def _numbers(document: dict[str, Any], of: type[NetworkRates]) -> dict[str, float]:
    return {each.name: _number(document, each.name) for each in fields(of)}


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RejectedError(f"{name}: no JSON object")
    return value


def _list(document: dict[str, Any], name: str, length_max: int) -> list[Any]:
    value = document.get(name)
    if not isinstance(value, list) or len(value) > length_max:
        raise RejectedError(f"{name}: no list of at most {length_max}")
    return value


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or len(value) > NAME_CHARACTERS_MAX:
        raise RejectedError(f"{name}: no text of at most {NAME_CHARACTERS_MAX} characters")
    return value


def _number(document: dict[str, Any], name: str) -> float:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise RejectedError(f"{name}: {str(value)[:40]!r} is no number from 0")
    return float(value)


def _number_or_none(document: dict[str, Any], name: str) -> float | None:
    return None if document.get(name) is None else _number(document, name)


def _integer(document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise RejectedError(f"{name}: {str(value)[:40]!r} is no whole number from 0")
    return value


def _integer_or_none(document: dict[str, Any], name: str) -> int | None:
    return None if document.get(name) is None else _integer(document, name)
