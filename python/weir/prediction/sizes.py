"""Sizes of a pattern's files in the next run, by the simplest shape that the past shows.

The shapes: all sizes equal; linear in the rank; all equal except those of the first and the last rank; equal along one
axis (a size for each step, or for each rank); each file its own size. The forecaster follows changes from run to run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.prediction.axes import RANK, Axis, Value
from weir.prediction.context import Context
from weir.prediction.forecasters import Forecaster
from weir.prediction.laws import Observation
from weir.prediction.roles import Sample
from weir.tracing.records import SHARED

ALIKE = 0.01
"""Sizes within this part of the largest count as one size: their middle is then half of that from each."""
_LAWS_MAX = 8
"""Most places on an axis with a law each; beyond it all follow their mean, because a fit takes up to a second."""

_RANKS_OF_A_LINE_MIN = 3
"""Fewest ranks whose sizes show a line."""

Place = tuple[Value, ...]
Sizes = Callable[[Place], int]
"""The size of the file at a place in bytes; a place has the file's values on the axes, in their order."""


def sizes_of(
    axes: Sequence[Axis],
    samples: Sequence[Sample],
    places: Sequence[Place],
    coming: Context,
    forecaster: Forecaster,
) -> Sizes:
    """Find the shape of the sizes and forecast it.

    Args:
        axes: The axes of the pattern.
        samples: The pattern's files in past runs, oldest first.
        places: The places of the coming run's files.
        coming: The coming run.
        forecaster: The forecaster of numbers.

    Returns:
        The size of the file at each place.
    """
    seen = [_by_place(axes, sample) for sample in samples]
    is_shared = any(
        instance.creation.rank == SHARED and instance.creation.writers > 1 for instance in samples[-1].instances
    )

    def quantity(values: Sequence[float]) -> float:
        observations = [Observation(sample.context, value) for sample, value in zip(samples, values, strict=True)]
        return forecaster.quantity(observations, coming, is_shared=is_shared) * coming.problem_size

    if all(_are_alike(list(sizes.values())) for sizes in seen):
        size = _whole(quantity([_middle(list(sizes.values())) for sizes in seen]))
        return lambda place: size
    linear = _linear(axes, seen, places, quantity)
    if linear is not None:
        return linear
    ends = _ends(axes, seen, samples, coming, quantity)
    if ends is not None:
        return ends
    for index in range(len(axes)):
        profiles = [_profile(index, sizes) for sizes in seen]
        if all(_are_alike(group) for profile in profiles for group in profile.values()):
            middles = [{value: _middle(group) for value, group in profile.items()} for profile in profiles]
            new = sorted({place[index] for place in places}, key=_sorting)
            return _along(index, middles, new, axes[index].field != RANK, quantity, forecaster)
    return _each(seen, quantity)


def _by_place(axes: Sequence[Axis], sample: Sample) -> dict[Place, int]:
    return {tuple(axis.of(one) for axis in axes): one.creation.size_bytes for one in sample.instances}


def _are_alike(sizes: Sequence[int]) -> bool:
    return max(sizes) - min(sizes) <= ALIKE * max(sizes)


def _middle(sizes: Sequence[int]) -> float:
    return (max(sizes) + min(sizes)) / 2


def _whole(size: float) -> int:
    return max(round(size), 0)


def _profile(index: int, sizes: dict[Place, int]) -> dict[Value, list[int]]:
    profile: dict[Value, list[int]] = {}
    for place, size in sizes.items():
        profile.setdefault(place[index], []).append(size)
    return profile


@dataclass(frozen=True, slots=True)
class _Line:
    """Sizes that are linear in the rank."""

    rank: int
    """First of the ranks."""
    size_bytes: float
    """Size at the first rank."""
    slope_bytes: float
    """Growth from rank to rank."""
    ranks: int
    """Number of ranks on the line."""

    def at(self, rank: int) -> float:
        return self.size_bytes + self.slope_bytes * (rank - self.rank)


def _line(profile: dict[Value, list[int]]) -> _Line | None:
    """The line through the sizes of each rank; None where a size lies off it."""
    sizes = sorted((rank, _middle(group)) for rank, group in profile.items() if isinstance(rank, int))
    if len(sizes) < 2 or not all(_are_alike(group) for group in profile.values()):
        return None
    (first, low), (last, high) = sizes[0], sizes[-1]
    line = _Line(first, low, (high - low) / (last - first), len(sizes))
    is_straight = all(abs(line.at(rank) - size) <= ALIKE / 2 * size for rank, size in sizes)
    return line if is_straight else None


