"""Parameters of generators: the fields of a dataclass, read from a table of a scenario's file."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from weir.simulation.documents import REQUIRED, Table
from weir.simulation.workload import Work

STEPS_MAX = 50_000_000
"""Steps of one job: a step takes 57 bytes here, so a mistyped number must not take the machine's memory."""


class Generator(Protocol):
    """A maker of a job's work, whose parameters are its fields."""

    @property
    def processes(self) -> int:
        """Processes of the job."""

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice; otherwise all copies of a job share one work."""

    def work(self, random: np.random.Generator) -> Work:
        """Make the work of one job.

        Args:
            random: Source of all dice.
        """


PARAMETER_KINDS = ("whole", "size", "seconds", "fraction", "switch", "choice")
"""Kinds of parameters, each with a function here that declares one."""
Kind = TypeVar("Kind")


def whole(default: int | None, meaning: str, *, least: int = 0, most: int = 2**31) -> Any:
    """Declare a whole number.

    Args:
        default: The number where the key is absent; None where it may not be.
        meaning: The number's meaning, in words.
        least: Least allowed number.
        most: Greatest allowed number.

    Returns:
        The field.
    """
    return _field(default, meaning, "whole", least=least, most=most)


def size(default: int | None, meaning: str, *, least: int = 1) -> Any:
    """Declare a number of bytes.

    Args:
        default: The bytes where the key is absent; None where it may not be.
        meaning: The number's meaning, in words.
        least: Least allowed number of bytes.

    Returns:
        The field.
    """
    return _field(default, meaning, "size", least=least)


def seconds(default: float | None, meaning: str) -> Any:
    """Declare a time.

    Args:
        default: The seconds where the key is absent; None where it may not be.
        meaning: The time's meaning, in words.

    Returns:
        The field.
    """
    return _field(default, meaning, "seconds")


def fraction(default: float, meaning: str) -> Any:
    """Declare a part of the whole.

    Args:
        default: The part where the key is absent.
        meaning: The part's meaning, in words.

    Returns:
        The field.
    """
    return _field(default, meaning, "fraction")


def switch(default: bool, meaning: str) -> Any:
    """Declare a switch.

    Args:
        default: The value where the key is absent.
        meaning: The switch's meaning, in words.

    Returns:
        The field.
    """
    return _field(default, meaning, "switch")


def choice(default: str | None, meaning: str, allowed: Sequence[str]) -> Any:
    """Declare one of some texts.

    Args:
        default: The text where the key is absent; None where it may not be.
        meaning: The text's meaning, in words.

    Returns:
        The field.
    """
    return _field(default, meaning, "choice", allowed=tuple(allowed))


def _field(default: Any, meaning: str, kind: str, **bounds: Any) -> Any:
    metadata = {"kind": kind, "meaning": meaning, "bounds": bounds}
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def read_parameters(kind: type[Kind], table: Table) -> Kind:
    """Read the parameters of a generator.

    Args:
        kind: The generator's dataclass.
        table: The table, which may have other keys.

    Raises:
        ScenarioError: A parameter is missing or not allowed; the error names the file, the line and the key.
    """
    values = {}
    for field in dataclasses.fields(cast(Any, kind)):
        default = REQUIRED if field.default is dataclasses.MISSING else field.default
        values[field.name] = getattr(table, field.metadata["kind"])(field.name, default, **field.metadata["bounds"])
    try:
        return kind(**values)
    except ValueError as error:
        raise table.error(None, str(error)) from error


def node_of_streams(processes: int, processes_per_node: int) -> tuple[int, np.ndarray[Any, np.dtype[np.uint32]]]:
    """Put processes on nodes, one node after the other.

    Args:
        processes: Number of processes.
        processes_per_node: Processes of each node.

    Returns:
        The number of nodes, and the node of each process, shape (processes,).
    """
    nodes = np.arange(processes, dtype=np.uint32) // np.uint32(processes_per_node)
    return -(-processes // processes_per_node), nodes


def check_steps(count: int, words: str) -> None:
    """Refuse work with too many steps.

    Args:
        count: The number of steps.
        words: The parameters that make them, in words.

    Raises:
        ValueError: There are more than `STEPS_MAX`.
    """
    if count > STEPS_MAX:
        raise ValueError(f"{words} make {count} steps, and a job has at most {STEPS_MAX}")
