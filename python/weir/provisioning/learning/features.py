"""Derived features by which the time of a run's I/O is predicted, and runs are put into classes.

They come from counts and sizes alone: a feature that is made of times would tell the times that are to be predicted.
The interface is no feature either, as in the paper. Counts are taken by their logarithm.
"""

import math
from collections.abc import Callable, Mapping

from weir.provisioning.behaviour.traits import Traits, Transfers
from weir.provisioning.learning.runs import Run


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _fraction(part: float, whole: float) -> float:
    return min(_ratio(part, whole), 1.0)


def _of_transfers(way: str, of: Callable[[Traits], Transfers]) -> dict[str, Callable[[Traits], float]]:
    """The counted features of reads or of writes."""
    return {
        f"{way}_bytes": lambda traits: of(traits).bytes,
        f"{way}_operations": lambda traits: of(traits).operations,
        f"{way}_mean_bytes": lambda traits: _ratio(of(traits).bytes, of(traits).operations),
        f"{way}_bytes_per_process": lambda traits: _ratio(of(traits).bytes, traits.processes),
        f"{way}_operations_per_process": lambda traits: _ratio(of(traits).operations, traits.processes),
        f"{way}_small_operations": lambda traits: of(traits).small_operations,
        f"{way}_medium_operations": lambda traits: of(traits).medium_operations,
        f"{way}_large_operations": lambda traits: of(traits).large_operations,
        f"{way}_sequential_operations": lambda traits: of(traits).sequential_operations,
        f"{way}_consecutive_operations": lambda traits: of(traits).consecutive_operations,
    }


def _sized(traits: Traits) -> int:
    return traits.read.sized_operations + traits.write.sized_operations


def _operations(traits: Traits) -> int:
    return traits.read.operations + traits.write.operations


COUNTS: Mapping[str, Callable[[Traits], float]] = {
    "processes": lambda traits: traits.processes,
    "files": lambda traits: traits.files,
    "files_per_process": lambda traits: _ratio(traits.files, traits.processes),
    "shared_files": lambda traits: traits.shared_files,
    **_of_transfers("read", lambda traits: traits.read),
    **_of_transfers("write", lambda traits: traits.write),
    "collective_operations": lambda traits: traits.collective_operations,
    "unaligned_operations": lambda traits: traits.unaligned_operations,
    "metadata_operations": lambda traits: traits.metadata_operations,
    "metadata_operations_per_process": lambda traits: _ratio(traits.metadata_operations, traits.processes),
}
"""Features without a greatest value."""
FRACTIONS: Mapping[str, Callable[[Traits], float]] = {
    "read_fraction": lambda traits: _fraction(traits.read.bytes, traits.read.bytes + traits.write.bytes),
    "small_fraction": lambda traits: _fraction(
        traits.read.small_operations + traits.write.small_operations, _sized(traits)
    ),
    "large_fraction": lambda traits: _fraction(
        traits.read.large_operations + traits.write.large_operations, _sized(traits)
    ),
    "sequential_fraction": lambda traits: _fraction(
        traits.read.sequential_operations + traits.write.sequential_operations, _sized(traits)
    ),
    "consecutive_fraction": lambda traits: _fraction(
        traits.read.consecutive_operations + traits.write.consecutive_operations, _sized(traits)
    ),
    "unaligned_fraction": lambda traits: _fraction(traits.unaligned_operations, _sized(traits)),
    "collective_fraction": lambda traits: _fraction(traits.collective_operations, _operations(traits)),
    "shared_fraction": lambda traits: _fraction(traits.shared_files, traits.files),
}
"""Features from 0 to 1."""
DERIVED = (*COUNTS, *FRACTIONS)
"""Names of the features in their order. A column for each common storage follows them."""
TARGETS = ("read", "write", "metadata")
"""The predicted times: of reads, writes and metadata operations, all processes of a run together."""
WORK = ("read_bytes", "write_bytes", "metadata_operations")
"""The feature by which each time grows. Models learn the time for one unit of it: trees cannot predict a time beyond
those that they saw, and a program that was never seen may do any amount of work."""
_SECONDS_MIN = 1e-6
"""Least time, Darshan's resolution."""


def vector(run: Run, storages: Mapping[str, int]) -> list[float]:
    """Derive the features of a run.

    Args:
        storages: Column of each common storage, from 0 on.

    Returns:
        The features in the order of `DERIVED`, then 1 for the run's own storage and 0 for the others.
    """
    counts = [math.log1p(feature(run.traits)) for feature in COUNTS.values()]
    fractions = [feature(run.traits) for feature in FRACTIONS.values()]
    columns = [0.0] * len(storages)
    place = storages.get(run.storage)
    if place is not None:
        columns[place] = 1.0
    return [*counts, *fractions, *columns]


def seconds(traits: Traits) -> tuple[float, float, float]:
    """Tell the times that are predicted.

    Args:
        traits: The traits of a run.

    Returns:
        Seconds in the order of `TARGETS`; 0 where there was nothing to measure.
    """
    read, write = traits.read, traits.write
    return (
        read.seconds if read.bytes and read.seconds >= _SECONDS_MIN else 0.0,
        write.seconds if write.bytes and write.seconds >= _SECONDS_MIN else 0.0,
        traits.metadata_seconds if traits.metadata_operations and traits.metadata_seconds >= _SECONDS_MIN else 0.0,
    )
