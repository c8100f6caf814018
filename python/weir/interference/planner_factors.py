"""Interference factors of the planner's classes, from a matrix of slowdowns.

Each class of jobs stands for the task that is most like it in the mix of calls: the part of reads, of small and large
calls, of calls that go on where the last one ended, and the calls without bytes for each one with bytes.
"""

import math
from collections.abc import Sequence
from functools import cache

from weir.interference.errors import InterferenceError
from weir.interference.kernels import KERNELS, Step
from weir.interference.slowdowns import Matrix, of_policy
from weir.provisioning.behaviour.classes import BehaviourClass
from weir.provisioning.behaviour.traits import LARGE_BYTES, SMALL_BYTES
from weir.provisioning.pairwise.shape import METADATA_MAX, Shape, of
from weir.provisioning.sharing.interference_factors import Factor, FactorTable


def table(matrix: Matrix, policy: str, classes: Sequence[BehaviourClass], source: str) -> FactorTable:
    """Make the planner's factors.

    The excess over 1 among several instances is divided by their number, because the planner adds up the excesses of
    all jobs that run at the same time.

    Args:
        policy: A policy of the matrix.
        classes: The classes, by the jobs in their middle.
        source: Origin of the classes.

    Returns:
        A factor for each ordered pair of classes.

    Raises:
        InterferenceError: The matrix has no such policy, or a task that is no kernel.
    """
    measured = of_policy(matrix, policy)
    tasks = {each.name: nearest_task(of(each.centre), matrix.tasks) for each in classes}
    cells = {(cell.task, cell.interferer): cell for cell in measured.cells}
    factors = []
    for one, task in tasks.items():
        for other, interferer in tasks.items():
            cell = cells[task, interferer]
            factors.append(
                Factor(
                    one=one,
                    other=other,
                    same_node=True,
                    processes=1,
                    slowdown=round(_beside_one(cell.slowdown, matrix.instances), 3),
                    runs=len(cell.runs),
                    slowdown_max=round(_beside_one(max(cell.runs), matrix.instances), 3),
                )
            )
    stood_for = "; ".join(f"{name} by {task}" for name, task in tasks.items())
    return FactorTable(
        source=f"weir interference matrix under {policy}; classes: {source}",
        conditions=f"among {matrix.instances} instances, runs of {matrix.seconds:g} s; {stood_for}",
        factors=tuple(factors),
    )


def _beside_one(slowdown: float, instances: int) -> float:
    """The slowdown beside one of several instances; a run that was faster than alone is noise."""
    return max(1.0, 1.0 + (slowdown - 1.0) / instances)


def nearest_task(shape: Shape, tasks: Sequence[str]) -> str:
    """Find the task whose mix of calls is most like another mix.

    Args:
        tasks: Names of kernels.

    Returns:
        The name of one of them.

    Raises:
        InterferenceError: A name is that of no kernel.
    """
    unknown = set(tasks) - KERNELS.keys()
    if unknown:
        raise InterferenceError(f"there is no task {min(unknown)}", hint=f"there are {', '.join(KERNELS)}")
    own = _scaled(shape)
    return min(tasks, key=lambda task: math.dist(own, _scaled(task_shape(task))))


def _scaled(shape: Shape) -> tuple[float, ...]:
    return (shape.read, shape.small, shape.large, shape.sequential, shape.metadata / METADATA_MAX)


@cache
def task_shape(task: str) -> Shape:
    """Count the calls of a kernel's first round.

    Args:
        task: Name of a kernel.

    Returns:
        The mix of the calls.
    """
    steps = list(KERNELS[task].round(0))
    moved = [step for step in steps if step.kind in ("read", "write")]
    metadata = len(steps) - len(moved)
    if not moved:
        return Shape(read=0.5, small=0.0, large=0.0, sequential=0.0, metadata=METADATA_MAX)
    count = len(moved)
    return Shape(
        read=sum(step.kind == "read" for step in moved) / count,
        small=sum(step.size_bytes < SMALL_BYTES for step in moved) / count,
        large=sum(step.size_bytes >= LARGE_BYTES for step in moved) / count,
        sequential=_sequential(moved) / count,
        metadata=min(metadata / count, METADATA_MAX),
    )


def _sequential(moved: Sequence[Step]) -> int:
    """Calls that begin where the last one of their file ended, or at its begin."""
    ends: dict[tuple[str, str], int] = {}
    found = 0
    for step in moved:
        key = (step.kind, step.file)
        found += step.offset == ends.get(key, 0)
        ends[key] = step.offset + step.size_bytes
    return found
