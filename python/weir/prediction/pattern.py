"""The files of one pattern of names in the next run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from weir.prediction.axes import RANK, Axis, Value, axes_of, coming_values, is_product
from weir.prediction.context import RANKS, Context
from weir.prediction.forecasters import Forecaster
from weir.prediction.history import Instance
from weir.prediction.names import ARGUMENT, FIELD, build
from weir.prediction.roles import Role, Sample, roles_of, why_unpredictable
from weir.prediction.sizes import Place, sizes_of
from weir.prediction.unforeseen import A_TIME, stamp_in
from weir.tracing.records import SHARED

_DATE_LENGTH = len("2026-01-31")


@dataclass(frozen=True, slots=True)
class Unpredictable:
    """Expected files with names that cannot be predicted."""

    pattern: str
    """The name, with unknown parts in angle brackets."""
    reason: str
    """The probable meaning of the unknown part."""
    files: int
    """Number of such files in the last run."""
    bytes_max: int
    """Size of the largest of these files."""


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected file, before its place among its rank's creations is known."""

    path: str
    rank: int
    size_bytes: int
    written_bytes: int
    writers: int
    layout: str | None
    turn: float
    """The file's turn among the creations of its rank, at the last run's pace."""
    span: tuple[float, float]
    """The first and the last turn of the pattern in the last run; later patterns wait until then."""


def expect(
    skeleton: str, samples: Sequence[Sample], coming: Context, forecaster: Forecaster, *, steps: int | None
) -> list[Expected] | Unpredictable:
    """Forecast the files of a pattern.

    Args:
        skeleton: The common part of the names.
        samples: The files of past runs with this skeleton, oldest first.
        coming: The coming run.
        forecaster: The forecaster of numbers.
        steps: Number of values of the outermost counter, where it is known.

    Returns:
        The expected files, or the reason why their names cannot be predicted.
    """
    stamped = _stamped(samples)
    if stamped is not None:
        return stamped
    roles = roles_of(samples)
    for field, role in enumerate(roles):
        if role.kind == "unpredictable":
            return _unpredictable(skeleton, roles, samples, field, role.text)
    axes = axes_of(roles, samples)
    if not all(is_product(axes, sample) for sample in samples):
        return _as_before(skeleton, roles, axes, samples, coming, forecaster)
    values: list[list[Value]] = []
    for axis in axes:
        found = coming_values(axis, roles, samples, coming, forecaster)
        if found is None:
            reason = why_unpredictable(samples, axis.field)
            return _unpredictable(skeleton, roles, samples, axis.field, reason)
        values.append(found)
    outermost = next((index for index, axis in enumerate(axes) if axis.field != RANK), None)
    if steps is not None and outermost is not None and roles[axes[outermost].field].kind == "counter":
        values[outermost] = _counted(values[outermost], steps)
    places = list(product(*values))
    size = sizes_of(axes, samples, places, coming, forecaster)
    template = _Template(skeleton, roles, axes, samples, coming)
    return [
        expected for place, turn in _turns(axes, samples, values) if (expected := template.at(place, turn, size(place)))
    ]


def _counted(values: Sequence[Value], count: int) -> list[Value]:
    numbers = [value for value in values if isinstance(value, int)]
    stride = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    return [numbers[0] + stride * step for step in range(count)] if numbers else []


