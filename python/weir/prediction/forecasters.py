"""How a quantity of the next run follows from those of the past: by laws and ARIMA, or as it was."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from weir.prediction.arima import forecast
from weir.prediction.context import RANKS, Context
from weir.prediction.laws import EXACT, Observation, law_of


class Forecaster(Protocol):
    """What the structure of names leaves open: numbers."""

    def quantity(self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False) -> float:
        """A count or a size in the coming run.

        Args:
            seen: The same quantity in past runs, oldest first, of one run at least.
            coming: The coming run.
            is_shared: Whether all ranks write into it, so that with more ranks of the same work it grows.
        """

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """Where a counter begins; None where that has no rule.

        Args:
            seen: Where it began in past runs.
            ends: The value after its last one, in the same runs.
            coming: The coming run.
        """

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """What follows `values` within a run: sizes of the steps after those known."""


class Arima:
    """Regression on the run's numbers where they explain the past, ARIMA where they do not."""

    def quantity(self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False) -> float:
        """See `Forecaster`."""
        law = law_of(seen, coming)
        if law is None:
            return max(forecast([one.value for one in _most_alike(seen, coming)], 1)[0], 0.0)
        value = law.of(coming)
        if is_shared and RANKS in law.untested:
            # Weak scaling until a run at another scale says otherwise: as files of one rank keep their size.
            value *= coming.ranks / seen[-1].context.ranks
        return value

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """See `Forecaster`."""
        values = [one.value for one in seen]
        law = law_of(seen, coming)
        if law is not None and (
            len(set(values)) == 1 or all(_is_exact(law.of(one.context), one.value) for one in seen)
        ):
            return law.of(coming)
        if len(values) > 1 and all(end == begin for end, begin in zip(ends, values[1:], strict=False)):
            return ends[-1]
        steps = {after - before for before, after in pairwise(values)}
        return values[-1] + steps.pop() if len(values) > 2 and len(steps) == 1 else None

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """See `Forecaster`."""
        return forecast(values, count)


class LastRun:
    """As in the last run; what all ranks write together grows with the ranks."""

    def quantity(self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False) -> float:
        """See `Forecaster`."""
        return seen[-1].value * (coming.ranks / seen[-1].context.ranks if is_shared else 1.0)

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """See `Forecaster`."""
        return seen[-1].value

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """See `Forecaster`."""
        return [values[-1]] * count


def _is_exact(said: float, seen: float) -> bool:
    return abs(said - seen) <= EXACT * max(abs(seen), 1.0)


def _most_alike(seen: Sequence[Observation], coming: Context) -> list[Observation]:
    """The past runs that share most numbers with the coming one, in their order."""
    shared = [sum(one.context.numbers.get(key) == value for key, value in coming.numbers.items()) for one in seen]
    return [one for one, count in zip(seen, shared, strict=True) if count == max(shared)]
