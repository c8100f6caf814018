"""Generators of the benchmarks IOR, HACC-IO and mdtest."""

from dataclasses import dataclass

import numpy as np

from weir.simulation.workload import Kind, Work
from weir.simulation.workloads.parameters import check_steps, choice, node_of_streams, size, switch, whole
from weir.simulation.workloads.sequence import Sequence

FILE_MODES = ("file-per-process", "shared")
"""A file of its own for each process, or one file for all."""

HACC_HEADER_BYTES = 24 << 20
"""Header of a HACC-IO file: with it the volumes of the Tarazu paper's section 7.2.2 come out (14.3 and 11.7 GB)."""
HACC_VARIABLES_BYTES = (4, 4, 4, 4, 4, 4, 4, 8, 2)
"""Bytes of a particle in each variable of HACC-IO: position, velocity and potential, number, mask; 38 in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ior:
    """IOR: every process writes and reads blocks, in one file for each process or in one for all."""

    processes: int = whole(8, "processes (ranks)", least=1, most=1 << 22)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    mode: str = choice("file-per-process", "a file for each process (`-F`), or one for all", FILE_MODES)
    transfer: int = size(1 << 20, "bytes of a call (`-t`)")
    block: int = size(16 << 20, "bytes of a block (`-b`)")
    segments: int = whole(1, "blocks of each process (`-s`)", least=1)
    write: bool = switch(True, "write (`-w`)")
    read: bool = switch(False, "read (`-r`); files that were not written are there before the run")
    reorder: bool = switch(False, "read the block or file that the next node wrote (`-C`)")
    remove: bool = switch(False, "remove the files at the end")
    repetitions: int = whole(1, "repetitions of all (`-i`)", least=1, most=1 << 20)
    depth: int = whole(1, "calls under way at once", least=1)

    def __post_init__(self) -> None:
        """Refuse parameters that no IOR would take.

        Raises:
            ValueError: They do not go together.
        """
        if self.block % self.transfer:
            raise ValueError(f"block ({self.block}) is no multiple of transfer ({self.transfer})")
        if not self.write and not self.read:
            raise ValueError("it neither writes nor reads")
        shared = self.segments if self.mode == "shared" else 1
        check_steps(self.processes * self.repetitions * 2 * shared, "processes, segments and repetitions")

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return False

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        sequence = Sequence(self.processes)
        ranks = sequence.processes.astype(np.uint64)
        is_shared = self.mode == "shared"
        files = np.zeros(self.processes, np.uint32) if is_shared else sequence.processes
        whole_bytes = self.block * self.segments * (self.processes if is_shared else 1)
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        read_ranks = (ranks + np.uint64(self.processes_per_node * self.reorder)) % np.uint64(self.processes)
        for repetition in range(self.repetitions):
            # Files that a repetition left there are opened, and written again.
            is_new = self.write and (repetition == 0 or self.remove)
            open_files(sequence, files, is_new=is_new)
            if self.write:
                self._blocks(sequence, Kind.WRITE, ranks)
            if self.read:
                self._blocks(sequence, Kind.READ, read_ranks)
            if self.remove:
                remove_files(sequence, files)
        before = 0 if self.write else whole_bytes
        return sequence.work(nodes, stream_nodes, np.full(1 if is_shared else self.processes, before, np.uint64))

    def _blocks(self, sequence: Sequence, kind: Kind, ranks: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        common = {"request_bytes": self.transfer, "depth": self.depth}
        if self.mode == "shared":
            segments = np.arange(self.segments, dtype=np.uint64)[None, :] * np.uint64(self.block * self.processes)
            offsets = segments + ranks[:, None] * np.uint64(self.block)
            sequence.many(kind, self.segments, offset=offsets, bytes=self.block, **common)
        else:
            sequence.each(kind, file=ranks, bytes=self.block * self.segments, **common)
        sequence.barrier()


def open_files(sequence: Sequence, files: np.ndarray[tuple[int], np.dtype[np.uint32]], *, is_new: bool) -> None:
    """Have every process open its file; the first process makes a file that all share.

    Args:
        sequence: The job's phases.
        files: File of each process, shape (processes,).
        is_new: Whether the files are made, not only opened.
    """
    if not is_new:
        sequence.each(Kind.METADATA, file=files, bytes=1)
    elif len(files) > 1 and (files == files[0]).all():
        sequence.one(Kind.CREATE, file=files[0])
        sequence.barrier()
        sequence.each(Kind.METADATA, file=files, bytes=1)
    else:
        sequence.each(Kind.CREATE, file=files)
    sequence.barrier()


def remove_files(sequence: Sequence, files: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    """Have every process remove its file; the first process removes a file that all share.

    Args:
        sequence: The job's phases.
        files: File of each process, shape (processes,).
    """
    if len(files) > 1 and (files == files[0]).all():
        sequence.one(Kind.REMOVE, file=files[0])
    else:
        sequence.each(Kind.REMOVE, file=files)
    sequence.barrier()


@dataclass(frozen=True, slots=True, kw_only=True)
class HaccIo:
    """HACC-IO: a checkpoint of particles, nine variables one after the other, written and then read."""

    processes: int = whole(8, "processes (ranks)", least=1, most=1 << 22)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    particles: int = whole(50_000_000, "particles of each process, 38 bytes each", least=1, most=1 << 40)
    mode: str = choice("file-per-process", "a file for each process, or one for all", FILE_MODES)
    write: bool = switch(True, "write")
    read: bool = switch(True, "read; files that were not written are there before the run")
    header: int = size(HACC_HEADER_BYTES, "bytes at the begin of a file", least=0)

    def __post_init__(self) -> None:
        """Refuse a job without work.

        Raises:
            ValueError: It neither writes nor reads.
        """
        if not self.write and not self.read:
            raise ValueError("it neither writes nor reads")
        check_steps(self.processes * 20, "processes")

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return False

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        sequence = Sequence(self.processes)
        is_shared = self.mode == "shared"
        files = np.zeros(self.processes, np.uint32) if is_shared else sequence.processes
        open_files(sequence, files, is_new=self.write)
        if self.write:
            self._variables(sequence, Kind.WRITE, files)
        if self.read:
            self._variables(sequence, Kind.READ, files)
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        sharers = self.processes if is_shared else 1
        before = 0 if self.write else self.header + sum(HACC_VARIABLES_BYTES) * self.particles * sharers
        return sequence.work(nodes, stream_nodes, np.full(1 if is_shared else self.processes, before, np.uint64))

    def _variables(self, sequence: Sequence, kind: Kind, files: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
        is_shared = self.mode == "shared"
        sharers = self.processes if is_shared else 1
        places = sequence.processes.astype(np.uint64) if is_shared else np.zeros(self.processes, np.uint64)
        if self.header and is_shared:
            sequence.one(kind, file=0, bytes=self.header)
        elif self.header:
            sequence.each(kind, file=files, bytes=self.header)
        offset = self.header
        for particle_bytes in HACC_VARIABLES_BYTES:
            count = particle_bytes * self.particles
            sequence.each(kind, file=files, offset=np.uint64(offset) + places * np.uint64(count), bytes=count)
            offset += count * sharers
        sequence.barrier()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mdtest:
    """mdtest: every process makes, asks for and removes many small files."""

    processes: int = whole(8, "processes (ranks)", least=1, most=1 << 22)
    processes_per_node: int = whole(8, "processes of a client node", least=1)
    items: int = whole(1000, "files of each process (`-n`)", least=1)
    bytes: int = size(0, "bytes of each file (`-w`, `-e`)", least=0)
    stat: bool = switch(True, "ask for the attributes of every file (`-T`)")
    read: bool = switch(False, "read every file (`-E`)")
    remove: bool = switch(True, "remove every file (`-r`)")
    iterations: int = whole(1, "repetitions of all (`-i`)", least=1, most=1 << 20)

    def __post_init__(self) -> None:
        """Refuse more work than fits.

        Raises:
            ValueError: There are too many steps, or the files of an iteration are there in the next.
        """
        check_steps(self.processes * (self.items + 1) * 5 * self.iterations, "processes, items and iterations")
        if self.iterations > 1 and not self.remove:
            raise ValueError("iterations make the same files again, so they need remove = true")

    @property
    def is_random(self) -> bool:
        """Whether the work depends on dice."""
        return False

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator.work`."""
        sequence = Sequence(self.processes)
        files = np.arange(self.processes * self.items, dtype=np.uint32).reshape(self.processes, self.items)
        for _ in range(self.iterations):
            sequence.many(Kind.CREATE, self.items, file=files)
            sequence.barrier()
            if self.bytes:
                sequence.many(Kind.WRITE, self.items, file=files, bytes=self.bytes)
                sequence.barrier()
            if self.stat:
                sequence.many(Kind.METADATA, self.items, file=files, bytes=1)
                sequence.barrier()
            if self.read and self.bytes:
                sequence.many(Kind.READ, self.items, file=files, bytes=self.bytes)
                sequence.barrier()
            if self.remove:
                sequence.many(Kind.REMOVE, self.items, file=files)
                sequence.barrier()
        nodes, stream_nodes = node_of_streams(self.processes, self.processes_per_node)
        return sequence.work(nodes, stream_nodes, np.zeros(files.size, np.uint64))
