"""Random arrays with masked cells, and the law of fill values: they come back exactly, and others within bounds."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from weir import _core, adaptive
from weir.adaptive.array import restore

Array = NDArray[Any]
KINDS = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FILLS = (-9999, -999, -32768, 0, 255, 1e20, 9.969209968386869e36, float("nan"), 2**63 - 1)
EDGES = (4000, 70, 20, 9)
"""Longest edge of arrays of one to four axes."""
_INTEGER_MAX = 2**62


@dataclass(frozen=True)
class Masked:
    """An array with fill values, and the accuracy that it is stored with."""

    values: Array
    fills: Array
    codec: str
    options: dict[str, Any]

    def marks(self, restored: Array) -> Array:
        """The cells that are missing."""
        found: Array = np.isin(restored, self.fills)
        return found | np.isnan(restored) if restored.dtype.kind == "f" else found

    def faults(
        self, restored: Array, max_error: float, rmse: float = np.inf, *, whole: bool, region: Any = ...
    ) -> list[str]:
        """What is wrong with a restored array, or a region of it, that has these bounds of errors."""
        original = self.values[region]
        mask = self.marks(original)
        faults = []
        if restored[mask].tobytes() != original[mask].tobytes():
            faults.append("a masked cell has another value")
        if not np.array_equal(self.marks(restored), mask):
            faults.append("a cell is masked that was not")
        distances = _distances(restored[~mask], original[~mask])
        largest, mean = distances.max(initial=0), np.sqrt(np.mean(distances**2)) if distances.size else 0
        if largest > max_error or mean > rmse * (1 + 1e-9):
            faults.append(f"errors of {largest} and {mean} are told to be {max_error} and {rmse}")
        if whole and largest > self.options.get("tolerance", 0.0 if "exact" in self.options else np.inf):
            faults.append(f"an error of {largest} is above the tolerance")
        return faults


def _distances(one: Array, other: Array) -> Array:
    if one.dtype.kind == "f":
        return np.abs(one.astype(np.longdouble) - other.astype(np.longdouble))
    higher, lower = (pick(one, other).astype(np.uint64) for pick in (np.maximum, np.minimum))
    return (higher - lower).astype(np.longdouble)


def masked_array(random: np.random.Generator, *, kinds: tuple[str, ...] = KINDS) -> Masked:
    """A walk of any kind and shape with masked cells, whose fill values may lie in the range of the walk."""
    dtype = np.dtype(random.choice(kinds))
    axes = int(random.integers(1, 5))
    shape = tuple(int(length) for length in random.integers(1, EDGES[axes - 1], size=axes))
    walk = random.standard_normal(int(np.prod(shape))).cumsum() * random.choice([0.1, 1, 10])
    walk += random.choice([0, 280, -50])
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        walk = np.clip(np.round(walk), max(limits.min, -_INTEGER_MAX), min(limits.max, _INTEGER_MAX))
    values = walk.astype(dtype).reshape(shape)
    fills = _fills(random, dtype, within=values)
    mask = random.random(shape) < random.choice([0, 0.01, 0.3, 0.9, 1])
    if random.random() < 0.5:
        mask.reshape(-1)[: int(mask.size * random.random())] = True
    values = np.where(mask, fills[random.integers(0, len(fills), size=shape)], values).astype(dtype)
    options: dict[str, Any] = {"tolerance": float(random.choice([0.01, 0.3, 1, 3, 20]))}
    if random.random() < 0.3:
        options = {"exact": True} if random.random() < 0.5 else {}
    return Masked(values, fills, str(random.choice(["planes", "decimate"])), options)


def _fills(random: np.random.Generator, dtype: np.dtype[Any], *, within: Array) -> Array:
    possible = [within.reshape(-1)[within.size // 2]]
    for fill in FILLS:
        if dtype.kind == "f":
            possible.append(dtype.type(fill))
        elif np.isfinite(fill) and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
            possible.append(dtype.type(int(fill)))
    chosen = random.integers(0, len(possible), size=int(random.integers(1, 4)))
    return np.array([possible[index] for index in chosen], dtype=dtype)


def faults_of_prefixes(case: Masked, random: np.random.Generator) -> Iterator[list[str]]:
    """The faults of an array restored from its base, from some bytes, and from all."""
    container = _core.refactor(case.values, fill=case.fills, codec=case.codec, **case.options)
    offset, length, *_ = _core.Refactored(container).chunks[0]
    base = offset + length
    for end in (base, int(random.integers(base, len(container) + 1)), len(container)):
        found = restore(container[:end])
        yield case.faults(found.data, found.max_error, found.rmse, whole=end == len(container))


def faults_of_readers(case: Masked, directory: Path) -> Iterator[list[str]]:
    """The faults of an array that a writer wrote to tiers, in each way of reading it."""
    tiers = [directory / "fast", directory / "shared"]
    codec: Any = case.codec
    with adaptive.Writer(tiers, codec=codec, fill=case.fills.tolist(), **case.options) as writer:
        writer.write(case.values)
    region = tuple(slice(length // 3, length) for length in case.values.shape)
    ways: list[dict[str, Any]] = [
        {},
        {"policy": "isolation"},
        {"accuracy": adaptive.Accuracy(psnr=20)},
        {"accuracy": adaptive.Accuracy(bytes_max=1)},
        {"region": region},
        {"policy": "isolation", "region": region},
        {"deadline_seconds": 600.0, "tolerant": True},
    ]
    for way in ways:
        with warnings.catch_warnings():
            # A tolerance may be too coarse for the accuracy, which a reader says.
            warnings.filterwarnings("ignore", "even whole steps are not as accurate", adaptive.AdaptiveWarning)
            with adaptive.open(tiers[0], **way) as reader:
                step = reader.step(0)
        whole = not {"policy", "accuracy"} & way.keys()
        yield case.faults(step.data, step.max_error, step.rmse, whole=whole, region=way.get("region", ...))


def faults_of_zarr(case: Masked, path: Path) -> Iterator[list[str]]:
    """The faults of an array of Zarr whose chunks are containers: of all of it, and of a part."""
    import zarr
    from weir.adaptive.zarr_codec import NAME, RefactoredCodec
    from zarr.registry import register_codec

    register_codec(NAME, RefactoredCodec)
    chunks = tuple(max(1, length * 2 // 3) for length in case.values.shape)
    stored = zarr.create_array(
        path, shape=case.values.shape, chunks=chunks, dtype=case.values.dtype, compressors=None, filters=None,
        serializer=RefactoredCodec(codec=case.codec, fill=tuple(case.fills.tolist()), **case.options),
    )  # fmt: skip
    stored[...] = case.values
    part = tuple(slice(length // 3, length) for length in case.values.shape)
    opened = zarr.open_array(path, mode="r")
    yield case.faults(np.asarray(opened[...]), np.inf, whole=True)
    yield case.faults(np.asarray(opened[part]), np.inf, whole=True, region=part)
