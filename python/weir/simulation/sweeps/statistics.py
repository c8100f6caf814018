"""Means and intervals of a sweep over its seeds, and the settings that are best by each objective.

A *cell* is one choice of every key but the seed. Cells share their seeds, so two cells are compared by the differences
seed by seed: dice that fall alike in both do not blur the comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.simulation.intervals import ROUNDING, Interval, interval_of

SEED = "seed"
"""The key whose values repeat a cell."""
_FIGURE_MAX = 1e150
"""A larger figure, of either sign, has a square that is no double: only a damaged file holds one."""


@dataclass(frozen=True)
class Cell:
    """The runs of one choice of settings."""

    settings: dict[str, Any]
    """Value of each key but the seed."""
    figures: dict[str, dict[Any, float]]
    """Value of each figure by seed."""

    def mean(self, figure: str) -> Interval | None:
        """Average a figure.

        Args:
            figure: Name of the figure.

        Returns:
            Mean and interval over the seeds; None where no run has the figure.
        """
        return interval_of(list(self.figures.get(figure, {}).values()))


@dataclass(frozen=True)
class Best:
    """The cell that is best by a figure, and those that cannot be told from it."""

    cell: Cell
    as_good: tuple[Cell, ...]
    """Other cells whose difference from the best one, seed by seed, has an interval with zero in it."""


def cells(rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Cell]:
    """Gather runs into cells.

    Args:
        rows: Settings and figures of each run. Figures that are no number, or too large to be squared, are left out.

    Returns:
        The cells, in the order in which they first occur.
    """
    found: dict[str, Cell] = {}
    for settings, figures in rows:
        rest = {key: value for key, value in settings.items() if key != SEED}
        cell = found.setdefault(_name(rest), Cell(rest, {}))
        for name, value in figures.items():
            number = _number(value)
            if number is not None:
                cell.figures.setdefault(name, {})[_hashable(settings.get(SEED))] = number
    return list(found.values())


def best(cells: Sequence[Cell], figure: str, *, is_greater_better: bool) -> Best | None:
    """Find the best cell by the mean of a figure.

    Args:
        figure: Name of the figure.
        is_greater_better: Whether more is better.

    Returns:
        The best cell, the first of several alike, and the cells that cannot be told from it; None where no cell has the
        figure.
    """
    sign = -1.0 if is_greater_better else 1.0
    judged = [(sign * mean.mean, cell) for cell in cells if (mean := cell.mean(figure)) is not None]
    if not judged:
        return None
    winner = min(judged, key=lambda each: each[0])[1]
    as_good = [cell for _, cell in judged if cell is not winner and _is_as_good(cell, winner, figure)]
    return Best(winner, tuple(as_good))


def _is_as_good(cell: Cell, winner: Cell, figure: str) -> bool:
    ours, theirs = cell.figures[figure], winner.figures[figure]
    difference = interval_of([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    if difference is None:
        return False
    # Sums in another order differ in their last digits, which tell nothing about the settings.
    rounding = ROUNDING * max(1.0, *map(abs, ours.values()))
    if difference.low is None or difference.high is None:
        # One seed has no spread, so only what is equal counts as equal.
        return abs(difference.mean) <= rounding
    return difference.low <= rounding and difference.high >= -rounding


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= _FIGURE_MAX else None


def _name(settings: Mapping[str, Any]) -> str:
    import json

    return json.dumps(settings, sort_keys=True)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | str | None) else _name({SEED: value})
