"""The quality of a data set's labels: their agreement with the truth of the store, and the labels of quiet repeats.

A label comes from the times that the program saw, a truth from the device time that the job received and waited for
others. The two are measured apart from each other, by the clocks of the program and of the servers.
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
    """Labels beside truths."""

    windows: int
    correlation: float | None
    """Pearson's correlation of the logarithms; None where one of the two does not vary."""
    median_ratio: float
    """Median of label over truth."""
    confusion: tuple[tuple[int, ...], ...]
    """Windows by the class of the label, and within it by that of the truth."""

    def same_class(self) -> float:
        """The part of the windows whose label and truth are in the same class.

        Returns:
            The part, 0 to 1.
        """
        return sum(row[place] for place, row in enumerate(self.confusion)) / self.windows


def compare(pairs: Sequence[tuple[float, float]]) -> Agreement | None:
    """Compare labels with truths.

    Args:
        pairs: Label and truth of each window, both above 0.

    Returns:
        The agreement; None without windows.
    """
    if not pairs:
        return None
    logarithms = [(math.log(label), math.log(truth)) for label, truth in pairs]
    varies = len(pairs) > 1 and all(len(set(each)) > 1 for each in zip(*logarithms, strict=True))
    counts = [[0] * (len(BINS) + 1) for _ in range(len(BINS) + 1)]
    for label, truth in pairs:
        counts[_class(label)][_class(truth)] += 1
    return Agreement(
        len(pairs),
        statistics.correlation(*zip(*logarithms, strict=True)) if varies else None,
        statistics.median(label / truth for label, truth in pairs),
        tuple(tuple(row) for row in counts),
    )


def _class(slowdown: float) -> int:
    return sum(slowdown >= each for each in BINS)


def read_pairs(file: Path) -> Iterator[tuple[float, float | None]]:
    """Read the labels of a run.

    Args:
        file: The `labels.csv` of a run.

    Yields:
        The label of each window that has one, and its truth where the job received device time.
    """
    with file.open(newline="") as text:
        for row in csv.DictReader(text):
            if row["label"]:
                yield float(row["label"]), float(row["truth"]) if row["truth"] else None


def quiet_part(labels: Sequence[float]) -> float | None:
    """The part of the labels of quiet windows that are right.

    Args:
        labels: Labels of windows of runs without others.

    Returns:
        The part within `QUIET`, 0 to 1; None without windows.
    """
    return sum(QUIET[0] <= label <= QUIET[1] for label in labels) / len(labels) if labels else None


def described(of_all: Agreement | None, quiet: Sequence[float]) -> list[str]:
    """Describe the quality of labels.

    Args:
        of_all: Labels beside truths.
        quiet: Labels of windows of runs without others.

    Returns:
        Lines of Markdown.
    """
    lines = []
    part = quiet_part(quiet)
    if part is not None:
        lines.append(
            f"Of {len(quiet)} windows of quiet repeats, {100 * part:.1f} % are labelled {QUIET[0]:g} to {QUIET[1]:g}."
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
