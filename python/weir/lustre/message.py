"""The messages from an OSS to the subscriber: versioned JSON, checked field by field."""

import json
import math
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

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
_LENGTHS_MAX = {"targets": TARGETS_MAX, "jobs": JOBS_MAX, "unread": TARGETS_MAX}


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
    if not isinstance(kind, str) or kind not in _KINDS:
        raise RejectedError(f"kind {kind!r}; known are {', '.join(_KINDS)}")
    message: Message = _made(_KINDS[kind], document, kind)
    if not message.server:
        raise RejectedError("server: empty")
    return message


_hints = cache(get_type_hints)


def _made(kind: type, value: object, name: str) -> Any:
    """A dataclass of a JSON object, which may have further keys."""
    if not isinstance(value, dict):
        raise RejectedError(f"{name}: no JSON object")
    return kind(**{each: _value(hint, value.get(each), each) for each, hint in _hints(kind).items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    """The value of a field of this type; a number counts something, so it is from 0."""
    if isinstance(hint, UnionType):
        return None if value is None else _value(get_args(hint)[0], value, name)
    if is_dataclass(hint):
        return _made(hint, value, name)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        length_max = _LENGTHS_MAX[name]
        if not isinstance(value, list) or len(value) > length_max:
            raise RejectedError(f"{name}: no list of at most {length_max}")
        return tuple(_value(get_args(hint)[0], each, name) for each in value)
    if hint is str:
        if not isinstance(value, str) or len(value) > NAME_CHARACTERS_MAX:
            raise RejectedError(f"{name}: no text of at most {NAME_CHARACTERS_MAX} characters")
        return value
    if hint is bool:
        if not isinstance(value, bool):
            raise RejectedError(f"{name}: {value!r} is not true or false")
        return value
    kinds, limit, words = (int | float, math.inf, "number") if hint is float else (int, 1 << 64, "whole number")
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < limit:
        raise RejectedError(f"{name}: {str(value)[:40]!r} is no {words} from 0")
    return hint(value)