def _linear(
    axes: Sequence[Axis],
    seen: Sequence[dict[Place, int]],
    places: Sequence[Place],
    quantity: Callable[[Sequence[float]], float],
) -> Sizes | None:
    """A first size and a growth from rank to rank, each forecast by itself; ranks that no run had go on along the line.

    Two ranks lie on some line, so one run at least has three.
    """
    if not axes or axes[-1].field != RANK:
        return None
    lines = [line for sizes in seen if (line := _line(_profile(len(axes) - 1, sizes))) is not None]
    if len(lines) < len(seen) or max(line.ranks for line in lines) < _RANKS_OF_A_LINE_MIN:
        return None
    begin = lines[-1].rank
    firsts = [line.at(begin) for line in lines]
    rises = lines[-1].slope_bytes > 0
    if min(firsts) < 0 or any((line.slope_bytes > 0) != rises for line in lines):
        return None
    growth = quantity([abs(line.slope_bytes) for line in lines]) * (1 if rises else -1)
    coming = _Line(begin, quantity(firsts), growth, lines[-1].ranks)
    ranks = [place[-1] for place in places]
    if any(isinstance(rank, int) and coming.at(rank) < 0 for rank in ranks):
        return None
    return lambda place: _whole(coming.at(place[-1])) if isinstance(place[-1], int) else 0


def _ends(
    axes: Sequence[Axis],
    seen: Sequence[dict[Place, int]],
    samples: Sequence[Sample],
    coming: Context,
    quantity: Callable[[Sequence[float]], float],
) -> Sizes | None:
    """A size for the first rank's files, one for the last's and one for those between."""
    if not axes or axes[-1].field != RANK or any(sample.context.ranks < 3 for sample in samples):
        return None

    def part(rank: Value, ranks: int) -> str:
        return "first" if rank == 0 else "last" if rank == ranks - 1 else "between"

    groups: list[dict[str, list[int]]] = []
    for sizes, sample in zip(seen, samples, strict=True):
        groups.append({})
        for place, size in sizes.items():
            groups[-1].setdefault(part(place[-1], sample.context.ranks), []).append(size)
    if any(len(group) < 3 or not all(_are_alike(sizes) for sizes in group.values()) for group in groups):
        return None
    forecasts = {
        name: _whole(quantity([_middle(group[name]) for group in groups])) for name in ("first", "between", "last")
    }
    return lambda place: forecasts[part(place[-1], coming.ranks)]


def _along(
    index: int,
    profiles: Sequence[dict[Value, float]],
    values: Sequence[Value],
    is_ordered: bool,
    quantity: Callable[[Sequence[float]], float],
    forecaster: Forecaster,
) -> Sizes:
    """A size for each value on one axis; new values continue the series, or take the mean."""
    last = profiles[-1]
    common = [value for value in last if all(value in profile for profile in profiles)]
    if len(common) == len(last) <= _LAWS_MAX and not _are_proportional(profiles, common):
        forecasts = {value: quantity([profile[value] for profile in profiles]) for value in last}
    else:
        # Only values that all runs have count, so that a longer run does not look like one with larger files.
        means = [_mean([profile[value] for value in common or profile]) for profile in profiles]
        factor = quantity(means) / means[-1] if means[-1] else 1.0
        forecasts = {value: size * factor for value, size in last.items()}
    missing = [value for value in values if value not in forecasts]
    if missing and is_ordered:
        known = [forecasts[value] for value in sorted(forecasts, key=_sorting)]
        forecasts |= dict(zip(missing, forecaster.series(known, len(missing)), strict=True))
    mean = _mean(list(forecasts.values()))
    return lambda place: _whole(forecasts.get(place[index], mean))


def _are_proportional(profiles: Sequence[dict[Value, float]], common: Sequence[Value]) -> bool:
    """Whether the sizes at all places grow or shrink together, from run to run."""
    last = profiles[-1]
    total = sum(last[value] for value in common)
    for profile in profiles:
        scale = total / (sum(profile[value] for value in common) or 1.0)
        if any(abs(profile[value] * scale - last[value]) > ALIKE / 2 * last[value] for value in common):
            return False
    return True


def _each(seen: Sequence[dict[Place, int]], quantity: Callable[[Sequence[float]], float]) -> Sizes:
    """Each file as in the last run, scaled with the mean of all; new files take the mean."""
    means = [_mean(list(sizes.values())) for sizes in seen]
    mean = quantity(means)
    factor = mean / means[-1] if means[-1] else 1.0
    return lambda place: _whole(seen[-1][place] * factor if place in seen[-1] else mean)


def _mean(sizes: Sequence[float]) -> float:
    return sum(sizes) / len(sizes)


def _sorting(value: Value) -> tuple[int, int, str]:
    return (0, value, "") if isinstance(value, int) else (1, 0, value)
