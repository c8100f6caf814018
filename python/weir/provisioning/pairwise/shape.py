"""The shape of a class's representative: its endless mix of calls, without a call being made."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from weir.provisioning.behaviour.identity import Identity

SMALL_BYTES, MEDIUM_BYTES, LARGE_BYTES = 4096, 128 << 10, 1 << 20
"""Lengths of calls below 10 KB, between, and from 1 MB on."""
FILE_BYTES = 4 << 20
"""Bytes of a process's file, in which its calls lie: four of the longest."""
METADATA_MAX = 4.0
"""Most calls without bytes for each call with bytes: more would hide the class's reads and writes in a short run."""

Kind = Literal["read", "write", "metadata"]


@dataclass(frozen=True)
class Shape:
    """The parts of a mix, from 0 to 1."""

    read: float
    """Part of the reads among reads and writes."""
    small: float
    large: float
    sequential: float
    """Part of the calls that begin where the one before ended."""
    metadata: float
    """Calls that move no bytes for each one that does."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a process."""

    kind: Kind
    place: int = 0
    length: int = 0


def of(centre: Identity) -> Shape:
    """Take the shape from the job in the middle of a class."""
    moved = centre.read_operations + centre.write_operations
    return Shape(
        read=centre.read_operations / moved if moved else 0.5,
        small=centre.small_fraction,
        large=centre.large_fraction,
        sequential=centre.sequential_fraction,
        metadata=min(centre.metadata_operations / moved, METADATA_MAX) if moved else METADATA_MAX,
    )


def calls(shape: Shape, seed: int) -> Iterator[Call]:
    """Go through the calls of a process.

    Each quantity follows its part as closely as whole calls can, so that a short run has the mix of a long one.

    Args:
        seed: Seed of the places and of the order in which lengths follow each other.

    Yields:
        Calls without an end.
    """
    dice = random.Random(seed)
    metadata = shape.metadata * dice.random()
    place = 0
    # Low-discrepancy sequences: the multiples of an irrational number, with a start of their own for each quantity.
    starts = [dice.random() for _ in range(3)]
    number = 0
    while True:
        number += 1
        ways = [(start + number * step) % 1.0 for start, step in zip(starts, _STEPS, strict=True)]
        metadata += shape.metadata
        while metadata >= 1.0:
            metadata -= 1.0
            yield Call("metadata")
        length = SMALL_BYTES if ways[1] < shape.small else MEDIUM_BYTES
        if ways[1] >= 1.0 - shape.large:
            length = LARGE_BYTES
        if ways[2] >= shape.sequential or place + length > FILE_BYTES:
            place = dice.randrange((FILE_BYTES - length) // SMALL_BYTES + 1) * SMALL_BYTES
        yield Call("read" if ways[0] < shape.read else "write", place, length)
        place += length


_STEPS = (0.6180339887498949, 0.4142135623730951, 0.7320508075688772)
