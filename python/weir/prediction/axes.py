"""The axes through which the names of a pattern count, and the values on the axes in the next run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from weir.prediction.context import Context
from weir.prediction.forecasters import Forecaster
from weir.prediction.history import Instance
from weir.prediction.laws import Observation
from weir.prediction.names import in_file_name
from weir.prediction.roles import Role, Sample, is_even, shows_scaling

RANK = -1
"""Index of the axis of ranks, which has no field."""

Value = int | str
"""A position on an axis: a number, or a text of a listed field."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: a field, or the ranks, through which the names of a pattern count."""

    field: int
    """The field of the name, or `RANK`."""

    def of(self, instance: Instance) -> Value:
        """Find the position of an instance on the axis."""
        return instance.creation.rank if self.field == RANK else instance.values[self.field]


def axes_of(roles: Sequence[Role], samples: Sequence[Sample]) -> list[Axis]:
    """Find the axes of a pattern.

    Args:
        roles: Role of each field.
        samples: The pattern's files in past runs, oldest first.

    Returns:
        The axes, the one that turns slowest first, the ranks last.
    """
    last = max(samples[-1].instances, key=lambda instance: instance.creation.rank).creation.rank
    ordered = sorted(
        (instance for instance in samples[-1].instances if instance.creation.rank == last),
        key=lambda instance: instance.creation.order,
    )
    axes = [Axis(field) for field, role in enumerate(roles) if role.kind in ("counter", "listed")]
    axes.sort(key=lambda axis: sum(axis.of(one) != axis.of(other) for one, other in pairwise(ordered)))
    has_ranks = any(role.kind in ("rank", "quotient", "remainder") for role in roles)
    return [*axes, Axis(RANK)] if has_ranks else axes


def is_product(axes: Sequence[Axis], sample: Sample) -> bool:
    """Decide whether a run has every combination of the values on the axes, once.

    Args:
        axes: Axes of the pattern.
        sample: The pattern's files in the run.

    Returns:
        Whether it has.
    """
    places = {tuple(axis.of(instance) for axis in axes) for instance in sample.instances}
    expected = 1
    for axis in axes:
        expected *= len({axis.of(instance) for instance in sample.instances})
    return len(places) == len(sample.instances) == expected


def coming_values(
    axis: Axis, roles: Sequence[Role], samples: Sequence[Sample], coming: Context, forecaster: Forecaster
) -> list[Value] | None:
    """Predict the values on an axis in the coming run.

    Args:
        roles: Role of each field of the pattern.
        samples: The pattern's files in past runs, oldest first.
        forecaster: Forecaster of numbers.

    Returns:
        The values, in their order; None where they have no rule.
    """
    if axis.field != RANK and roles[axis.field].kind == "listed":
        return list(roles[axis.field].values)
    seen = [_numbers(axis, sample) for sample in samples]
    if axis.field == RANK:
        return _ranks(seen, samples, coming, forecaster)
    contexts = [sample.context for sample in samples]
    counts = [Observation(context, len(values)) for context, values in zip(contexts, seen, strict=True)]
    strides = [
        Observation(context, values[1] - values[0])
        for context, values in zip(contexts, seen, strict=True)
        if len(values) > 1
    ]
    # Runs of one scale show no number that follows the ranks, but may have a file for each rank.
    alike = coming if shows_scaling(samples) else coming.at(contexts[-1].ranks)
    stride = round(forecaster.quantity(strides, alike)) if strides else 1
    starts = [Observation(context, values[0]) for context, values in zip(contexts, seen, strict=True)]
    first = forecaster.first(starts, [_after(values, stride) for values in seen], alike)
    if first is None:
        return None
    is_of_files = in_file_name(samples[-1].instances[0].name.skeleton, axis.field)
    count = round(forecaster.quantity(counts, coming if is_of_files else alike, is_count=True))
    return [round(first) + stride * step for step in range(count)]


def _numbers(axis: Axis, sample: Sample) -> list[int]:
    return sorted({value for instance in sample.instances if isinstance(value := axis.of(instance), int)})


def _after(values: Sequence[int], stride: int) -> int:
    return values[-1] + (values[1] - values[0] if len(values) > 1 else stride)


def _ranks(
    seen: Sequence[Sequence[int]], samples: Sequence[Sample], coming: Context, forecaster: Forecaster
) -> list[Value]:
    """The ranks that will write: all ranks, a number of ranks by a law, evenly spaced ranks, or the last run's."""
    if all(list(ranks) == list(range(sample.context.ranks)) for ranks, sample in zip(seen, samples, strict=True)):
        return list(range(coming.ranks))
    last = seen[-1]
    if len(last) < 2 or not all(is_even(ranks) for ranks in seen):
        return [rank for rank in last if rank < coming.ranks]
    strides = {ranks[1] - ranks[0] for ranks in seen if len(ranks) > 1}
    reaches_end = all(
        ranks[-1] + last[1] - last[0] >= sample.context.ranks for ranks, sample in zip(seen, samples, strict=True)
    )
    if len(strides) == 1 and reaches_end:
        return list(range(last[0], coming.ranks, last[1] - last[0]))
    counts = [Observation(sample.context, len(ranks)) for ranks, sample in zip(seen, samples, strict=True)]
    count = round(forecaster.quantity(counts, coming, is_count=True))
    stride = last[1] - last[0] if len(strides) == 1 else max(coming.ranks // max(count, 1), 1)
    return [rank for step in range(count) if (rank := last[0] + stride * step) < coming.ranks]