class _Template:
    """Properties of each file in the last run beside its size."""

    def __init__(
        self, skeleton: str, roles: Sequence[Role], axes: Sequence[Axis], samples: Sequence[Sample], coming: Context
    ) -> None:
        self._skeleton, self._roles, self._axes, self._coming = skeleton, roles, axes, coming
        orders = _orders(samples)
        self._span = (float(orders[0]), float(orders[-1]))
        last = samples[-1]
        self._ranks_before = last.context.ranks
        self._sample = last.instances[0].creation
        self._ranks = {tuple(axis.of(one) for axis in axes): one.creation.rank for one in last.instances}
        self._rank_law = _rank_by_axis(axes, samples)
        layouts = Counter(one.creation.layout for one in last.instances)
        self._layout = layouts.most_common(1)[0][0]
        written = sum(one.creation.written_bytes for one in last.instances)
        held = sum(one.creation.size_bytes for one in last.instances)
        self._written_over_size = written / held if held else 1.0

    def at(self, place: Place, turn: float, size_bytes: int) -> Expected | None:
        """The file at a place; None where an argument of its name is not given."""
        rank = self._rank(place)
        path = build(self._skeleton, self._fields(place, rank), self._coming)
        if path is None:
            return None
        return Expected(
            path=path,
            rank=rank,
            size_bytes=size_bytes,
            written_bytes=round(size_bytes * self._written_over_size),
            writers=self._writers(rank),
            layout=self._layout,
            turn=turn,
            span=self._span,
        )

    def _rank(self, place: Place) -> int:
        if self._axes and self._axes[-1].field == RANK:
            rank = place[-1]
            return rank if isinstance(rank, int) else 0
        if place in self._ranks:
            rank = self._ranks[place]
        elif self._rank_law is not None:
            index, slope, offset = self._rank_law
            value = place[index]
            rank = value * slope + offset if isinstance(value, int) else 0
        else:
            rank = self._sample.rank
        if rank == SHARED and self._coming.ranks == 1:
            return 0
        return rank if rank < self._coming.ranks else 0

    def _writers(self, rank: int) -> int:
        if rank != SHARED:
            return 1
        writers = self._sample.writers
        return self._coming.ranks if writers == self._ranks_before else min(writers, self._coming.ranks)

    def _fields(self, place: Place, rank: int) -> tuple[str, ...]:
        on_axes = {axis.field: value for axis, value in zip(self._axes, place, strict=True)}
        values: list[Value] = []
        for field, role in enumerate(self._roles):
            values.append(_value(field, role, on_axes, values, rank, self._coming))
        return tuple(role.spell(value) for role, value in zip(self._roles, values, strict=True))


def _value(
    field: int, role: Role, on_axes: dict[int, Value], before: Sequence[Value], rank: int, coming: Context
) -> Value:
    match role.kind:
        case "constant" | "unpredictable":
            return role.text
        case "number":
            return round(coming.numbers.get(role.text, 0))
        case "rank":
            return rank + role.offset
        case "quotient":
            return rank // role.slope
        case "remainder":
            return rank % role.slope
        case "tied":
            other = before[role.other]
            return other * role.slope + role.offset if isinstance(other, int) else other
        case "counter" | "listed":
            return on_axes[field]


def _rank_by_axis(axes: Sequence[Axis], samples: Sequence[Sample]) -> tuple[int, int, int] | None:
    """The axis that determines the writing rank, as where rank 4 k writes file k: its index, slope and offset."""
    for index, axis in enumerate(axes):
        pairs = {
            (value, one.creation.rank)
            for sample in samples
            for one in sample.instances
            if isinstance(value := axis.of(one), int)
        }
        ordered = sorted(pairs)
        if len(ordered) < 2 or ordered[0][0] == ordered[-1][0]:
            continue
        (first, rank), (last, end) = ordered[0], ordered[-1]
        slope = (end - rank) // (last - first)
        if slope > 0 and all(two == rank + slope * (one - first) for one, two in ordered):
            return index, slope, rank - slope * first
    return None


def _orders(samples: Sequence[Sample]) -> list[int]:
    """Positions of a pattern's files among the first writing rank's files, in the last run."""
    last = samples[-1].instances
    someone = min(one.creation.rank for one in last)
    return sorted(one.creation.order for one in last if one.creation.rank == someone)


