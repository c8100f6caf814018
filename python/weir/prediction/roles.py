"""The role of each field of a name: constant, rank, number of ranks, argument, counter, or unpredictable.

A number changes with the ranks only where runs show it: runs with other numbers of ranks have other numbers there, or
the files of one run are numbered by the ranks that made them. A number that merely equals the number of ranks, as the 4
in `/home/user4` does in runs of four ranks, stays as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from weir.prediction.context import RANKS, Context
from weir.prediction.history import Instance, PastRun
from weir.prediction.names import FIELD, in_file_name
from weir.prediction.unforeseen import (
    A_JOB,
    A_PROCESS,
    A_TIME,
    are_process_numbers,
    is_made_anew,
    reason_of_text,
)

_OF = re.compile(r"[-_.]?of[-_.]?")
"""The word between the number of a rank and the number of ranks, as in `part00003-of-00008`."""

Kind = Literal["constant", "number", "rank", "quotient", "remainder", "tied", "counter", "listed", "unpredictable"]


@dataclass(frozen=True, slots=True)
class Role:
    """The part that a field plays in the names of a pattern."""

    kind: Kind
    text: str = ""
    """A constant's text, a number's option, or the reason why a field is unpredictable."""
    width: int = 0
    """Digits of a padded number; 0 where it is not padded."""
    slope: int = 1
    """A factor of a rank or of another field, or the divisor of a rank."""
    offset: int = 0
    other: int = -1
    """The field that a tied field follows."""
    values: tuple[int | str, ...] = ()
    """The values of a listed field."""

    def spell(self, value: int | str) -> str:
        """Spell a value of the field.

        Returns:
            The field's text, padded where the role is.
        """
        return f"{value:0{self.width}d}" if isinstance(value, int) and value >= 0 else str(value)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run's instances of a pattern."""

    context: Context
    started: float
    """Unix time of the run's start."""
    instances: list[Instance]
    ended: float = 0.0
    """Unix time of the run's end."""
    processes: frozenset[int] = frozenset()
    """Numbers of the run's processes."""


def samples_of(past: Sequence[PastRun], skeleton: str) -> list[Sample]:
    """Collect the files of a pattern.

    Args:
        past: Past runs of a program, oldest first.
        skeleton: Skeleton of the names.

    Returns:
        The files of each run that has some, oldest first.
    """
    return [
        Sample(one.context, one.run.started, one.groups[skeleton], one.run.ended, one.run.process_numbers)
        for one in past
        if skeleton in one.groups
    ]


def shows_scaling(samples: Sequence[Sample]) -> bool:
    """Decide whether runs can show what changes with the number of ranks.

    Args:
        samples: Files of past runs.

    Returns:
        Whether the runs have different numbers of ranks.
    """
    return len({sample.context.ranks for sample in samples}) > 1


