"""Checkpoints at the interval of Young (CACM 17, 1974), and restarts after failures."""

from dataclasses import dataclass

import numpy as np
from weir.simulation.workload import Kind, Work
from weir.simulation.workloads.parameters import check_steps, node_of_streams, seconds, size, whole
from weir.simulation.workloads.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """A job that computes, writes checkpoints, and begins again at the last one after each failure."""

    processes: int = whole(8, "processes (ranks)", least=1, most=1 << 20)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    computing: float = seconds(3600.0, "time of computing that the job needs in all")
    between_failures: float = seconds(1800.0, "mean time between failures of the job")
    writing: float = seconds(10.0, "time that a checkpoint is expected to take")
    bytes: int = size(64 << 20, "bytes of each process in a checkpoint")
    transfer: int = size(1 << 20, "bytes of a call")

    def __post_init__(self) -> None:
        if min(self.between_failures, self.writing, self.computing) <= 0:
            raise ValueError("computing, between_failures and writing are above 0")
        check_steps(8 * self.processes * int(2 * self.computing / self.interval + 2), "processes and checkpoints")

    @property
    def interval(self) -> float:
        """Computing between two checkpoints, in seconds."""
        return float(np.sqrt(2 * self.writing * self.between_failures))

    @property
    def is_random(self) -> bool:
        return True

    def work(self, random: np.random.Generator) -> Work:
        sequence = Sequence(self.processes)
        data = {"bytes": self.bytes, "request_bytes": self.transfer, "depth": 1}
        done, written = 0.0, 0
        until_failure = random.exponential(self.between_failures)
        while done < self.computing:
            stretch = min(self.interval, self.computing - done)
            if until_failure < stretch:
                # What was computed since the last checkpoint is lost.
                sequence.each(Kind.COMPUTE, after_seconds=until_failure)
                if written:
                    sequence.each(Kind.READ, file=self._files(sequence, written - 1), **data)
                sequence.barrier()
                until_failure = random.exponential(self.between_failures)
                continue
            sequence.each(Kind.COMPUTE, after_seconds=stretch)
            sequence.barrier()
            sequence.each(Kind.CREATE, file=self._files(sequence, written))
            sequence.each(Kind.WRITE, file=self._files(sequence, written), **data)
            sequence.barrier()
            if written:
                sequence.each(Kind.REMOVE, file=self._files(sequence, written - 1))
            done, written, until_failure = done + stretch, written + 1, until_failure - stretch
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        return sequence.work(nodes, stream_nodes, np.zeros(written * self.processes, np.uint64))

    def _files(self, sequence: Sequence, number: int) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
        return sequence.processes + np.uint32(number * self.processes)
