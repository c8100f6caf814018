"""Sequences of phases in which the processes of a job do the same, each with its own bytes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weir.simulation.workload import Bytes, Kind, Numbers, Steps, Work


class Sequence:
    """The phases of a job, one after the other. The steps of each process stand in the order of the phases."""

    def __init__(self, processes: int) -> None:
        """Begin without phases.

        Args:
            processes: Number of processes.
        """
        self.processes: Numbers = np.arange(processes, dtype=np.uint32)
        self._parts: list[Steps] = []

    def each(self, kind: Kind, **columns: ArrayLike) -> None:
        """Add a phase in which every process does one step.

        Args:
            kind: Work of the step.
            columns: Columns of the steps, each with a value for every process or one for all.
        """
        self._parts.append(Steps.of(len(self.processes), stream=self.processes, kind=kind, **columns))

    def one(self, kind: Kind, process: int = 0, **columns: ArrayLike) -> None:
        """Add a phase in which one process does one step.

        Args:
            kind: Work of the step.
        """
        self._parts.append(Steps.of(1, stream=process, kind=kind, **columns))

    def many(self, kind: Kind, count: int, **columns: ArrayLike) -> None:
        """Add a phase in which every process does several steps.

        Args:
            kind: Work of the steps.
            count: Steps of each process.
            columns: Columns of the steps, each of a shape that broadcasts to (processes, count).
        """
        shape = (len(self.processes), count)
        spread = {name: _spread(column, shape) for name, column in columns.items()}
        streams = np.repeat(self.processes, count)
        self._parts.append(Steps.of(shape[0] * count, stream=streams, kind=kind, **spread))

    def barrier(self) -> None:
        """Add a barrier of all processes."""
        if len(self.processes) > 1:
            self.each(Kind.BARRIER)

    def work(self, nodes: int, stream_nodes: Numbers, file_bytes: Bytes) -> Work:
        """End the sequence.

        Args:
            nodes: Client nodes of the job.
            stream_nodes: Node of each process.
            file_bytes: Bytes of each file before the run.

        Returns:
            The work of the job.
        """
        return Work(nodes, stream_nodes, file_bytes, Steps.joined(self._parts))


def _spread(column: ArrayLike, shape: tuple[int, int]) -> NDArray[Any]:
    values = np.asarray(column)
    return values if values.ndim == 0 else np.broadcast_to(values, shape).reshape(-1)
