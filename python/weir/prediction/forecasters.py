"""Forecasters of a quantity of the next run from past runs: by laws, by ARIMA, or unchanged."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from weir.prediction.arima import forecast
from weir.prediction.context import RANKS, Context
from weir.prediction.laws import EXACT, Observation, law_of


class Forecaster(Protocol):
    """Forecasts the numbers that the structure of names leaves open."""

    def quantity(
        self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False, is_count: bool = False
    ) -> float:
        """Forecast a count or a size in the coming run.

        Args:
            seen: The same quantity in past runs, oldest first, of one run at least.
            is_shared: Whether all ranks write into the file, so that it grows with the number of ranks.
            is_count: Whether the quantity is a number of files, as of steps.
        """

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """Forecast the first value of a counter.

        Args:
            seen: First values in past runs, oldest first.
            ends: The value after the last one, in the same runs.
            coming: The coming run.

        Returns:
            The first value; None where it has no rule.
        """

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """Continue a series within a run: sizes of later steps.

        Args:
            values: The series, oldest first.
            count: Number of further values.

        Returns:
            The further values.
        """


class Arima:
    """ARIMA alone, as in the paper: it forecasts the bytes of each writer, from run to run and from step to step.

    The series are those that a client can see (section 5.5.1): for each pattern of names the bytes of a writer, and how
    many files it makes, over the runs; and within a run the bytes over its steps. A series for each file would be too
    short to fit.
    """

    def quantity(
        self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False, is_count: bool = False
    ) -> float:
        """See `Forecaster`."""
        values = [one.value / (one.context.ranks if is_shared else 1) for one in seen]
        return max(forecast(values, 1)[0], 0.0) * (coming.ranks if is_shared else 1)

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """See `Forecaster`."""
        values = [one.value for one in seen]
        if len(set(values)) == 1:
            return values[0]
        if all(end == begin for end, begin in zip(ends, values[1:], strict=False)):
            return ends[-1]
        steps = {after - before for before, after in pairwise(values)}
        return values[-1] + steps.pop() if len(values) > 2 and len(steps) == 1 else None

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """See `Forecaster`."""
        return forecast(values, count)


class Regression(Arima):
    """Laws of the run's numbers where laws explain the past, and ARIMA elsewhere."""

    def quantity(
        self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False, is_count: bool = False
    ) -> float:
        """See `Forecaster`."""
        law = law_of(seen, coming, grows_with_ranks=is_shared, is_count=is_count)
        if law is None:
            return super().quantity(_most_alike(seen, coming), coming, is_shared=is_shared)
        value = law.of(coming)
        if is_shared and RANKS in law.untested:
            # Weak scaling until a run at another scale shows otherwise: files of one rank keep their size.
            value *= coming.ranks / seen[-1].context.ranks
        return value

    def first(self, seen: Sequence[Observation], ends: Sequence[float], coming: Context) -> float | None:
        """See `Forecaster`."""
        # Two job numbers or times lie on some line, too.
        law = law_of(seen, coming, is_tested=True)
        if law is not None and all(_is_exact(law.of(one.context), one.value) for one in seen):
            return law.of(coming)
        return super().first(seen, ends, coming)


class LastRun:
    """Forecasts the values of the last run; files that all ranks write together grow with the ranks."""

    def quantity(
        self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False, is_count: bool = False
    ) -> float:
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
    """The past runs that share most numbers with the coming run, in their order."""
    shared = [sum(one.context.numbers.get(key) == value for key, value in coming.numbers.items()) for one in seen]
    return [one for one, count in zip(seen, shared, strict=True) if count == max(shared)]
