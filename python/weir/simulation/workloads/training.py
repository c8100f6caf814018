"""A generator of deep-learning readers: epochs of samples in a shuffled order."""

from dataclasses import dataclass

import numpy as np

from weir.simulation.workload import Kind, Steps, Work
from weir.simulation.workloads.parameters import check_steps, node_of_streams, seconds, size, switch, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training: in every epoch each process reads its part of all samples, a batch before each step of computing."""

    processes: int = whole(8, "processes (ranks), which share each epoch's samples", least=1, most=1 << 20)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    samples: int = whole(10_000, "samples of the data set", least=1)
    sample_bytes: int = size(128 << 10, "bytes of a sample")
    samples_per_file: int = whole(1, "samples of a file", least=1)
    batch: int = whole(32, "samples that a process reads before each step of computing", least=1)
    epochs: int = whole(1, "passes over all samples", least=1, most=1 << 20)
    shuffle: bool = switch(True, "read in an order that is drawn anew for each epoch")
    compute: float = seconds(0.0, "time of computing after a batch")
    depth: int = whole(1, "requests of a sample under way at once", least=1)

    def __post_init__(self) -> None:
        """Refuse a data set that cannot be divided, and more work than fits.

        Raises:
            ValueError: There are fewer samples than processes, or too many steps.
        """
        if self.samples < self.processes:
            raise ValueError(f"{self.samples} samples are fewer than {self.processes} processes")
        check_steps(self.samples * self.epochs, "samples and epochs")

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return self.shuffle

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        # As the samplers of the frameworks do: the samples that do not divide evenly are left out of the epoch.
        each = self.samples // self.processes
        parts: list[Steps] = []
        streams = np.repeat(np.arange(self.processes, dtype=np.uint32), each)
        begins_batch = np.tile(np.arange(each) % self.batch == 0, self.processes)
        barrier = Steps.of(self.processes, stream=np.arange(self.processes), kind=Kind.BARRIER)
        for _ in range(self.epochs):
            order = random.permutation(self.samples) if self.shuffle else np.arange(self.samples)
            chosen = order[: each * self.processes]
            if parts:
                parts.append(barrier)
            parts.append(
                Steps.of(
                    len(chosen),
                    stream=streams,
                    kind=Kind.READ,
                    # The first batch is read at once; a further one follows the computing on the batch before.
                    after_seconds=np.where(begins_batch, self.compute, 0.0) * bool(self.compute),
                    file=chosen // self.samples_per_file,
                    offset=(chosen % self.samples_per_file) * self.sample_bytes,
                    bytes=self.sample_bytes,
                    depth=self.depth,
                )
            )
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        whole_files, rest = divmod(self.samples, self.samples_per_file)
        sizes = [self.samples_per_file * self.sample_bytes] * whole_files + [rest * self.sample_bytes] * bool(rest)
        return Work(nodes, stream_nodes, np.array(sizes, dtype=np.uint64), Steps.joined(parts))
