"""The runs of a build as columns of numbers."""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from weir.provisioning.behaviour.classes import FEATURES, scaled
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.learning.archive import Archive
from weir.provisioning.learning.features import DERIVED, TARGETS, seconds, vector
from weir.provisioning.learning.runs import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS_MAX = 1_000_000
"""Most runs of a build: their columns take some 300 MB. Of more, an even sample is taken."""
RUNS_MIN = 20
"""Fewest runs from which classes are made."""
_STORAGES_MAX = 16
"""Storages with a column of their own."""
_MONTH_UNKNOWN = -1
_DIGITS = 2
"""Digits by which the bytes of two runs of the same job agree: logs and checkpoints differ a little each time."""


@dataclass(frozen=True)
class Dataset:
    """Runs as columns; rows have the same order everywhere."""

    names: tuple[str, ...]
    """Names of the features."""
    features: "NDArray[Any]"
    """A row for each run (float32)."""
    seconds: "NDArray[Any]"
    """Times in the order of `TARGETS`, a row for each run (float64); 0 where none was measured."""
    scaled: "NDArray[Any]"
    """The features by which fitness is found, a row for each run (float32)."""
    programs: "NDArray[Any]"
    """Number of each run's program."""
    jobs: "NDArray[Any]"
    """Number of each run's job: same program, processes, storage, files, and about the same bytes."""
    groups: "NDArray[Any]"
    """Number of each run's group: same program, processes and storage."""
    kinds: "NDArray[Any]"
    """Number of each run's identity's name."""
    months: "NDArray[Any]"
    """Months since year 0, -1 where the run's begin is not known."""
    numbers: "NDArray[Any]"
    """Number of each run in the archive."""
    program_names: tuple[str, ...]

    def __len__(self) -> int:
        """Count the runs."""
        return len(self.numbers)

    def rows(self, chosen: "NDArray[Any]") -> "Dataset":
        """Take some runs.

        Args:
            chosen: Their rows.
        """
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        kept = ("names", "program_names")
        return Dataset(**{name: each if name in kept else each[chosen] for name, each in plain.items()})

    def digest(self) -> str:
        """Sum the content up, for the keys of steps.

        Returns:
            A hash of all columns but the runs' numbers, which tell nothing about them.
        """
        found = hashlib.blake2b(repr((self.names, self.program_names, DERIVED)).encode(), digest_size=16)
        for each in (self.features, self.seconds, self.programs, self.jobs, self.groups, self.kinds, self.months):
            found.update(each.tobytes())
        return found.hexdigest()


class _Codes:
    """Numbers for values, in the order in which they come."""

    def __init__(self) -> None:
        self.known: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        return self.known.setdefault(value, len(self.known))


def load(archive: Archive, *, io_fraction_min: float = 0.0) -> Dataset:
    """Read the runs of a build from its archive, one after the other.

    Args:
        archive: The archive, whose logs are read.
        io_fraction_min: Runs that spent less of their time in I/O are left out.

    Raises:
        ProvisioningError: Too few runs are left.
    """
    import numpy

    count = archive.runs_count()
    # Multiples of the golden ratio are even over any part of the runs, so that a sample has each month's part.
    kept = min(RUNS_MAX / max(count, 1), 1.0)
    size = min(count, RUNS_MAX + 1)
    storages = {name: place for place, name in enumerate(archive.common_storages(_STORAGES_MAX))}
    features = numpy.zeros((size, len(DERIVED) + len(storages)), dtype=numpy.float32)
    times = numpy.zeros((size, len(TARGETS)))
    near = numpy.zeros((size, len(FEATURES)), dtype=numpy.float32)
    codes = numpy.zeros((size, 6), dtype=numpy.int64)
    programs, jobs, groups, kinds = _Codes(), _Codes(), _Codes(), _Codes()
    row = 0
    for place, (number, run) in enumerate(archive.runs()):
        if (place * 0.6180339887498949) % 1.0 >= kept or row == size:
            continue
        identity = identify(run.traits)
        if identity.io_fraction < io_fraction_min:
            continue
        features[row] = vector(run, storages)
        times[row] = seconds(run.traits)
        near[row] = scaled(identity)
        program = programs.of(run.traits.program)
        group = groups.of((program, run.traits.processes, run.storage))
        codes[row] = (program, jobs.of((group, *_size(run))), group, kinds.of(identity.name), _month(run), number)
        row += 1
    if row < RUNS_MIN:
        raise ProvisioningError(
            f"{row} usable runs are too few to make classes from: at least {RUNS_MIN} are needed",
            hint="give more logs" + (", or a lower `io_fraction_min`" if io_fraction_min else ""),
        )
    return Dataset(
        names=(*DERIVED, *(f"storage_{name}" for name in storages)),
        features=features[:row],
        seconds=times[:row],
        scaled=near[:row],
        programs=codes[:row, 0],
        jobs=codes[:row, 1],
        groups=codes[:row, 2],
        kinds=codes[:row, 3],
        months=codes[:row, 4],
        numbers=codes[:row, 5],
        program_names=tuple(str(name) for name in programs.known),
    )


def _size(run: Run) -> tuple[Hashable, ...]:
    """The size of a run's work, by which runs of one job are told from those of another."""
    traits = run.traits
    rounded = (float(f"{moved:.{_DIGITS - 1}e}") for moved in (traits.read.bytes, traits.write.bytes))
    return (traits.files, *rounded)


def _month(run: Run) -> int:
    if run.started <= 0:
        return _MONTH_UNKNOWN
    try:
        begin = datetime.fromtimestamp(run.started, UTC)
    except (ValueError, OverflowError, OSError):
        return _MONTH_UNKNOWN
    return begin.year * 12 + begin.month - 1


def month_name(month: int) -> str:
    """Write a month.

    Args:
        month: Months since year 0.

    Returns:
        The month, such as `2017-11`.
    """
    return f"{month // 12:04d}-{month % 12 + 1:02d}"
