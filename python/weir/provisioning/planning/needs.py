"""The rates that a job needs, and the part of a system's rates that is left under the job's pattern of calls."""

from collections.abc import Collection
from typing import Literal

import msgspec

from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities

Kind = Literal["read", "write", "metadata"]
KINDS: tuple[Kind, ...] = ("read", "write", "metadata")
IO_FRACTION = 0.05
"""The part of its time that a job may spend in I/O: LuxIO's authors left out jobs below, as storage hardly slows them
(section III-B, case study)."""
IO_SECONDS_MIN = 1.0
"""Time that any job may spend in I/O: nobody waits for a faster store."""
PROCESS_RATE = 2e9
"""The greatest rate of a process in bytes per second, as one core copies: few processes have no use of many servers."""
RATE_MIN = {"read": 1e6, "write": 1e6, "metadata": 10.0}
"""The least rate that a job needs, in bytes or operations per second: below it no system is told from another."""
RATE_MAX = {"read": 1e12, "write": 1e12, "metadata": 1e7}
"""The greatest rate that a job needs: no system of a site is faster."""
SMALL_CALL_BYTES = 8192
"""Bytes of the small calls by which the sensitivity to them is measured."""
SMALL_LEFT = 0.13
"""The part of a rate that small calls leave on one server with an NVMe device, as the simulator expects it."""
REFERENCE_RATES = {"read": 1e9, "write": 1e9, "metadata": 1e4}
"""Rates of one server with one NVMe device, by which reads, writes and metadata operations are weighed."""


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The needed rates of a job; None for a kind of work that it does not do."""

    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    metadata_operations_per_second: float | None = None

    def rate(self, kind: Kind) -> float | None:
        """The needed rate of one kind of work.

        Returns:
            The rate; None where the job does no such work.
        """
        return _rate(self, kind)


def work(identity: Identity, kind: Kind) -> int:
    """The work of one kind that a job does.

    Returns:
        Bytes, or metadata operations that reach the storage.
    """
    if kind == "metadata":
        return max(identity.metadata_operations - identity.local_operations, 0)
    return identity.read_bytes if kind == "read" else identity.written_bytes


def rate(guarantees: Guarantees, kind: Kind) -> float | None:
    """The guaranteed rate of one kind of work.

    Returns:
        The rate; None where it was not measured.
    """
    return _rate(guarantees, kind)


def _rate(of: Needs | Guarantees, kind: Kind) -> float | None:
    if kind == "metadata":
        return of.metadata_operations_per_second
    return of.read_bytes_per_second if kind == "read" else of.write_bytes_per_second


def needs(identity: Identity) -> Needs:
    """Find the rates with which a job would spend `IO_FRACTION` of its time in I/O, and at least `IO_SECONDS_MIN`.

    Returns:
        The rates. The computing time of the known run stays as it was; the time in I/O is divided among the kinds of
        work as one server with an NVMe device would divide it.
    """
    seconds, parts = _seconds(identity), weights(identity)

    def need(kind: Kind) -> float | None:
        if kind not in parts:
            return None
        wanted = work(identity, kind) / (seconds * parts[kind])
        most = RATE_MAX[kind] if kind == "metadata" else min(RATE_MAX[kind], PROCESS_RATE * max(identity.processes, 1))
        return min(max(wanted, RATE_MIN[kind]), most)

    return Needs(
        read_bytes_per_second=need("read"),
        write_bytes_per_second=need("write"),
        metadata_operations_per_second=need("metadata"),
    )


def _seconds(identity: Identity) -> float:
    computing = identity.seconds * (1.0 - identity.io_fraction)
    return max(computing * IO_FRACTION / (1.0 - IO_FRACTION), IO_SECONDS_MIN)


def allowed_seconds(identity: Identity) -> float:
    """The time that a job's I/O may take: `IO_FRACTION` of its time, and as long as its processes take to copy.

    Returns:
        Seconds, at least `IO_SECONDS_MIN`.
    """
    moved = identity.read_bytes + identity.written_bytes
    return max(_seconds(identity), moved / (PROCESS_RATE * max(identity.processes, 1)))


def weights(identity: Identity) -> dict[Kind, float]:
    """Weigh the kinds of work that a job does, by their times at `REFERENCE_RATES`.

    Returns:
        Parts from 0 to 1 whose sum is 1, of the kinds that the job does; empty for a job without I/O.
    """
    times = {kind: work(identity, kind) / REFERENCE_RATES[kind] for kind in KINDS}
    whole = sum(times.values())
    return {kind: seconds / whole for kind, seconds in times.items() if seconds > 0}


def left(identity: Identity, sensitivities: Sensitivities) -> float:
    """The part of a guaranteed rate that is left for the calls of a job.

    The time of a byte grows by one over the part that is left under each condition, for the part of the bytes that
    meets the condition; conditions multiply. A condition that was not measured counts as free.

    Args:
        sensitivities: The storage system's sensitivities.

    Returns:
        A part from 0 to 1.
    """
    return _left(_conditions(identity), sensitivities)


_Conditions = tuple[float, float, float, float]
"""Parts of a job's bytes: by small calls (`small_part`), at random places, of shared files, and both ways."""