def _turns(
    axes: Sequence[Axis], samples: Sequence[Sample], values: Sequence[Sequence[Value]]
) -> list[tuple[Place, float]]:
    """Each place with its turn among its rank's creations: as in the last run, and later at the last run's pace."""
    orders = _orders(samples)
    has_ranks = bool(axes) and axes[-1].field == RANK
    of_one = list(product(*values[:-1])) if has_ranks else list(product(*values))
    pace = min((after - before for before, after in pairwise(orders)), default=1)
    turns = [
        float(orders[at]) if at < len(orders) else float(orders[-1] + pace * (at - len(orders) + 1))
        for at in range(len(of_one))
    ]
    if not has_ranks:
        return list(zip(of_one, turns, strict=True))
    return [((*place, rank), turn) for place, turn in zip(of_one, turns, strict=True) for rank in values[-1]]


def _as_before(
    skeleton: str,
    roles: Sequence[Role],
    axes: Sequence[Axis],
    samples: Sequence[Sample],
    coming: Context,
    forecaster: Forecaster,
) -> list[Expected]:
    """The last run's files again, with a rank's files repeated on added ranks, where no rule covers all files."""
    by_rank: dict[int, list[Instance]] = {}
    for instance in samples[-1].instances:
        by_rank.setdefault(instance.creation.rank, []).append(instance)
    template = _Template(skeleton, roles, axes, samples, coming)
    before = samples[-1].context.ranks
    size = sizes_of(axes, samples, [], coming, forecaster)
    found: dict[str, Expected] = {}
    for rank in [SHARED, *range(coming.ranks)]:
        for instance in by_rank.get(rank if rank < before else rank % before, []):
            seen = tuple(axis.of(instance) for axis in axes)
            place = (*seen[:-1], rank) if axes and axes[-1].field == RANK else seen
            expected = template.at(place, float(instance.creation.order), size(seen))
            if expected is not None:
                found.setdefault(expected.path, expected)
    return list(found.values())


def _stamped(samples: Sequence[Sample]) -> Unpredictable | None:
    """Files whose names all have a time of the clock, which is another one in each run; None where one has none.

    A time that an argument gives is known before the run. A date in the name of a folder may be the user's own.
    """
    stamps: list[set[str]] = []
    shown = ""
    for sample in samples:
        stamps.append(set())
        for instance in sample.instances:
            name = instance.creation.name
            begin = sample.context.place_length(name)
            span = stamp_in(name, begin, sample.started, sample.ended)
            if span is None or any(name[slice(*span)] in text for text in sample.context.texts.values()):
                return None
            if len(samples) == 1 and span[1] - span[0] <= _DATE_LENGTH and "/" in name[span[1] :]:
                return None
            stamps[-1].add(name[slice(*span)])
            shown = f"{name[: span[0]]}<{A_TIME}>{name[span[1] :]}"
    if len(samples) > 1 and all(one == stamps[0] for one in stamps):
        return None
    last = samples[-1].instances
    return Unpredictable(shown, A_TIME, len(last), max(one.creation.size_bytes for one in last))


def _unpredictable(
    skeleton: str, roles: Sequence[Role], samples: Sequence[Sample], unknown: int, reason: str
) -> Unpredictable:
    last = samples[-1].instances
    return Unpredictable(
        pattern=_shown(skeleton, roles, unknown, reason, samples[-1].context),
        reason=reason,
        files=len(last),
        bytes_max=max(one.creation.size_bytes for one in last),
    )


def _shown(skeleton: str, roles: Sequence[Role], unknown: int, reason: str, context: Context) -> str:
    """The pattern for people: its constants, and the roles of its other fields."""
    words = []
    for field, role in enumerate(roles):
        if field == unknown:
            words.append(f"<{reason}>")
        elif role.kind == "number":
            words.append("<ranks>" if role.text == RANKS else f"<{role.text}>")
        else:
            words.append(role.text if role.kind == "constant" else f"<{role.kind}>")
    parts = skeleton.split(ARGUMENT)
    if len(parts) == 3:
        parts[1] = context.texts.get(parts[1], parts[1])
    pieces = FIELD.split("".join(parts))
    return pieces[0] + "".join(word + piece for word, piece in zip(words, pieces[1:], strict=True))
