"""The quality of a data set's labels: their agreement with the truth of the store, and the labels of quiet repeats.

A label comes from the times that the program saw, a truth from the device time that the job received and waited for
others. The two are measured apart from each other, by the clocks of the program and of the servers. Labels are means of
slowdowns weighted by time or plain, and both are compared with each other whichever of them is the label.
"""

import csv
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BINS = (2.0, 5.0)
"""Slowdowns at which a class begins."""
QUIET = (0.95, 1.05)
"""Labels of windows without others, on a machine that disturbs nothing."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Slowdowns of windows by one measure beside those by another."""

    windows: int
    correlation: float | None
    """Pearson's correlation of the logarithms; None where one of the two does not vary."""
    median_ratio: float
    """Median of the one over the other."""
    confusion: tuple[tuple[int, ...], ...]
    """Windows by the class of the one, and within it by that of the other."""

    def same_class(self) -> float:
        """The part of the windows that both put into the same class.

        Returns:
            The part, 0 to 1.
        """
        return sum(row[place] for place, row in enumerate(self.confusion)) / self.windows

    def crossing(self) -> tuple[int, int]:
        """Count the windows that are slowed by one measure alone: from the first of `BINS` on, and not by the other."""
        return sum(row[0] for row in self.confusion[1:]), sum(self.confusion[0][1:])


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a data set's labels; an agreement is None without windows."""

    truth: Agreement | None
    """Labels beside the truth of the store."""
    weighting: Agreement | None
    """Means weighted by time beside plain means."""
    quiet: Sequence[float]
    """Labels of windows of runs without others."""


@dataclass(frozen=True, slots=True)
class LabelledWindow:
    """A window with a label."""

    label: float
    truth: float | None
    """Truth of the store; None where the job received no device time."""
    weightings: tuple[float, float] | None
    """The mean weighted by time and the plain one; None for a label by the store."""


def compare(pairs: Sequence[tuple[float, float]]) -> Agreement | None:
    """Compare two measures of slowdown.

    Args:
        pairs: Slowdown of each window by the one and by the other, both above 0.

    Returns:
        The agreement; None without windows.
    """
    if not pairs:
        return None
    logarithms = [(math.log(one), math.log(other)) for one, other in pairs]
    varies = len(pairs) > 1 and all(len(set(each)) > 1 for each in zip(*logarithms, strict=True))
    counts = [[0] * (len(BINS) + 1) for _ in range(len(BINS) + 1)]
    for one, other in pairs:
        counts[_class(one)][_class(other)] += 1
    return Agreement(
        len(pairs),
        statistics.correlation(*zip(*logarithms, strict=True)) if varies else None,
        statistics.median(one / other for one, other in pairs),
        tuple(tuple(row) for row in counts),
    )


def _class(slowdown: float) -> int:
    return sum(slowdown >= each for each in BINS)


def read_windows(file: Path) -> Iterator[LabelledWindow]:
    """Read the labels of a run.

    Args:
        file: The `labels.csv` of a run.

    Yields:
        The windows that have a label.
    """
    with file.open(newline="") as text:
        for row in csv.DictReader(text):
            if row["label"]:
                by_time, mean = row.get("by_time"), row.get("mean")
                yield LabelledWindow(
                    float(row["label"]),
                    float(row["truth"]) if row["truth"] else None,
                    (float(by_time), float(mean)) if by_time and mean else None,
                )


def quiet_part(labels: Sequence[float]) -> float | None:
    """The part of the labels of quiet windows that are right.

    Args:
        labels: Labels of windows of runs without others.

    Returns:
        The part within `QUIET`, 0 to 1; None without windows.
    """
    return sum(QUIET[0] <= label <= QUIET[1] for label in labels) / len(labels) if labels else None


def described(quality: Quality) -> list[str]:
    """Describe the quality of labels.

    Returns:
        Lines of Markdown.
    """
    lines = []
    of_all, weighting, part = quality.truth, quality.weighting, quiet_part(quality.quiet)
    if weighting is not None:
        by_time, by_mean = weighting.crossing()
        lines.append(
            f"Means weighted by time and plain means are on different sides of {BINS[0]:g} in "
            f"{100 * (by_time + by_mean) / weighting.windows:.1f} % of {weighting.windows} windows: "
            f"{by_time} are slowed by time alone, {by_mean} by the plain mean alone."
        )
    if part is not None:
        lines.append(
            f"Of {len(quality.quiet)} windows of quiet repeats, {100 * part:.1f} % are labelled "
            f"{QUIET[0]:g} to {QUIET[1]:g}."
        )
    if of_all is not None:
        correlation = (
            "" if of_all.correlation is None else f", and their logarithms correlate by {of_all.correlation:.3f}"
        )
        names = ("below 2", "2 to 5", "from 5 on")
        lines += [
            f"The median of label over truth is {of_all.median_ratio:.3f}{correlation}.",
            f"Both are in the same class in {100 * of_all.same_class():.1f} % of {of_all.windows} windows:",
            "",
            f"| label | {' | '.join(f'truth {name}' for name in names)} |",
            "|---|---|---|---|",
            *(f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, of_all.confusion, strict=True)),
        ]
    return lines
