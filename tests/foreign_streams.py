"""Streams and arrays that are mutated as what foreign files may hold."""

from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive.named import Dataset, DatasetWriter, Variable


def wave() -> NDArray[Any]:
    rows, columns = numpy.mgrid[0:48, 0:32]
    field: NDArray[Any] = (numpy.sin(rows / 7) * numpy.cos(columns / 9)).astype(numpy.float32)
    return field


def stream(folder: Path) -> None:
    tiers = [folder / "fast", folder / "shared"]
    adaptive.write([str(tier) for tier in tiers], [wave()] * 3, exact=True, chunk_bytes=1 << 12)
    # A folder moves with its samples: the tiers that the stream names are relative ones then.
    path = folder / "fast" / "stream.json"
    path.write_text(path.read_text().replace(str(folder), str(folder.parent / "mutated")))


def named_stream(folder: Path) -> None:
    axes = {"y": numpy.arange(48.0), "x": numpy.arange(32.0)}
    variables = {
        "t": Variable(("time", "y", "x"), numpy.stack([wave()] * 3), {"units": "K", "coordinates": "place"}),
        "time": Variable(("time",), numpy.arange(3), {"units": "days since 2001-01-01"}),
        "place": Variable(("y",), numpy.array([f"row {number}" for number in range(48)])),
        **{name: Variable((name,), values, {}) for name, values in axes.items()},
    }
    with DatasetWriter([folder / "fast"], along="time", chunk_bytes=1 << 12) as writer:
        writer.write(Dataset(variables, {"title": "waves"}))
    for path in (folder / "fast").rglob("*.json"):
        path.write_text(path.read_text().replace(str(folder), str(folder.parent / "mutated")))


def arrays(folder: Path) -> None:
    numpy.save(folder / "array.npy", wave())
    numpy.savez(folder / "arrays.npz", wave=wave())
