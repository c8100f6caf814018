"""Labels: how much slower the operations of a window were than the same operations without others.

The paper's label (section III-D) is the mean, over a window's operations, of the time with interference over the time
alone: `mean` here. By `time` each operation counts by its time alone, so the label is the window's time over the time
of the same operations alone. That is the default: the ratio of a short operation is that of the machine's processors,
and in the mean it outweighs those of long ones. Beside a label stands the truth of the store, which no other system
has: the device time that the job received and waited for others, over the time that it received.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, assert_never

from weir.csv_table import CsvTable
from weir.interference.errors import InterferenceError

Weighting = Literal["time", "mean"]
"""The weight of an operation's slowdown in a label: its time alone, or the same for each."""

NOISE_SECONDS = 0.5e-3
"""Operations that are shorter than this in both runs have no ratio: it would be that of the machine's processors."""
OPERATIONS_MAX = 10_000_000
"""Most operations of one run that are read."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a program."""

    kind: str
    """Kind of the operation."""
    place: str
    """File and place in it."""
    begin: float
    """Unix time in seconds."""
    seconds: float
    """Time that it took."""
    waited: float = 0.0
    """Time of these for which its program, or the server, waited for a processor."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one window."""

    window: int
    """Number of the window since 1970."""
    by_time: float
    """Mean of the operations' slowdowns, each weighted by its time alone."""
    mean: float
    """Mean of the operations' slowdowns, each of the same weight."""
    operations: int
    """Number of the operations."""
    noise: float = 0.0
    """Time for which programs and servers waited for processors, in this run and in that alone, over the time alone:
    the label may be wrong by as much."""

    def slowdown(self, weighting: Weighting) -> float:
        """The slowdown of the window.

        Args:
            weighting: Weight of an operation's slowdown.

        Returns:
            The time with others over the time alone.
        """
        match weighting:
            case "time":
                return self.by_time
            case "mean":
                return self.mean
            case _:
                assert_never(weighting)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a run."""

    labels: tuple[Label, ...]
    """Labels in the order of time."""
    unmatched_windows: int
    """Windows with operations of which none has a match: they have no label."""
    unmatched_operations: int
    """Operations without a match, or too short for one."""
    slowdown: float | None
    """Mean of all operations' slowdowns, weighted by their times alone; None where no operation has a match."""


def read_operations(path: Path) -> list[Operation]:
    """Read the operations that a kernel wrote.

    Returns:
        The operations, in their order.

    Raises:
        InterferenceError: The file cannot be read, or is no such file.
    """
    found: list[Operation] = []
    try:
        with path.open(newline="") as file:
            for kind, place, begin, seconds, *waited in csv.reader(file):
                operation = Operation(kind, place, float(begin), float(seconds), *map(float, waited))
                if not (0 <= operation.seconds < float("inf") and 0 <= operation.begin < _LATEST):
                    raise ValueError(f"an operation takes {seconds} s at {begin}")
                found.append(operation)
                if len(found) > OPERATIONS_MAX:
                    raise ValueError(f"it has more than {OPERATIONS_MAX:,} operations")
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise InterferenceError(f"{path} is no record of operations: {error}") from error
    return found


def write_operations(operations: Iterable[Operation], path: Path) -> None:
    """Write operations as `read_operations` reads them.

    Args:
        path: The file, which is replaced.
    """
    with path.open("w", newline="") as file:
        table = CsvTable(file)
        for each in operations:
            table.add((each.kind, each.place, f"{each.begin:.6f}", f"{each.seconds:.9f}", f"{each.waited:.9f}"))


_LATEST = 1e11
"""A Unix time beyond all that are meant."""


def label(
    alone: Sequence[Iterable[Operation]],
    repeated: Iterable[Operation],
    window_seconds: float,
    noise_seconds: float = NOISE_SECONDS,
) -> Labels:
    """Label the windows of a repeated run by the times of the same operations in a run alone.

    The n-th operation of a kind at a place is the same in both runs. It counts in the window in which it ended.

    Args:
        alone: Operations of each run without others; the median of their times counts.
        repeated: Operations of the run with others.
        noise_seconds: Operations that are shorter than this in both runs are left out.
    """
    times = _medians(alone)
    sums: dict[int, _Sums] = defaultdict(_Sums)
    whole = _Sums()
    unmatched = 0
    for key, operation in numbered(repeated):
        of_window = sums[int((operation.begin + operation.seconds) / window_seconds)]
        before = times.get(key)
        if before is None or not before[0] or max(before[0], operation.seconds) < noise_seconds:
            unmatched += 1
            continue
        for sums_of in (of_window, whole):
            sums_of.add(before, operation)
    labels = [
        Label(window, of.by_time(), of.ratios / of.operations, of.operations, of.waited / of.alone)
        for window, of in sorted(sums.items())
        if of.operations
    ]
    total = whole.by_time() if whole.operations else None
    return Labels(tuple(labels), len(sums) - len(labels), unmatched, total)


@dataclass(slots=True)
class _Sums:
    """Times of operations among others and alone, and their ratios."""

    operations: int = 0
    alone: float = 0.0
    among: float = 0.0
    ratios: float = 0.0
    waited: float = 0.0

    def add(self, alone: tuple[float, float], among: Operation) -> None:
        """Add an operation; `alone` is its time alone, and the time of it for which processors were waited for."""
        seconds, waited = alone
        self.operations += 1
        self.alone += seconds
        self.among += among.seconds
        self.ratios += among.seconds / seconds
        self.waited += waited + among.waited

    def by_time(self) -> float:
        return self.among / self.alone


def _medians(alone: Sequence[Iterable[Operation]]) -> dict[tuple[str, str, int], tuple[float, float]]:
    """The median time of each operation of several runs, and the median time for which processors were waited for."""
    times: dict[tuple[str, str, int], list[tuple[float, float]]] = defaultdict(list)
    for run in alone:
        for key, operation in numbered(run):
            times[key].append((operation.seconds, operation.waited))
    return {key: (median(of[0] for of in each), median(of[1] for of in each)) for key, each in times.items()}


def numbered(operations: Iterable[Operation]) -> Iterator[tuple[tuple[str, str, int], Operation]]:
    """Name operations, so that those of two runs can be matched.

    Yields:
        Kind, place, and the number of those like it before; and the operation.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for operation in operations:
        like = (operation.kind, operation.place)
        yield (*like, seen[like]), operation
        seen[like] += 1


def agreement(labels: Mapping[int, float], truths: Mapping[int, float], bins: Sequence[float] = (2.0,)) -> float | None:
    """The part of windows that the label and the truth put into the same class.

    Args:
        bins: Slowdowns at which a class begins.

    Returns:
        The part, 0 to 1; None where no window has both.
    """
    both = labels.keys() & truths.keys()
    same = [_class(labels[each], bins) == _class(truths[each], bins) for each in both]
    return sum(same) / len(same) if same else None


def _class(slowdown: float, bins: Sequence[float]) -> int:
    return sum(slowdown >= each for each in bins)
