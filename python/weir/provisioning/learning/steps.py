"""Steps of a build: each is computed once, wherever the pool computes it, and its answer is kept in the archive."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from weir.provisioning.learning.archive import Archive
from weir.simulation.sweeps.pools import Pool, Task

VERSION = 2
"""Number of the method, raised with each change after which old answers would be wrong."""
T = TypeVar("T", bound=Task)
A = TypeVar("A", bound=msgspec.Struct)


def key_of(*parts: Any) -> str:
    """Make the key of a step from all that its answer depends on.

    Args:
        parts: Names, numbers, settings and digests.
    """
    return hashlib.blake2b(msgspec.json.encode((VERSION, *parts), order="sorted"), digest_size=16).hexdigest()


def run_steps(
    archive: Archive,
    pool: Pool,
    tasks: Sequence[T],
    work: Callable[[T, Callable[[], bool]], A],
    kind: type[A],
    progress: Callable[[], object],
) -> list[A]:
    """Compute steps that the archive lacks.

    Args:
        pool: The place of the computation.
        tasks: The steps; none depends on another.
        work: The computation of a step.
        kind: Type of the answers.
        progress: Called after each step.

    Returns:
        The answers in the order of the steps.
    """
    found: dict[str, A] = {}
    missing = []
    for task in tasks:
        answer = archive.answer(task.key)
        if answer is None:
            missing.append(task)
        else:
            found[task.key] = msgspec.json.decode(answer, type=kind)
            progress()
    with closing(pool.answers(work, missing)) as answers:
        for task, told in answers:
            archive.finish(task.key, msgspec.json.encode(told))
            found[task.key] = told
            progress()
    return [found[task.key] for task in tasks]
