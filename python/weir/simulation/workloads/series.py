"""Recorded accesses of processes as steps: what each process did when becomes a sequence with pauses.

A pause is the time between the end of a process's access and the begin of its next one. The simulated access takes the
time that the simulated store needs, so a job on a faster store ends sooner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weir.simulation.workload import Bytes, Steps, Work

_COLUMNS: dict[str, type[np.generic]] = {
    "process": np.uint32,
    "start": np.float64,
    "end": np.float64,
    "kind": np.uint8,
    "file": np.uint32,
    "offset": np.uint64,
    "bytes": np.uint64,
    "request_bytes": np.uint64,
}


@dataclass(slots=True)
class Series:
    """Accesses with their times, in any order."""

    parts: list[dict[str, NDArray[Any]]]

    @staticmethod
    def empty() -> "Series":
        """Begin without accesses."""
        return Series([])

    def add(self, count: int, **columns: ArrayLike) -> None:
        """Add accesses.

        Args:
            count: Number of accesses.
            columns: `process`, `start` and `end` (seconds from the job's start), `kind`, `file`, `offset`, `bytes` and
                `request_bytes`, each with a value for every access or one for all; an absent one is 0.
        """
        self.parts.append(
            {
                name: np.broadcast_to(np.asarray(columns.get(name, 0), dtype=kind), (count,))
                for name, kind in _COLUMNS.items()
            }
        )

    def work(self, *, file_bytes: Bytes, layouts: Sequence[str | None], nodes: int, per_node: int) -> Work:
        """Turn the accesses into the work of a job.

        Args:
            file_bytes: Bytes of each file before the run.
            layouts: Layout of each file; None is the scenario's.
            nodes: Client nodes of the job.
            per_node: Processes of a node; processes stand on the nodes by their numbers.

        Returns:
            The work, with a stream for each process that has accesses.
        """
        if not self.parts:
            return Work(nodes, np.zeros(0, np.uint32), file_bytes, Steps.of(0), tuple(layouts))
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in _COLUMNS}
        # Accesses that begin together keep the order in which they were added: a file is made before it is written.
        order = np.lexsort((columns["start"], columns["process"]))
        columns = {name: column[order] for name, column in columns.items()}
        processes, firsts, streams = np.unique(columns["process"], return_index=True, return_inverse=True)
        pauses = _pauses(columns["start"], columns["end"], firsts)
        steps = Steps.of(
            len(order),
            stream=streams,
            kind=columns["kind"],
            after_seconds=pauses,
            file=columns["file"],
            offset=columns["offset"],
            bytes=columns["bytes"],
            request_bytes=columns["request_bytes"],
            depth=1,
        )
        stream_nodes = np.minimum(processes // per_node, nodes - 1).astype(np.uint32)
        return Work(nodes, stream_nodes, file_bytes, steps, tuple(layouts))


def _pauses(starts: NDArray[np.float64], ends: NDArray[np.float64], firsts: NDArray[np.intp]) -> NDArray[np.float64]:
    """The time before each access in which its process did nothing; before the first it counts from the job's start."""
    pauses = np.empty_like(starts)
    for begin, end in zip(firsts, [*firsts[1:], len(starts)], strict=True):
        busy_until = np.maximum.accumulate(ends[begin:end])
        pauses[begin] = starts[begin]
        pauses[begin + 1 : end] = starts[begin + 1 : end] - busy_until[:-1]
    return np.maximum(pauses, 0.0)
