"""The matrix of slowdowns: each task among instances of each other one, under several policies.

The interference paper's Table I has seven tasks of the IO500 on Lustre. Here are the same ones as kernels, on a store.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import msgspec

from weir.interference.collection import Run, collect
from weir.interference.errors import InterferenceError
from weir.interference.kernels import KERNELS
from weir.interference.plan import STORE, Interferer, Loaded, Plan, Program, under

TASKS = tuple(KERNELS)[:7]
"""The tasks of the paper's Table I."""
ROUNDS_MAX = 1000
BYTES_MAX = 16 << 20
"""A larger file is no matrix of ours."""
_Slowdown = Annotated[float, msgspec.Meta(gt=0, lt=1e9)]


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The slowdown of one task among others."""

    task: str
    interferer: str
    """The task whose instances were active."""
    slowdown: _Slowdown
    """Mean of the runs: the time of the task's operations over the time of the same ones alone."""
    runs: Annotated[tuple[_Slowdown, ...], msgspec.Meta(min_length=1)]
    """The slowdown of each run."""


class UnderPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The slowdowns under one policy."""

    policy: str
    quiet: dict[str, _Slowdown]
    """The slowdown of each task in a further run alone: its distance from 1 is the error of the others."""
    cells: Annotated[tuple[Cell, ...], msgspec.Meta(min_length=1)]

    @property
    def noise(self) -> tuple[float, float]:
        """The least and the greatest slowdown of tasks alone, and 1: a slowdown in between says nothing."""
        return min(*self.quiet.values(), 1.0), max(*self.quiet.values(), 1.0)

    def slowdown(self, task: str, interferer: str) -> float:
        """Look a slowdown up.

        Args:
            interferer: The task whose instances were active.

        Raises:
            InterferenceError: The matrix has no such pair.
        """
        for cell in self.cells:
            if (cell.task, cell.interferer) == (task, interferer):
                return cell.slowdown
        raise InterferenceError(f"the matrix has no slowdown of {task} among {interferer}")


class Matrix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slowdowns under several policies."""

    version: Literal[1] = 1
    """Version of this document."""
    tasks: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    instances: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    """Instances of an interferer that were active all the time."""
    seconds: float
    """Length of each run, in seconds."""
    store: str
    """Text of the store's cluster.toml."""
    policies: Annotated[tuple[UnderPolicy, ...], msgspec.Meta(min_length=1)]


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a matrix."""

    tasks: tuple[str, ...] = TASKS
    policies: tuple[str, ...] = ("fifo",)
    store: str = STORE
    """Text of a cluster.toml."""
    runs: int = 3
    """Number of runs of each pair."""
    instances: int = 3
    """Instances of the interferer that are active all the time."""
    seconds: float = 4.0
    """Length of each run, in seconds."""
    parallel: int = 1
    """Runs at the same time, each on a store of its own."""


def measure(conditions: Conditions, folder: Path, tell: Callable[[str], None]) -> Matrix:
    """Carry out the runs that are not complete.

    Args:
        folder: Folder of the runs, one part of it for each policy.
        tell: Takes a line about each run.

    Raises:
        InterferenceError: The folder has runs under other conditions, or a program fails.
        StoreError: A store does not come up.
    """
    loaded = _plan(conditions)
    found = tuple(
        _under(policy, conditions.tasks, collect(under(loaded, policy), folder / policy, tell))
        for policy in dict.fromkeys(conditions.policies)
    )
    return Matrix(
        tasks=conditions.tasks,
        instances=conditions.instances,
        seconds=conditions.seconds,
        store=conditions.store,
        policies=found,
    )


def _plan(conditions: Conditions) -> Loaded:
    """The plan whose runs are those of a matrix."""
    plan = Plan(
        version=1,
        target=tuple(
            Program(name=task, kernel=task, rounds=ROUNDS_MAX, seconds=conditions.seconds) for task in conditions.tasks
        ),
        interferer=tuple(
            Interferer(name=task, kernel=task, instances=(conditions.instances,)) for task in conditions.tasks
        ),
        repeats=conditions.runs,
        parallel=conditions.parallel,
    )
    # More runs at the same time do not make another matrix.
    same = msgspec.json.encode(msgspec.structs.replace(plan, parallel=1)) + conditions.store.encode()
    return Loaded(plan, conditions.store, hashlib.sha256(same).hexdigest())


def _under(policy: str, tasks: Sequence[str], runs: Sequence[Run]) -> UnderPolicy:
    slowdowns: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.is_reference:
            continue
        if run.slowdown is None:
            raise InterferenceError(
                f"no operation of {run.name} has a match in the run alone", hint="give more `seconds`"
            )
        slowdowns.setdefault((run.target, run.interferer), []).append(run.slowdown)
    cells = tuple(
        Cell(task=task, interferer=other, slowdown=fmean(of_pair), runs=tuple(of_pair))
        for (task, other), of_pair in slowdowns.items()
        if other
    )
    return UnderPolicy(policy=policy, quiet={task: fmean(slowdowns[task, ""]) for task in tasks}, cells=cells)


def read(path: Path) -> Matrix:
    """Read a matrix.

    Args:
        path: A file of JSON.

    Raises:
        InterferenceError: The file cannot be read, or is no matrix.
    """
    hint = "`weir interference matrix` writes one, named matrix.json"
    try:
        if not path.is_file():
            raise InterferenceError(f"{path} is not a file", hint=hint)
        with path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
        if len(text) > BYTES_MAX:
            raise InterferenceError(f"{path} is larger than {BYTES_MAX} bytes", hint=hint)
        matrix = msgspec.json.decode(text, type=Matrix)
    except (OSError, ValueError, RecursionError) as error:
        raise InterferenceError(f"{path} is no matrix of slowdowns: {error}", hint=hint) from error
    pairs = {(task, other) for task in matrix.tasks for other in matrix.tasks}
    for each in matrix.policies:
        if {(cell.task, cell.interferer) for cell in each.cells} != pairs:
            raise InterferenceError(f"{path}: under {each.policy}, not each pair of tasks has a slowdown", hint=hint)
    return matrix


def of_policy(matrix: Matrix, policy: str) -> UnderPolicy:
    """Choose the slowdowns under one policy.

    Raises:
        InterferenceError: The matrix was not measured under the policy.
    """
    for each in matrix.policies:
        if each.policy == policy:
            return each
    known = ", ".join(each.policy for each in matrix.policies)
    raise InterferenceError(f"the matrix was not measured under {policy}", hint=f"it was measured under {known}")
