"""The kernels of a stress test: the calls of each process, without a call being made.

They have the shapes of the kernels that LuxIO suggests (section III-C, step 1): VPIC-IO, BD-CATS, HACC-IO, Enzo, and
mdtest. Two more differ from HACC-IO in one thing each, so that a sensitivity is that to one condition.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Call = tuple[int, int]
"""Place and length of a read or write, in bytes."""

VERSION = 1
"""Version of the kernels. It is part of each result, because results of different kernels do not compare."""
FILE_BYTES_MIN = 20 << 20
"""Least bytes of a process: with less, the shortest variable of HACC-IO is below 1 MB."""
CONCURRENCY_FACTOR = 4
"""Processes for the sensitivity to concurrency, beside those of the guarantee."""
CALL_BYTES_MAX = 4 << 20
"""Longest call; a longer variable takes several, as in MPI-IO's buffers."""
ENZO_FIELD_BYTES = 8192
"""Bytes of a field of a grid: 16 x 8 x 8 numbers, a typical grid of a refined level."""
ENZO_ATTRIBUTE_BYTES = 800
"""Bytes of the attributes ahead of a grid."""
ENZO_FIELDS = 6
"""Fields of a grid: density, two energies, three velocities."""
ENZO_PART = 8
"""Enzo writes this part of the bytes of other kernels: small calls take longer."""
MDTEST_FILES = 64
"""Files of a process in a pass of mdtest."""
_VPIC_VARIABLES = 8
_VPIC_BYTES = 4
_HACC_BYTES = (4, 4, 4, 4, 4, 4, 4, 8, 2)
"""Bytes of each variable of a particle: places, velocities and potential, number, mask."""


@dataclass(frozen=True)
class Kernel:
    """A kernel."""

    name: str
    meaning: str
    phases: tuple[str, ...]
    """The timed phases: `write`, `read`, `mixed` or `metadata`."""
    is_shared: bool = False
    """Whether all processes have one file."""
    is_random: bool = False
    """Whether the calls of a pass are in random order."""
    is_small: bool = False
    """Whether all calls are below 10 KB."""
    factor: int = 1
    """Factor of the processes."""


KERNELS: Mapping[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("hacc", "HACC-IO: each process writes and reads variables of its own file", ("write", "read")),
        Kernel(
            "hacc-many",
            f"HACC-IO with {CONCURRENCY_FACTOR} times the processes",
            ("write", "read"),
            factor=CONCURRENCY_FACTOR,
        ),
        Kernel("hacc-random", "the calls of HACC-IO in random order", ("write", "read"), is_random=True),
        Kernel("hacc-mixed", "half of the processes of HACC-IO write while the others read", ("mixed",)),
        Kernel("vpic", "VPIC-IO: all processes write variables of one file", ("write",), is_shared=True),
        Kernel("bdcats", "BD-CATS: all processes read variables of one file", ("read",), is_shared=True),
        Kernel("enzo", "Enzo: each process writes and reads many small grids", ("write", "read"), is_small=True),
        Kernel("mdtest", "mdtest: each process makes, stats and removes empty files", ("metadata",)),
    )
}
"""The kernels by their names, in the order in which they run."""


def calls(kernel: Kernel, process: int, processes: int, file_bytes: int) -> Sequence[Call]:
    """List the calls of a process in one pass over its bytes, in the order of the application.

    Args:
        kernel: A kernel that moves bytes.
        process: Number of the process.
        processes: Number of all processes.
        file_bytes: Bytes of a process, at least 20 MiB.

    Returns:
        The calls. Those of a shared file are at places of their process.
    """
    if kernel.is_small:
        return _grids(file_bytes // ENZO_PART)
    if kernel.is_shared:
        block = file_bytes // _VPIC_VARIABLES // _VPIC_BYTES * _VPIC_BYTES
        places = [(variable * processes + process) * block for variable in range(_VPIC_VARIABLES)]
        return [call for place in places for call in _parts(place, block)]
    particles = file_bytes // sum(_HACC_BYTES)
    found: list[Call] = []
    place = 0
    for width in _HACC_BYTES:
        found += _parts(place, particles * width)
        place += particles * width
    return found


def order(kernel: Kernel, count: int, seed: int) -> Sequence[int]:
    """Decide in which order a pass makes its calls.

    Args:
        count: Number of calls.
        seed: Seed of the order, where the kernel has a random one.

    Returns:
        Numbers of the calls.
    """
    numbers = list(range(count))
    if kernel.is_random:
        random.Random(seed).shuffle(numbers)
    return numbers


def space_bytes(kernel: Kernel, processes: int, file_bytes: int) -> int:
    """Tell the space that a kernel takes at most.

    Args:
        processes: Processes, before the kernel's factor.
        file_bytes: Bytes of a process.
    """
    return processes * kernel.factor * (file_bytes // ENZO_PART if kernel.is_small else file_bytes)


def _parts(place: int, length: int) -> list[Call]:
    """A run of bytes in calls that are equally long up to a byte, and so never a short one at the end."""
    count = -(-length // CALL_BYTES_MAX)
    edges = [place + length * number // count for number in range(count + 1)]
    return [(begin, end - begin) for begin, end in itertools.pairwise(edges)]


def _grids(file_bytes: int) -> list[Call]:
    found: list[Call] = []
    place = 0
    while place + ENZO_ATTRIBUTE_BYTES + ENZO_FIELDS * ENZO_FIELD_BYTES <= file_bytes:
        for length in (ENZO_ATTRIBUTE_BYTES, *[ENZO_FIELD_BYTES] * ENZO_FIELDS):
            found.append((place, length))
            place += length
    return found