def evenly_padded(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Divide samples by the padding of numbers: `run.7` and `run.007` belong to two patterns.

    Args:
        samples: Files of past runs with one skeleton.

    Returns:
        Samples of each padding.
    """
    for field in range(len(samples[0].instances[0].values)):
        width = _width([instance.name.fields[field] for sample in samples for instance in sample.instances])
        role = Role("counter", width=width)
        parts: list[list[Sample]] = [[], []]
        for sample in samples:
            alike: list[list[Instance]] = [[], []]
            for instance in sample.instances:
                alike[role.spell(instance.values[field]) == instance.name.fields[field]].append(instance)
            for part, instances in zip(parts, alike, strict=True):
                if instances:
                    part.append(replace(sample, instances=instances))
        if all(parts):
            return [group for part in parts for group in evenly_padded(part)]
    return [list(samples)]


def roles_of(samples: Sequence[Sample]) -> list[Role]:
    """Find the role of each field of a pattern, by all its instances in all runs that have it.

    Args:
        samples: The pattern's files in past runs.

    Returns:
        The roles, in the order of the fields.
    """
    fields = len(samples[0].instances[0].values)
    roles: list[Role] = []
    for field in range(fields):
        roles.append(_role(samples, field, roles))
    return roles


def _role(samples: Sequence[Sample], field: int, before: Sequence[Role]) -> Role:
    texts = [instance.name.fields[field] for sample in samples for instance in sample.instances]
    width = _width(texts)
    known = _by_run(samples, field, width)
    if known is not None:
        return known
    if _is_stated_count(samples, field, before):
        return Role("number", text=RANKS, width=width)
    if len(set(texts)) == 1:
        if len(samples) == 1 and is_made_anew(texts[0]):
            return Role("unpredictable", text=reason_of_text(texts))
        if _are_process_numbers(samples, field):
            return Role("unpredictable", text=A_PROCESS)
        return Role("rank", width=width) if _is_padded_rank_of_one(samples, field) else Role("constant", text=texts[0])
    if not all(isinstance(instance.values[field], int) for sample in samples for instance in sample.instances):
        return _random(samples, field)
    return _by_rank(samples, field, width) or _tied(samples, field, width, before) or _counting(samples, field, width)


def _width(texts: Sequence[str]) -> int:
    """Digits of padded numbers: the length of any number that begins with a nought."""
    padded = [text for text in texts if len(text) > 1 and text.startswith("0")]
    return max((len(text) for text in padded), default=0)


def _by_run(samples: Sequence[Sample], field: int, width: int) -> Role | None:
    """A number of the whole run, its ranks or an argument; both took several values, so that it is no accident."""
    keys = set(samples[0].context.numbers)
    for sample in samples:
        keys &= sample.context.numbers.keys()
    if len({instance.values[field] for sample in samples for instance in sample.instances}) == 1:
        return None
    for key in sorted(keys, key=lambda key: (key != RANKS, key)):
        if all(
            instance.values[field] == sample.context.numbers[key] for sample in samples for instance in sample.instances
        ):
            return Role("number", text=key, width=width)
    return None


def _is_stated_count(samples: Sequence[Sample], field: int, before: Sequence[Role]) -> bool:
    """Whether names say of how many ranks each is one, as `part3of8` does: a single run shows this by itself."""
    name = samples[0].instances[0].name
    if field == 0 or before[-1].kind != "rank" or before[-1].offset not in (0, 1):
        return False
    between = FIELD.split(name.skeleton)[field]
    return _OF.fullmatch(between) is not None and all(
        instance.values[field] == sample.context.ranks for sample in samples for instance in sample.instances
    )


def _is_padded_rank_of_one(samples: Sequence[Sample], field: int) -> bool:
    """Whether a single process named a file by its rank: by a padded nought, as no constant is written."""
    if not in_file_name(samples[0].instances[0].name.skeleton, field):
        return False
    return all(
        sample.context.ranks == 1
        and all(
            instance.creation.rank == 0 and set(instance.name.fields[field]) == {"0"} for instance in sample.instances
        )
        for sample in samples
    ) and all(len(instance.name.fields[field]) > 1 for sample in samples for instance in sample.instances)


def _random(samples: Sequence[Sample], field: int) -> Role:
    texts = [instance.name.fields[field] for sample in samples for instance in sample.instances]
    return _listed(samples, field, 0) or Role("unpredictable", text=reason_of_text(texts))


def _by_rank(samples: Sequence[Sample], field: int, width: int) -> Role | None:
    pairs = {(instance.creation.rank, instance.values[field]) for sample in samples for instance in sample.instances}
    numbers = [(rank, value) for rank, value in pairs if isinstance(value, int)]
    ranks = {rank for rank, _ in numbers}
    if min(ranks) < 0 or len(ranks) < 2:
        return None
    offset = numbers[0][1] - numbers[0][0]
    if all(value - rank == offset for rank, value in numbers):
        return Role("rank", width=width, offset=offset)
    divisor = min((rank for rank, value in numbers if value == 1), default=0)
    if divisor > 1 and all(value == rank // divisor for rank, value in numbers):
        return Role("quotient", width=width, slope=divisor)
    cycle = max(value for _, value in numbers) + 1
    if cycle > 1 and max(ranks) >= cycle and all(value == rank % cycle for rank, value in numbers):
        return Role("remainder", width=width, slope=cycle)
    return None


def _tied(samples: Sequence[Sample], field: int, width: int, before: Sequence[Role]) -> Role | None:
    """A field that follows an earlier field, as where a step stands in the folder's and in the file's name."""
    for other, role in enumerate(before):
        if role.kind not in ("counter", "rank"):
            continue
        pairs = {
            (instance.values[other], instance.values[field]) for sample in samples for instance in sample.instances
        }
        numbers = sorted((one, two) for one, two in pairs if isinstance(one, int) and isinstance(two, int))
        (first, value), (last, end) = numbers[0], numbers[-1]
        if last == first or (end - value) % (last - first):
            continue
        slope = (end - value) // (last - first)
        if slope and all(two == value + slope * (one - first) for one, two in numbers):
            return Role("tied", width=width, slope=slope, offset=value - slope * first, other=other)
    return None


def _counting(samples: Sequence[Sample], field: int, width: int) -> Role:
    """A counter where each run counts evenly, a list where each run has the same values, else unpredictable.

    Directories of one run alone are a list, too: what has not varied stays.
    """
    sets = [_values(sample, field) for sample in samples]
    if all(is_even(values) for values in sets):
        return Role("counter", width=width)
    listed = _listed(samples, field, width)
    if listed is not None:
        return listed
    if all(_looks_like_time(values, sample) for values, sample in zip(sets, samples, strict=True)):
        return Role("unpredictable", text=A_TIME)
    if _are_process_numbers(samples, field):
        return Role("unpredictable", text=A_PROCESS)
    if len(samples) == 1 and not in_file_name(samples[0].instances[0].name.skeleton, field):
        return Role("listed", width=width, values=tuple(sets[0]))
    return Role("unpredictable", text="a number without a rule")


def _are_process_numbers(samples: Sequence[Sample], field: int) -> bool:
    return all(are_process_numbers(_values(sample, field), sample.processes) for sample in samples)


def _values(sample: Sample, field: int) -> list[int]:
    return sorted({value for instance in sample.instances if isinstance(value := instance.values[field], int)})


def is_even(values: Sequence[int]) -> bool:
    """Decide whether numbers lie equally far apart.

    Args:
        values: Numbers, ascending.

    Returns:
        Whether they do; fewer than three always do.
    """
    return len(values) < 3 or all(after - before == values[1] - values[0] for before, after in pairwise(values))


def _listed(samples: Sequence[Sample], field: int, width: int) -> Role | None:
    """The same few values in every run; one run alone shows nothing."""
    sets = [frozenset(instance.values[field] for instance in sample.instances) for sample in samples]
    if len(set(sets)) != 1 or len(samples) < 2:
        return None
    return Role("listed", width=width, values=tuple(sorted(sets[0], key=str)))


def _looks_like_time(values: Sequence[int], sample: Sample) -> bool:
    """Unix seconds within a month of the run, or the digits of a date."""
    month = 31 * 86400
    return all(
        abs(value - sample.started) < month or (len(str(value)) in (8, 14) and str(value)[:2] in ("19", "20"))
        for value in values
    )


def why_unpredictable(samples: Sequence[Sample], field: int) -> str:
    """Guess the meaning of a number that changes from run to run without a rule.

    Args:
        samples: The pattern's files in past runs.

    Returns:
        The meaning in words.
    """
    if all(_looks_like_time(_values(sample, field), sample) for sample in samples):
        return A_TIME
    return A_PROCESS if _are_process_numbers(samples, field) else A_JOB
