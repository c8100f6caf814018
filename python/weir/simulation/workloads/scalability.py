"""The three applications of the Tarazu paper's scalability study (section 7.1.3, table 7).

Table 7 states the compute nodes and the volumes in GB. It states neither the number and sizes of files nor their modes.
They are assumed from what is published about each application:

- `cosmoflow` trains on sub-volumes of 128 x 128 x 128 voxels with 4 redshift bins of 16 bits, one file each (the data
  set `cosmoUniverse_2019_05_4parE_tf` of MLPerf HPC): 16 MiB a file, read once, in a shuffled order. It writes a file
  for each node, with the node's part of the volume.
- `e3sm` writes history files that all nodes share, through PIO and PnetCDF (github.com/Parallel-NetCDF/E3SM-IO); its F
  case has about 14 GiB in an h0 file, so files of 15 GB are assumed for reads and for writes.
- `genomic-prediction` (DeepGP) has no published file sizes. One file for each node is assumed, for reads and for
  writes, as each node trains on its own part.
"""

from dataclasses import dataclass

import numpy as np

from weir.simulation.workload import Kind, Work
from weir.simulation.workloads.parameters import choice, fraction, size, switch, whole
from weir.simulation.workloads.sequence import Sequence

GIGABYTE = 10**9


@dataclass(frozen=True, slots=True)
class Volumes:
    """A column of table 7, and the assumed sizes of files."""

    nodes: int
    read_bytes: int
    written_bytes: int
    file_bytes: int | None
    """Bytes of an input file; None where each node has one."""
    are_shared: bool
    """Whether all nodes share each file."""


APPLICATIONS = {
    "genomic-prediction": Volumes(128, 110_600_000_000, 80_200_000_000, None, False),
    "e3sm": Volumes(256, 100_800_000_000, 150_300_000_000, 15 * GIGABYTE, True),
    "cosmoflow": Volumes(64, 250_600_000_000, 52_400_000_000, 16 << 20, False),
}
"""The applications of table 7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalability:
    """An application of table 7: its nodes read all input, then write all output, a stream a node."""

    application: str = choice(None, "the application", tuple(APPLICATIONS))
    volume: float = fraction(1.0, "part of table 7's volumes that is read and written")
    read: bool = switch(True, "read the input, which is there before the run")
    write: bool = switch(True, "write the output")
    transfer: int = size(1 << 20, "bytes of a call")
    depth: int = whole(8, "calls under way at once", least=1)

    def __post_init__(self) -> None:
        """Refuse a job without work.

        Raises:
            ValueError: It neither reads nor writes.
        """
        if not self.volume or not (self.read or self.write):
            raise ValueError("it neither reads nor writes")

    @property
    def processes(self) -> int:
        """Number of streams, one a node."""
        return APPLICATIONS[self.application].nodes

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return self.read

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        volumes = APPLICATIONS[self.application]
        sequence = Sequence(volumes.nodes)
        inputs = self._files(volumes, volumes.read_bytes) if self.read else []
        outputs = self._files(volumes, volumes.written_bytes, is_output=True) if self.write else []
        if self.read:
            self._phase(sequence, Kind.READ, inputs, 0, random)
            sequence.barrier()
        if self.write:
            self._phase(sequence, Kind.WRITE, outputs, len(inputs), random)
        file_bytes = np.array([*inputs, *([0] * len(outputs))], dtype=np.uint64)
        return sequence.work(volumes.nodes, sequence.processes, file_bytes)

    def _files(self, volumes: Volumes, total: int, *, is_output: bool = False) -> list[int]:
        """The sizes of files that hold a volume together."""
        total = int(total * self.volume)
        if volumes.file_bytes is None or (is_output and not volumes.are_shared):
            count = volumes.nodes
        else:
            count = max(round(total / volumes.file_bytes), 1)
        return [total // count + (number < total % count) for number in range(count)]

    def _phase(self, sequence: Sequence, kind: Kind, sizes: list[int], first: int, random: np.random.Generator) -> None:
        nodes = len(sequence.processes)
        common = {"request_bytes": self.transfer, "depth": self.depth}
        if APPLICATIONS[self.application].are_shared:
            for number, total in enumerate(sizes):
                bounds = np.arange(nodes + 1, dtype=np.uint64) * np.uint64(total) // np.uint64(nodes)
                lengths = np.diff(bounds)
                if kind == Kind.WRITE:
                    sequence.one(Kind.CREATE, file=first + number)
                    sequence.barrier()
                sequence.each(kind, file=first + number, offset=bounds[:-1], bytes=lengths, **common)
            return
        order = random.permutation(len(sizes)) if len(sizes) > nodes else np.arange(len(sizes))
        for begin in range(0, len(sizes), nodes):
            for node, number in enumerate(order[begin : begin + nodes].tolist()):
                sequence.one(kind, process=node, file=first + number, bytes=sizes[number], **common)
