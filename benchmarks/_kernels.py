"""Kernels shaped as the applications of ThemisIO (SC'23, sections 5.1 and 5.5), and the job that disturbs them.

    python _kernels.py KERNEL FOLDER STEPS

A kernel is a job of several plain processes that know nothing of Weir. It makes its files in FOLDER, prints `ready`,
waits for the end of its standard input, and prints one JSON object: seconds of its steps, and of the I/O that
its processes waited for in them. Then everything it wrote is read back and compared; readers compare what they read.
Computation is slept, because the compute nodes are not this machine. Sizes and times are scaled to a target of
128 MB/s so that the background job slows each kernel under `fifo` about as much as in the paper.
"""

import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

PIECE = 128 << 10
"""Bytes of one request of writers: libraries make such requests of larger ones, and one takes about 1 ms of the
emulated target."""
WAIT_SECONDS = 240.0
"""Longest wait of a process for the others of its job."""
SEED = 20231112
PATTERN = random.Random(SEED).randbytes((1 << 20) + 65536)


def content(number: int, length: int = PIECE) -> memoryview:
    """The bytes of piece `number` of a file."""
    first = number * 251 % 65536
    return memoryview(PATTERN)[first : first + length]


def write_pieces(file: int, offset: int, first: int, count: int) -> None:
    """Writes pieces `first` and following from `offset` on."""
    for number in range(count):
        if os.pwrite(file, content(first + number), offset + number * PIECE) != PIECE:
            raise OSError("a write was short")


def check(path: Path, expected: Iterator[memoryview], offset: int = 0) -> None:
    """Compares a file from `offset` on with the written pieces."""
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        for number, piece in enumerate(expected):
            if file.read(len(piece)) != piece:
                raise OSError(f"{path}: piece {number} is not what was written")


class Kernel:
    """One application; its processes are forked after `prepare`, and meet in `team`."""

    processes: ClassVar[int] = 8

    def __init__(self, folder: Path, steps: int) -> None:
        """Describe a run of `steps` in an empty folder."""
        self.folder = folder
        self.steps = steps
        self.io_seconds = multiprocessing.Value("d", 0.0)
        self.team = multiprocessing.Barrier(self.processes, timeout=WAIT_SECONDS)

    def prepare(self) -> None:
        """Makes the files that must exist before the run."""

    def run(self, rank: int) -> None:
        """All steps of one process."""
        raise NotImplementedError

    def verify(self) -> None:
        """Reads back the written files."""

    def compute(self, seconds: float) -> None:
        """Computes, and waits for the others, as a step of a parallel program does."""
        time.sleep(seconds)
        self.team.wait()

    def waited(self, rank: int, since: float) -> None:
        """Counts the time of I/O from `since` until all processes meet."""
        self.team.wait()
        if rank == 0:
            self.io_seconds.value += time.monotonic() - since


class Wrf(Kernel):
    """Weather: every few time steps all processes write their part of each variable to a history file in HDF5.

    The first process makes the file; then each writes its slab of the contiguous variables where they lie, which
    is what a collective write of parallel HDF5 comes to.
    """

    STEPS_PER_HISTORY = 6
    STEP_SECONDS = 0.065
    VARIABLES = ("U", "V", "T", "QVAPOR")
    PIECES = 4
    """Pieces of each process in each variable."""

    def prepare(self) -> None:
        probe = self.folder / "probe"
        self.offsets = self._make_history(probe)
        probe.unlink()

    def run(self, rank: int) -> None:
        for step in range(self.steps):
            for _ in range(self.STEPS_PER_HISTORY):
                self.compute(self.STEP_SECONDS)
            since = time.monotonic()
            path = self._history(step)
            if rank == 0:
                self._make_history(path)
            self.team.wait()
            file = os.open(path, os.O_WRONLY)
            for variable, offset in enumerate(self.offsets):
                slab = offset + rank * self.PIECES * PIECE
                write_pieces(file, slab, self._first_piece(step, variable, rank), self.PIECES)
            os.close(file)
            self.waited(rank, since)

    def verify(self) -> None:
        import h5py

        for step in range(self.steps):
            with h5py.File(self._history(step)) as file:
                for variable, name in enumerate(self.VARIABLES):
                    found = memoryview(file[name][...]).cast("B")
                    for rank, piece in itertools.product(range(self.processes), range(self.PIECES)):
                        at = (rank * self.PIECES + piece) * PIECE
                        expected = content(self._first_piece(step, variable, rank) + piece)
                        if found[at : at + PIECE] != expected:
                            raise OSError(f"{file.filename}: {name} is not what was written")

    def _history(self, step: int) -> Path:
        return self.folder / f"wrfout_d01_{step:03}.h5"

    def _first_piece(self, step: int, variable: int, rank: int) -> int:
        return ((step * len(self.VARIABLES) + variable) * self.processes + rank) * self.PIECES

    def _make_history(self, path: Path) -> list[int]:
        """Makes a history file with room for every variable, and returns the places of the variables in it."""
        import h5py

        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((self.processes * self.PIECES, PIECE))
        with h5py.File(path, "w") as file:
            made = [
                h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_UINT8, space, creation)
                for name in self.VARIABLES
            ]
            return [int(variable.get_offset()) for variable in made]


