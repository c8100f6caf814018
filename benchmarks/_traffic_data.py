"""Measurements of production file systems, in the form of the benchmark (see data/README.md)."""

import gzip
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from weir.lustre.space import file_system

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from lfs_snapshots import parse_snapshots

DATA = Path(__file__).resolve().parent / "data"
PERIOD_SECONDS = 5
"""Time of a sample."""
WINDOW_SECONDS = 300
"""Time over which balance is looked at."""
BYTES_PER_SECOND_MAX = 3e9
"""Largest rate of these OSTs; a larger one is an artefact of the collector."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Traffic:
    """Twelve hours of one file system: windows x targets."""

    moved_bytes: Array
    """Bytes read and written, by window and target."""
    written_bytes: Array
    free_bytes: Array
    """Free bytes of each target at the beginning of each window."""
    clipped: int
    """Number of samples that were artefacts."""


@dataclass(frozen=True)
class Fullness:
    """Space of one file system's targets at one moment."""

    name: str
    total_bytes: Array
    free_bytes: Array


def traffic() -> Traffic:
    """Edison's scratch file system on 9 February 2018: 24 OSTs, a server each."""
    with h5py.File(DATA / "edison-ost-traffic.hdf5") as file:
        read = file["datatargets/readbytes"][:]
        written = file["datatargets/writebytes"][:]
        # The attributes name bytes, but the numbers are KiB. Only their ratios count here.
        free = file["fullness/bytestotal"][:] - file["fullness/bytes"][:]
    most = BYTES_PER_SECOND_MAX * PERIOD_SECONDS
    moved = read + written
    samples = WINDOW_SECONDS // PERIOD_SECONDS
    return Traffic(
        _windows(np.minimum(moved, most), samples),
        _windows(np.minimum(written, most), samples),
        np.asarray(free[::samples] * 1024, dtype=np.float64),
        int((moved > most).sum()),
    )


def total_bytes_per_second() -> Array:
    """Bytes that Edison's scratch file system moved, per second, each `PERIOD_SECONDS`; artefacts are clipped."""
    with h5py.File(DATA / "edison-ost-traffic.hdf5") as file:
        moved = file["datatargets/readbytes"][:] + file["datatargets/writebytes"][:]
    most = BYTES_PER_SECOND_MAX * PERIOD_SECONDS
    return np.asarray(np.minimum(moved, most).sum(axis=1) / PERIOD_SECONDS, dtype=np.float64)


def fullness() -> list[list[Fullness]]:
    """The four file systems at each moment."""
    path = DATA / "ost-fullness.txt.gz"
    moments = []
    for snapshot in parse_snapshots(gzip.decompress(path.read_bytes()).decode(), path.name):
        names = sorted({file_system(each.target) for each in snapshot.targets})
        moments.append(
            [
                Fullness(
                    name,
                    np.array(
                        [float(each.total_bytes) for each in snapshot.targets if file_system(each.target) == name]
                    ),
                    np.array(
                        [float(each.available_bytes) for each in snapshot.targets if file_system(each.target) == name]
                    ),
                )
                for name in names
            ]
        )
    return moments


def _windows(samples: Array, per_window: int) -> Array:
    return np.asarray(samples.reshape(-1, per_window, samples.shape[1]).sum(axis=1), dtype=np.float64)
