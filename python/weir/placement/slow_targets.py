"""Slow targets in a log: targets whose files took far longer than the files on other targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from weir.tracing.darshan import LoggedFile

SLOW_BELOW = 0.25
"""Part of the other targets' median below which a target is slow; healthy targets differ by a half."""
_TARGETS_MIN = 4
"""Least number of targets: among fewer none stands out."""
_BYTES_MIN = 1 << 20
"""Least bytes of a file: smaller files show the cost of opening rather than the target."""


@dataclass(frozen=True, slots=True)
class SlowTarget:
    """A target far slower than the others."""

    target: int
    """OST index of the target."""
    files: int
    """Number of files that lie on the target alone."""
    bytes_per_second: float
    """Bytes of these files, divided by the I/O time of the slowest file."""
    median_bytes_per_second: float
    """Median of the same rate over the other targets."""
    lost_seconds: float
    """Difference between the times of the target's slowest file and of the median target's slowest file."""


def slow_targets(files: Sequence[LoggedFile]) -> list[SlowTarget]:
    """Find the slow targets, by the files that have a single stripe.

    A target's rate over all files and the rate of its median file must both be low: the first alone also falls where a
    target has few files, the second where many files share one target.

    Args:
        files: Records of a log.

    Returns:
        The slow targets, the slowest first; empty where the log shows too few targets.
    """
    by_target: dict[int, list[LoggedFile]] = {}
    for file in files:
        targets = {target for component in file.components for target in component.targets}
        moved = file.read_bytes + file.written_bytes
        if len(targets) == 1 and moved >= _BYTES_MIN and file.seconds > 0:
            by_target.setdefault(targets.pop(), []).append(file)
    if len(by_target) < _TARGETS_MIN:
        return []
    together = {target: _together(those) for target, those in by_target.items()}
    middle = {target: median(_rate(file) for file in those) for target, those in by_target.items()}
    slowest = {target: max(file.seconds for file in those) for target, those in by_target.items()}
    found = []
    for target, those in by_target.items():
        others = [other for other in by_target if other != target]
        usual = median(together[other] for other in others)
        usual_middle = median(middle[other] for other in others)
        if together[target] < SLOW_BELOW * usual and middle[target] < SLOW_BELOW * usual_middle:
            lost = slowest[target] - median(slowest[other] for other in others)
            found.append(SlowTarget(target, len(those), together[target], usual, lost))
    return sorted(found, key=lambda slow: slow.bytes_per_second)


def _rate(file: LoggedFile) -> float:
    return (file.read_bytes + file.written_bytes) / file.seconds


def _together(files: Sequence[LoggedFile]) -> float:
    return sum(file.read_bytes + file.written_bytes for file in files) / max(file.seconds for file in files)