class Namd(Kernel):
    """Molecules: every 48 steps the first process appends a frame to the trajectory; now and then all write a restart.

    Restart files are written in parallel, each process its own atoms, after the last ones were renamed.
    """

    FRAME_SECONDS = 0.11
    """Time of the 48 steps between two frames."""
    FRAMES_PER_RESTART = 4
    RESTARTS = ("restart.coor", "restart.vel")
    PIECES = 16
    """Pieces of each process in each restart file."""

    def prepare(self) -> None:
        (self.folder / "trajectory.dcd").touch()

    def run(self, rank: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND
        trajectory = os.open(self.folder / "trajectory.dcd", flags) if rank == 0 else -1
        for step in range(self.steps):
            for frame in range(self.FRAMES_PER_RESTART):
                self.compute(self.FRAME_SECONDS)
                since = time.monotonic()
                if rank == 0:
                    os.write(trajectory, content(step * self.FRAMES_PER_RESTART + frame))
                self.waited(rank, since)
            since = time.monotonic()
            self._write_restart(rank, step)
            self.waited(rank, since)
        if rank == 0:
            os.close(trajectory)

    def _write_restart(self, rank: int, step: int) -> None:
        if rank == 0:
            for name in self.RESTARTS:
                if step > 0:
                    (self.folder / name).rename(self.folder / f"{name}.old")
                (self.folder / name).touch()
        self.team.wait()
        for number, name in enumerate(self.RESTARTS):
            file = os.open(self.folder / name, os.O_WRONLY)
            write_pieces(file, rank * self.PIECES * PIECE, self._first_piece(step, number, rank), self.PIECES)
            os.close(file)

    def verify(self) -> None:
        frames = self.steps * self.FRAMES_PER_RESTART
        check(self.folder / "trajectory.dcd", (content(frame) for frame in range(frames)))
        for number, name in enumerate(self.RESTARTS):
            for step, path in ((self.steps - 1, name), (self.steps - 2, f"{name}.old")):
                if step >= 0:
                    first = self._first_piece(step, number, 0)
                    pieces = self.processes * self.PIECES
                    check(self.folder / path, (content(first + piece) for piece in range(pieces)))

    def _first_piece(self, step: int, file: int, rank: int) -> int:
        return ((step * len(self.RESTARTS) + file) * self.processes + rank) * self.PIECES


class Specfem(Kernel):
    """Seismic waves: long computation, and at the end of each phase every process writes its fields to its own file."""

    PHASE_SECONDS = 1.3
    PIECES = 3

    def run(self, rank: int) -> None:
        for step in range(self.steps):
            self.compute(self.PHASE_SECONDS)
            since = time.monotonic()
            file = os.open(self._file(step, rank), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            write_pieces(file, 0, (step * self.processes + rank) * self.PIECES, self.PIECES)
            os.close(file)
            self.waited(rank, since)

    def verify(self) -> None:
        for step, rank in itertools.product(range(self.steps), range(self.processes)):
            first = (step * self.processes + rank) * self.PIECES
            check(self._file(step, rank), (content(first + piece) for piece in range(self.PIECES)))

    def _file(self, step: int, rank: int) -> Path:
        return self.folder / f"proc{rank:06}_fields_{step}.bin"


class Resnet(Kernel):
    """Training on images: loaders read the files of each batch in random order, and the trainer computes on it."""

    processes = 6
    """The trainer, which is the first, and the loaders."""
    AHEAD = 0
    """Batches that loaders fetch while the trainer computes."""
    BATCH_SECONDS = 0.19
    FILES_PER_LOADER = 25
    """Files of each loader in a batch."""
    FILES = 500
    FILE_BYTES = 116 << 10

    def prepare(self) -> None:
        for number in range(self.FILES):
            self._image(number).write_bytes(content(number, self.FILE_BYTES))
        loaders = self.processes - 1
        self.wanted = [multiprocessing.Semaphore(1 + self.AHEAD) for _ in range(loaders)]
        self.fetched = [multiprocessing.Semaphore(0) for _ in range(loaders)]

    def run(self, rank: int) -> None:
        if rank == 0:
            self._train()
        else:
            self._load(rank - 1)

    def _train(self) -> None:
        for _ in range(self.steps):
            since = time.monotonic()
            for fetched in self.fetched:
                if not fetched.acquire(timeout=WAIT_SECONDS):
                    raise TimeoutError("a loader did not fetch its part of a batch")
            self.io_seconds.value += time.monotonic() - since
            time.sleep(self.BATCH_SECONDS)
            for wanted in self.wanted:
                wanted.release()

    def _load(self, loader: int) -> None:
        loaders = self.processes - 1
        order = list(range(self.FILES))
        at = 0
        for step in range(self.steps):
            if not self.wanted[loader].acquire(timeout=WAIT_SECONDS):
                raise TimeoutError("the trainer did not want another batch")
            for number in range(self.FILES_PER_LOADER):
                at = (step * self.FILES_PER_LOADER + number) * loaders + loader
                if at % self.FILES == loader:
                    random.Random(f"{SEED}-{at // self.FILES}").shuffle(order)
                image = order[at % self.FILES]
                if self._image(image).read_bytes() != content(image, self.FILE_BYTES):
                    raise OSError(f"image {image} is not what was written")
            self.fetched[loader].release()

    def _image(self, number: int) -> Path:
        return self.folder / f"{number:05}.JPEG"


class ResnetAsync(Resnet):
    """The training with batches fetched ahead."""

    AHEAD = 2


class Bert(Kernel):
    """Language: each process reads whole files in HDF5, chunk by chunk, and computes long on them."""

    processes = 4
    STEP_SECONDS = 4.0
    CHUNKS = 4
    """Chunks of each of the two arrays of a file."""
    ARRAYS = ("input_ids", "masked_lm_positions")

    def prepare(self) -> None:
        import h5py
        import numpy

        for step, rank in itertools.product(range(self.steps), range(self.processes)):
            with h5py.File(self._shard(step, rank), "w", libver="latest") as file:
                for number, name in enumerate(self.ARRAYS):
                    array = file.create_dataset(name, (self.CHUNKS, PIECE), "u1", chunks=(1, PIECE))
                    for chunk in range(self.CHUNKS):
                        array[chunk] = numpy.frombuffer(content(self._first(step, rank, number) + chunk), "u1")

    def run(self, rank: int) -> None:
        import h5py

        for step in range(self.steps):
            since = time.monotonic()
            with h5py.File(self._shard(step, rank)) as file:
                arrays: list[Any] = [file[name][...] for name in self.ARRAYS]
            self.waited(rank, since)
            for number, array in enumerate(arrays):
                for chunk in range(self.CHUNKS):
                    if memoryview(array[chunk]) != content(self._first(step, rank, number) + chunk):
                        raise OSError(f"{self._shard(step, rank)}: chunk {chunk} is not what was written")
            self.compute(self.STEP_SECONDS)

    def _shard(self, step: int, rank: int) -> Path:
        return self.folder / f"shard_{step}_{rank}.hdf5"

    def _first(self, step: int, rank: int, array: int) -> int:
        return ((step * self.processes + rank) * len(self.ARRAYS) + array) * self.CHUNKS


class Hog(Kernel):
    """The I/O-heavy job in the background: every process writes its own file over and over, until SIGTERM."""

    processes = 12
    PIECES = 32

    def run(self, rank: int) -> None:
        is_over = False

        def end(_number: int, _frame: object) -> None:
            nonlocal is_over
            is_over = True

        signal.signal(signal.SIGTERM, end)
        path = self.folder / str(rank)
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        written = 0
        while not is_over:
            write_pieces(file, written % self.PIECES * PIECE, rank + written, 1)
            written += 1
        os.close(file)
        # The last piece at each place is there.
        first = max(0, written - self.PIECES)
        last = {number % self.PIECES: rank + number for number in range(first, written)}
        check(path, (content(last[place]) for place in sorted(last)))


KERNELS: dict[str, type[Kernel]] = {
    "wrf": Wrf,
    "namd": Namd,
    "specfem3d": Specfem,
    "resnet-sync": Resnet,
    "resnet-async": ResnetAsync,
    "bert": Bert,
    "hog": Hog,
}


def main() -> int:
    """Runs the kernel that the arguments name."""
    name, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    folder.mkdir()
    kernel = KERNELS[name](folder, steps)
    kernel.prepare()
    start = multiprocessing.Barrier(kernel.processes + 1, timeout=WAIT_SECONDS)
    ranks = [multiprocessing.Process(target=_serve, args=(kernel, rank, start)) for rank in range(kernel.processes)]
    for process in ranks:
        process.start()
    start.wait()
    print("ready", flush=True)
    sys.stdin.read()
    if name == "hog":
        _pass_on_sigterm(ranks)
    start.wait()
    begin = time.monotonic()
    for process in ranks:
        process.join()
    seconds = time.monotonic() - begin
    if any(process.exitcode for process in ranks):
        print(f"error: processes of {name} failed", file=sys.stderr)
        return 1
    print(json.dumps({"seconds": seconds, "io_seconds": kernel.io_seconds.value}), flush=True)
    kernel.verify()
    shutil.rmtree(folder)
    return 0


def _pass_on_sigterm(processes: Sequence[multiprocessing.Process]) -> None:
    def end(_number: int, _frame: object) -> None:
        for process in processes:
            process.terminate()

    signal.signal(signal.SIGTERM, end)


def _serve(kernel: Kernel, rank: int, start: Any) -> None:
    """One process; it connects to the store before it reports that it is ready."""
    try:
        warm = kernel.folder / f"warm-{rank}"
        warm.write_bytes(content(0))
        if warm.read_bytes() != content(0):
            raise OSError(f"{warm} is not what was written")
        warm.unlink()
        start.wait()
        start.wait()
        kernel.run(rank)
    except BaseException:
        # The others would wait for this one.
        start.abort()
        kernel.team.abort()
        raise


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    sys.exit(main())
