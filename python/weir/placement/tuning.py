"""A progressive layout fitted to a system and to the sizes of a program's files (Tarazu, section 8.6).

A stripe holds the bytes of a target when all bytes are divided evenly. So a smaller file has one stripe, and the number
of stripes grows linearly with size. Each component has three times the stripes of the one before, until their sum
reaches the number of targets; the last component goes over all targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weir import _core

SHARE_SECONDS_MIN = 0.1
"""Least time of a stripe at its target: a faster stripe costs more to create and open than it saves."""
TARGET_SPEED = 512 << 20
"""Speed of a target in bytes a second, where the caller names none."""
GROWTH = 3
"""Ratio of a component's stripes to the previous one's: with 3 a layout for 3,600 targets has nine components."""
STRIPE_BYTES_MIN = 1 << 20
"""Smallest stripe."""
_STRIPE_BYTES_MAX = 64 << 20
"""Largest stripe: larger ones leave targets idle while a program writes a file from its beginning."""
_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k"))


@dataclass(frozen=True, slots=True)
class Tuned:
    """A layout and its inputs."""

    spelling: str
    """Layout in the spelling of `lfs setstripe`."""
    ini: str
    """Layout in the format of the paper's configuration manager (its figure 12)."""
    share_bytes: int
    """Bytes of a stripe in all components but the last."""
    stripes: tuple[tuple[int, int], ...]
    """Bytes and number of stripes of the program's smallest, median and largest file."""


def tune(sizes: Sequence[int], *, targets: int, target_speed: int = TARGET_SPEED, transfer_bytes: int = 0) -> Tuned:
    """Fit a layout.

    Args:
        sizes: Sizes in bytes of the files that a run makes, at least one.
        targets: Number of targets of the system.
        target_speed: Speed of a target in bytes a second.
        transfer_bytes: Size of the program's most common access; 0 where it is not known.

    Raises:
        ValueError: There are no files or no targets.
    """
    if not sizes or targets < 1:
        raise ValueError("a layout is fitted to one file and one target at least")
    stripe_bytes = _stripe_bytes(transfer_bytes)
    least = max(round(target_speed * SHARE_SECONDS_MIN), stripe_bytes)
    share_bytes = _rounded_up(max(-(-sum(sizes) // targets), least), stripe_bytes)
    components = _components(share_bytes, targets)
    spelling = " ".join(f"-E {spell(end)} -c {count} -S {spell(stripe_bytes)}" for end, count in components)
    ordered = sorted(sizes)
    shown = dict.fromkeys((ordered[0], ordered[len(ordered) // 2], ordered[-1]))
    return Tuned(
        spelling=spelling,
        ini=_core.layout_to_ini(spelling),
        share_bytes=share_bytes,
        stripes=tuple((size, _stripes_of(size, components, targets)) for size in shown),
    )


def spell(size_bytes: int) -> str:
    """Spell a size for `lfs setstripe`, in the largest unit that is exact.

    Args:
        size_bytes: The size; -1 is the end of the file.

    Returns:
        The size's text.
    """
    for unit, letter in _UNITS:
        if size_bytes > 0 and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}"
    return str(size_bytes)


def _components(share_bytes: int, targets: int) -> list[tuple[int, int]]:
    """Ends and stripe counts of the components; the last end is -1."""
    components = []
    count, total = 1, 0
    while total < targets:
        left = targets - total - count
        if left < count:
            # The rest would make a component with fewer stripes than the one before it.
            count += left
        total += count
        components.append((share_bytes * total, count))
        count *= GROWTH
    return [*components, (-1, -1)]


def _stripes_of(size: int, components: Sequence[tuple[int, int]], targets: int) -> int:
    """Number of stripes with objects in a file of this size: the stripes of every component that the file reaches."""
    begin, total = 0, 0
    for end, count in components:
        if size > begin or begin == 0:
            total += targets if count < 0 else count
        begin = end
    return total


def _stripe_bytes(transfer_bytes: int) -> int:
    """The smallest power of two that holds an access whole, within bounds."""
    wanted = 1 << max(transfer_bytes - 1, 0).bit_length()
    return min(max(wanted, STRIPE_BYTES_MIN), _STRIPE_BYTES_MAX)


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
