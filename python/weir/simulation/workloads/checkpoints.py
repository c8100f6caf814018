"""A generator of applications that compute, and write a checkpoint from time to time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from weir.simulation.workload import Kind, Work
from weir.simulation.workloads.benchmarks import FILE_MODES
from weir.simulation.workloads.parameters import (
    check_steps,
    choice,
    fraction,
    node_of_streams,
    seconds,
    size,
    switch,
    whole,
)
from weir.simulation.workloads.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Periodic checkpoints: all processes compute for a period, then write at once."""

    processes: int = whole(8, "processes (ranks)", least=1, most=1 << 22)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    checkpoints: int = whole(10, "number of checkpoints", least=1, most=1 << 20)
    period: float = seconds(None, "time of computing before each checkpoint")
    jitter: float = fraction(0.0, "greatest part by which a period is longer or shorter, drawn evenly")
    bytes: int = size(None, "bytes of each process in a checkpoint")
    mode: str = choice("file-per-process", "a file for each process and checkpoint, or one for all", FILE_MODES)
    transfer: int = size(1 << 20, "bytes of a call")
    depth: int = whole(1, "calls under way at once", least=1)
    keep: int = whole(0, "checkpoints that stay: an older one is removed once a new one is written; 0 keeps all")
    restart: bool = switch(False, "read a checkpoint, which is there before the run, at the begin")

    def __post_init__(self) -> None:
        """Refuse more work than fits.

        Raises:
            ValueError: There are too many steps.
        """
        check_steps(self.processes * self.checkpoints * 6, "processes and checkpoints")

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return self.jitter > 0

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        sequence = Sequence(self.processes)
        is_shared = self.mode == "shared"
        width = 1 if is_shared else self.processes
        own = np.zeros(self.processes, np.uint32) if is_shared else sequence.processes
        offsets = sequence.processes.astype(np.uint64) * np.uint64(self.bytes if is_shared else 0)
        data: dict[str, ArrayLike] = {
            "offset": offsets,
            "bytes": self.bytes,
            "request_bytes": self.transfer,
            "depth": self.depth,
        }
        file_bytes = np.zeros((self.checkpoints + self.restart) * width, np.uint64)
        if self.restart:
            first = np.uint32(self.checkpoints * width)
            file_bytes[first:] = self.bytes * (self.processes if is_shared else 1)
            sequence.each(Kind.METADATA, file=own + first, bytes=1)
            sequence.each(Kind.READ, file=own + first, **data)
        factors = 1.0 + self.jitter * random.uniform(-1.0, 1.0, self.checkpoints)
        for number, factor in enumerate(factors):
            files = own + np.uint32(number * width)
            sequence.each(Kind.COMPUTE, after_seconds=self.period * factor)
            sequence.barrier()
            if is_shared:
                sequence.one(Kind.CREATE, file=files[0])
                sequence.barrier()
            else:
                sequence.each(Kind.CREATE, file=files)
            sequence.each(Kind.WRITE, file=files, **data)
            sequence.barrier()
            self._drop(sequence, own, number, width)
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        return sequence.work(nodes, stream_nodes, file_bytes)

    def _drop(
        self, sequence: Sequence, own: np.ndarray[tuple[int], np.dtype[np.uint32]], number: int, width: int
    ) -> None:
        if not self.keep or number < self.keep:
            return
        files = own + np.uint32((number - self.keep) * width)
        if width == 1:
            sequence.one(Kind.REMOVE, file=files[0])
        else:
            sequence.each(Kind.REMOVE, file=files)
