"""A job of four nodes: writes and reads back an HDF5 checkpoint, unpacks a source tree, queries a database.

Everything that it reads it compares with what it wrote. Run it on a store: `weir run --nodes 4 -- python victim.py
TARBALL DIRECTORY`; it works in a new directory below $WEIR_MOUNT/DIRECTORY and prints one JSON object of the seconds of
each part.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RANKS = 4
FIELD_BYTES = int(os.environ.get("VICTIM_FIELD_BYTES", str(20 << 20)))
ROWS = 2_000


def checkpoint(directory: Path, rank: int) -> None:
    """One rank's fields, in blocks as a simulation writes them, and back."""
    import h5py
    import numpy as np

    generator = np.random.default_rng(rank)
    field = generator.standard_normal(FIELD_BYTES // 8)
    path = directory / f"checkpoint-{rank}.h5"
    block = (256 << 10) // 8
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("density", shape=field.shape, dtype=field.dtype)
        for start in range(0, field.size, block):
            dataset[start : start + block] = field[start : start + block]
    with h5py.File(path, "r") as file:
        dataset = file["density"]
        for start in range(0, field.size, block):
            if not np.array_equal(dataset[start : start + block], field[start : start + block]):
                sys.exit(f"{path}: rank {rank} read other values than it wrote, near element {start}")


def checkpoints(directory: Path) -> None:
    """All ranks at once, each a process, as on four nodes."""
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), str(directory)]) for rank in range(RANKS)]
    failed = [rank.args for rank in ranks if rank.wait() != 0]
    if failed:
        sys.exit(f"ranks failed: {failed}")


def unpack(directory: Path, tarball: Path) -> None:
    """`tar` unpacks a source tree; every file of it is compared with the archive."""
    subprocess.run(["tar", "-xf", str(tarball), "-C", str(directory)], check=True)
    with tarfile.open(tarball) as archive:
        for member in archive:
            source = archive.extractfile(member) if member.isfile() else None
            if source is not None and (directory / member.name).read_bytes() != source.read():
                sys.exit(f"{directory / member.name} differs from the archive")


def query(directory: Path) -> None:
    """A database in a file: rows go in by transactions, and come out by key and in order."""
    digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(ROWS)]
    with sqlite3.connect(directory / "runs.sqlite") as database:
        database.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY, digest TEXT)")
        for start in range(0, ROWS, ROWS // 4):
            with database:
                rows = range(start, start + ROWS // 4)
                database.executemany("INSERT INTO runs VALUES (?, ?)", ((number, digests[number]) for number in rows))
    database.close()
    database = sqlite3.connect(directory / "runs.sqlite")
    for number in range(0, ROWS, 97):
        (digest,) = database.execute("SELECT digest FROM runs WHERE number = ?", (number,)).fetchone()
        if digest != digests[number]:
            sys.exit(f"row {number} came back changed")
    in_order = [digest for (digest,) in database.execute("SELECT digest FROM runs ORDER BY number")]
    if in_order != digests:
        sys.exit("the table came back changed")
    database.close()


def main() -> None:
    if sys.argv[1] == "--rank":
        checkpoint(Path(sys.argv[3]), int(sys.argv[2]))
        return
    tarball = Path(sys.argv[1])
    directory = Path(tempfile.mkdtemp(prefix="victim-", dir=Path(os.environ["WEIR_MOUNT"], sys.argv[2])))
    seconds = {}
    parts: dict[str, Callable[[], None]] = {
        "checkpoint": lambda: checkpoints(directory),
        "unpack": lambda: unpack(directory, tarball),
        "database": lambda: query(directory),
    }
    begin = time.monotonic()
    for name, part in parts.items():
        start = time.monotonic()
        part()
        seconds[name] = time.monotonic() - start
    seconds["total"] = time.monotonic() - begin
    print(json.dumps(seconds))
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