def _conditions(identity: Identity) -> _Conditions:
    if identity.read_operations + identity.write_operations == 0:
        return 0.0, 0.0, 0.0, 0.0
    moved = identity.read_bytes + identity.written_bytes
    mixed = 2.0 * min(identity.read_bytes, identity.written_bytes) / moved if moved > 0 else 0.0
    return small_part(identity), 1.0 - identity.sequential_fraction, identity.shared_fraction, mixed


def small_part(identity: Identity) -> float:
    """The bytes of a job's small calls over all its bytes, as if each moved `SMALL_CALL_BYTES`.

    A small call takes its time however few bytes it moves. The C library joins those of its streams.

    Returns:
        A part; above 1 where calls are far smaller.
    """
    moved = identity.read_bytes + identity.written_bytes
    calls = identity.small_fraction * (identity.read_operations + identity.write_operations)
    if moved <= 0:
        return identity.small_fraction
    part = calls * SMALL_CALL_BYTES / moved
    return min(part, identity.small_fraction) if identity.interface == "stdio" else part


def _left(conditions: _Conditions, sensitivities: Sensitivities) -> float:
    kept = (sensitivities.small, sensitivities.random, sensitivities.shared_file, sensitivities.mixed)
    factor = 1.0
    for met, part in zip(conditions, kept, strict=True):
        if part is not None and met > 0:
            factor *= max(1.0 - met, 0.0) + met / min(max(part, 1e-6), 1.0)
    return 1.0 / factor


def filled(own: Sensitivities, other: Sensitivities) -> Sensitivities:
    """Fill what was not measured of a system from another one.

    Returns:
        The sensitivities; None where neither was measured.
    """
    return Sensitivities(
        small=other.small if own.small is None else own.small,
        random=other.random if own.random is None else own.random,
        mixed=other.mixed if own.mixed is None else own.mixed,
        shared_file=other.shared_file if own.shared_file is None else own.shared_file,
        concurrency=other.concurrency if own.concurrency is None else own.concurrency,
    )


def effective(identity: Identity, guarantees: Guarantees, sensitivities: Sensitivities) -> Guarantees:
    """The rates of a storage system for the calls of a job.

    Args:
        guarantees: The guaranteed rates, for sequential calls of at least 1 MB.

    Returns:
        The rates; metadata operations have no pattern, so their rate stays.
    """
    part = left(identity, sensitivities)
    read, write = guarantees.read_bytes_per_second, guarantees.write_bytes_per_second
    return Guarantees(
        read_bytes_per_second=None if read is None else read * part,
        write_bytes_per_second=None if write is None else write * part,
        metadata_operations_per_second=guarantees.metadata_operations_per_second,
        capacity_bytes=guarantees.capacity_bytes,
    )


def io_seconds(identity: Identity, rates: Guarantees) -> float:
    """The time of a job's I/O at given rates.

    Args:
        rates: Effective rates.

    Returns:
        Seconds. Work whose rate is unknown takes no time, so compare only systems of which the same is known.
    """
    total = 0.0
    for kind in KINDS:
        reached = rate(rates, kind)
        if reached:
            total += work(identity, kind) / reached
    return total


class IoWork:
    """The work and the pattern of a job, taken from its identity once for many systems."""

    def __init__(self, identity: Identity) -> None:
        """Take them."""
        self._conditions = _conditions(identity)
        self._read, self._write = work(identity, "read"), work(identity, "write")
        self._metadata = work(identity, "metadata")

    def seconds(
        self, guarantees: Guarantees, sensitivities: Sensitivities, *, among: Collection[Kind] = KINDS
    ) -> float:
        """The time of the job's I/O on a system: that of `io_seconds` at the `effective` rates.

        Args:
            guarantees: The guaranteed rates.
            among: Kinds of work that count.
        """
        part = _left(self._conditions, sensitivities)
        total = 0.0
        for kind, done, whole, kept in (
            ("read", self._read, guarantees.read_bytes_per_second, part),
            ("write", self._write, guarantees.write_bytes_per_second, part),
            ("metadata", self._metadata, guarantees.metadata_operations_per_second, 1.0),
        ):
            if kind in among and whole and (rate_left := whole * kept):
                total += done / rate_left
        return total
