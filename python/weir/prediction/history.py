"""Past runs of one program, taken apart for the models: contexts, and creations by the skeleton of their names."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.prediction.context import Context, NextRun, context_of, identity
from weir.prediction.names import Name, is_random_word, parse
from weir.tracing.records import Creation, Run


@dataclass(frozen=True, slots=True)
class Instance:
    """One creation with its name taken apart."""

    name: Name
    values: tuple[int | str, ...]
    """Values of the name's fields: numbers, and random-looking texts unchanged."""
    creation: Creation


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run, with the files that it made grouped by the skeletons of their names."""

    run: Run
    context: Context
    groups: dict[str, list[Instance]]


def comparable(runs: Sequence[Run], coming: NextRun) -> tuple[list[PastRun], float]:
    """Find the past runs of a program whose calls are most similar to the coming call.

    Two calls are similar by the options they have, and by the values that are no numbers and no part of a file's name.

    Args:
        runs: Runs of the past, of this program and of others.

    Returns:
        The past runs, oldest first, and their similarity to the coming one, from 0 to 1.
    """
    program = identity(coming.program, coming.arguments)
    past = [_past(run, coming.places) for run in runs if identity(run.program, run.arguments) == program]
    past.sort(key=lambda one: one.run.started)
    context = coming.context()
    named = {key for one in past for skeleton in one.groups for key in _arguments_named(skeleton)}
    likeness = [_likeness(one.context, context, named) for one in past]
    best = max(likeness, default=0.0)
    return [one for one, like in zip(past, likeness, strict=True) if like == best], best


def _past(run: Run, places: tuple[str, ...]) -> PastRun:
    context = context_of(run.arguments, ranks=run.ranks, places=places)
    groups: dict[str, list[Instance]] = {}
    for creation in run.creations:
        name = parse(creation.name, context)
        values = tuple(field if is_random_word(field) else int(field) for field in name.fields)
        groups.setdefault(name.skeleton, []).append(Instance(name, values, creation))
    return PastRun(run, context, groups)


def _arguments_named(skeleton: str) -> list[str]:
    return skeleton.split("\1")[1:2]


def _likeness(one: Context, other: Context, named: set[str]) -> float:
    """Common part of the options and texts of two calls; 1 where they are the same."""
    mine, theirs = _mode(one, named), _mode(other, named)
    union = len(mine | theirs)
    return len(mine & theirs) / union if union else 1.0


def _mode(context: Context, named: set[str]) -> set[tuple[str, str]]:
    options = {(flag, "") for flag in context.flags}
    return options | {(key, value) for key, value in context.texts.items() if key not in named}
