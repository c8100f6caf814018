"""Creations as a Markov chain: the rival to which the paper compares ARIMA (section 5.5.1).

A state is a pattern of names with the steps of its fields and a size. A rank walks from state to state along the most
frequent transitions of earlier ranks. A chain of first order does not count its visits, so a walk leaves a state that
follows itself after the mean stay, and ends after the mean length of earlier walks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from weir.prediction.context import RANKS, Context
from weir.prediction.history import Instance, PastRun
from weir.prediction.names import build
from weir.prediction.pattern import Expected
from weir.prediction.roles import Role, roles_of, samples_of
from weir.tracing.records import SHARED

Step = tuple[str, int | str]
"""Origin of a field's value: `rank` and `before` with a difference, `ranks`, or `is` with the value itself."""


@dataclass(frozen=True, slots=True)
class _State:
    skeleton: str
    steps: tuple[Step, ...]
    widths: tuple[int, ...]
    size_bytes: int


class _Chain:
    """Transitions of the walks of one kind of rank."""

    def __init__(self) -> None:
        self._after: dict[_State | None, Counter[_State | None]] = defaultdict(Counter)
        self._stays: dict[_State, list[int]] = defaultdict(list)
        self._lengths: list[int] = []

    def learn(self, walk: Sequence[_State]) -> None:
        """Count the transitions of a walk."""
        before: _State | None = None
        for state, stay in groupby(walk):
            self._after[before][state] += 1
            self._stays[state].append(len(list(stay)))
            before = state
        self._after[before][None] += 1
        self._lengths.append(len(walk))

    def walk(self) -> Iterator[_State]:
        """The most probable walk."""
        remaining = _mean(self._lengths)
        state = self._likeliest(None)
        while state is not None and remaining > 0:
            stay = min(_mean(self._stays[state]), remaining)
            yield from [state] * stay
            remaining -= stay
            state = self._likeliest(state)

    def _likeliest(self, state: _State | None) -> _State | None:
        following = self._after.get(state)
        return following.most_common(1)[0][0] if following else None


def expect_by_chain(past: Sequence[PastRun], coming: Context) -> list[Expected]:
    """Walk every rank of the coming run through the chain of the ranks before it.

    Args:
        past: Runs of the program, oldest first.

    Returns:
        The expected files; of several with one path the first.
    """
    chains: dict[str, _Chain] = defaultdict(_Chain)
    skeletons = {skeleton for one in past for skeleton in one.groups}
    roles = {skeleton: roles_of(samples_of(past, skeleton)) for skeleton in skeletons}
    for one in past:
        for rank, walk in _walks(one, roles):
            chains[_kind(rank, one.context.ranks)].learn(walk)
    expected: dict[str, Expected] = {}
    for rank in [SHARED, *range(coming.ranks)]:
        chain = chains.get(_kind(rank, coming.ranks)) or (chains.get("other") if rank != SHARED else None)
        for found in _played(chain, rank, coming) if chain else ():
            expected.setdefault(found.path, found)
    return list(expected.values())


def _kind(rank: int, ranks: int) -> str:
    """The kind of a rank: the first and the last rank often behave unlike the others."""
    if rank == SHARED:
        return "shared"
    return "first" if rank == 0 else "last" if rank == ranks - 1 else "other"


def _walks(one: PastRun, roles: dict[str, list[Role]]) -> Iterator[tuple[int, list[_State]]]:
    by_rank: dict[int, list[Instance]] = defaultdict(list)
    for group in one.groups.values():
        for instance in group:
            by_rank[instance.creation.rank].append(instance)
    for rank, instances in by_rank.items():
        instances.sort(key=lambda instance: instance.creation.order)
        before: dict[str, Instance] = {}
        walk = []
        for instance in instances:
            skeleton = instance.name.skeleton
            walk.append(_state(instance, before.get(skeleton), roles[skeleton]))
            before[skeleton] = instance
        yield rank, walk


def _state(instance: Instance, before: Instance | None, roles: Sequence[Role]) -> _State:
    steps = tuple(
        _step(value, before.values[field] if before else None, instance.creation.rank, roles[field])
        for field, value in enumerate(instance.values)
    )
    widths = tuple(len(text) if text.startswith("0") else 0 for text in instance.name.fields)
    return _State(instance.name.skeleton, steps, widths, instance.creation.size_bytes)


def _step(value: int | str, before: int | str | None, rank: int, role: Role) -> Step:
    if isinstance(value, str):
        return ("is", value)
    if role.kind == "rank" and value == rank:
        return ("rank", 0)
    if role.kind == "number" and role.text == RANKS:
        return ("ranks", 0)
    if isinstance(before, int):
        return ("before", value - before)
    return ("is", value)


def _played(chain: _Chain, rank: int, coming: Context) -> Iterator[Expected]:
    before: dict[str, tuple[int | str, ...]] = {}
    for turn, state in enumerate(chain.walk()):
        values = tuple(
            _after(step, before[state.skeleton][field] if state.skeleton in before else 0, rank, coming)
            for field, step in enumerate(state.steps)
        )
        before[state.skeleton] = values
        fields = tuple(
            Role("counter", width=width).spell(value) for width, value in zip(state.widths, values, strict=True)
        )
        path = build(state.skeleton, fields, coming)
        if path is not None:
            size = round(state.size_bytes * coming.problem_size)
            writers = coming.ranks if rank == SHARED else 1
            yield Expected(path, rank, size, size, writers, None, float(turn), (turn, turn))


def _after(step: Step, before: int | str, rank: int, coming: Context) -> int | str:
    kind, value = step
    match kind:
        case "rank":
            return rank
        case "ranks":
            return coming.ranks
        case "before" if isinstance(before, int) and isinstance(value, int):
            return before + value
        case _:
            return value


def _mean(numbers: Sequence[int]) -> int:
    return round(sum(numbers) / len(numbers)) if numbers else 0
