"""The cases on which learning from outcomes is judged, written down before the learner was.

Each case is a real job, the tables that a site believes of three kinds of devices, and the emulated devices that it
really has. The plan of the first run follows the tables. A case where learning must not help has tables that are right,
or runs that say nothing; there the choices have to be those of a planner that never learns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

RUNS = 10
KINDS = ("amber", "birch", "coral")
"""Kinds of devices of the site, one device of each."""

T = TypeVar("T")
Verb = Literal["write", "read", "names", "compute"]


@dataclass(frozen=True)
class Phase:
    """A phase of a kernel: calls of one size by one process, or names that are made, looked at and removed."""

    verb: Verb
    count: int
    """Calls, names, or milliseconds of computation."""
    call_bytes: int = 0


@dataclass(frozen=True)
class Truth:
    """A device as it is."""

    megabytes_read: float
    """Megabytes a second."""
    megabytes_written: float
    fixed_milliseconds: float = 0.0
    """Time of each request beside that of its bytes."""
    names_milliseconds: float = 0.0
    """Time of each operation on names."""


@dataclass(frozen=True)
class Belief:
    """A device as the site's table has it; None is not measured."""

    megabytes_read: float
    megabytes_written: float
    names_a_second: float | None = None
    small: float | None = None
    """Part of a rate that is left for calls below 10 KB."""


@dataclass(frozen=True)
class Case:
    """A job, the devices, and the table."""

    name: str
    kernel: tuple[Phase, ...]
    truth: Mapping[str, Truth]
    belief: Mapping[str, Belief]
    may_help: bool = True
    """Whether the tables misjudge the job, so that a planner that learns can do better."""
    note: str = field(default="")


def _by_kind(amber: T, birch: T, coral: T) -> dict[str, T]:
    return dict(zip(KINDS, (amber, birch, coral), strict=True))


CASES = (
    Case(
        name="small-calls",
        kernel=(Phase("write", 250, 4096),),
        truth=_by_kind(Truth(200, 200, 8), Truth(50, 50, 1), Truth(100, 100, 3)),
        belief=_by_kind(Belief(200, 200), Belief(50, 50), Belief(100, 100)),
        note="large calls alone were measured, as in the table of OrangeFS: the fastest kind is the slowest here",
    ),
    Case(
        name="overstated",
        kernel=(Phase("write", 8, 4 << 20),),
        truth=_by_kind(Truth(80, 16), Truth(60, 60), Truth(40, 40)),
        belief=_by_kind(Belief(80, 80), Belief(60, 60), Belief(40, 40)),
        note="writes were measured on a fresh device, which is five times as slow now",
    ),
    Case(
        name="names",
        kernel=(Phase("names", 60), Phase("write", 4, 1 << 20)),
        truth=_by_kind(Truth(200, 200, 0, 8), Truth(100, 100, 0, 1), Truth(150, 150, 0, 4)),
        belief=_by_kind(Belief(200, 200), Belief(100, 100), Belief(150, 150)),
        note="no table has a rate of names",
    ),
    Case(
        name="half-right",
        kernel=(Phase("write", 4, 4 << 20), Phase("read", 4, 4 << 20)),
        truth=_by_kind(Truth(100, 12), Truth(70, 50), Truth(60, 40)),
        belief=_by_kind(Belief(100, 100), Belief(70, 50), Belief(60, 40)),
        note="the table is right about reads, and eight times too high about writes of one kind",
    ),
    Case(
        name="understated",
        kernel=(Phase("write", 8, 4 << 20),),
        truth=_by_kind(Truth(50, 50), Truth(120, 120), Truth(35, 35)),
        belief=_by_kind(Belief(50, 50), Belief(30, 30), Belief(35, 35)),
        note="the best kind is believed to be the worst: a planner that only corrects its choice never meets it",
    ),
    Case(
        name="right",
        kernel=(Phase("write", 8, 4 << 20),),
        truth=_by_kind(Truth(60, 60), Truth(40, 40), Truth(25, 25)),
        belief=_by_kind(Belief(60, 60), Belief(40, 40), Belief(25, 25)),
        may_help=False,
        note="the table is right: noise must not move the choice",
    ),
    Case(
        name="silent",
        kernel=(Phase("compute", 300), Phase("write", 2, 4096)),
        truth=_by_kind(Truth(60, 60), Truth(40, 40), Truth(25, 25)),
        belief=_by_kind(Belief(60, 60), Belief(40, 40), Belief(25, 25)),
        may_help=False,
        note="a job that hardly does I/O: its runs say nothing of the storage, and nothing may be learned from them",
    ),
)
"""All cases. The regret of a run is the I/O time of the kind that it was given over that of the best kind, less one; a
kind's I/O time is the median of its runs in the case, by the kernel's own clock."""


@dataclass(frozen=True)
class Month:
    """A month of a centre's jobs in the simulator."""

    days: int = 30
    programs: int = 40
    runs: tuple[int, int] = (4, 120)
    """Least and most runs of a program in the month; their logarithms are equally likely between."""
    seed: int = 20180214
    device_spread: float = 0.5
    """Standard deviation of the logarithm of a real rate, or time of a request, over the table's: a site's devices are
    not the usual ones."""
    is_right_part: float = 0.25
    """Part of the programs that find the devices as the table has them: learning must not help these."""


MONTH = Month()
"""The noise of a run is that of a real one: the time of a benchmark job of NERSC's year over the median of its kind
(`data/tokio-cori.csv.gz`)."""
