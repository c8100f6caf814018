"""The levels of a history: how coarse its buckets are, and to which age it keeps them."""

from dataclasses import dataclass

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
"""In milliseconds."""
KEPT_MIN = 30 * DAY
"""Age that a history reaches at least, in milliseconds."""
STATES_EVERY = 10 * SECOND
"""Time from one look at the states of devices to the next, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Level:
    """Buckets of one width.

    Attributes:
        width: Their width in milliseconds; that of the finest level is the store's window.
        age: Age in milliseconds up to which they are kept.
    """

    width: int
    age: int


def levels_of(window: int, kept: int) -> tuple[Level, ...]:
    """Choose the levels of a history.

    Args:
        window: Length of the store's windows, in milliseconds.
        kept: Age that the coarsest level reaches, in milliseconds.

    Returns:
        The levels, the finest first: of windows, 10 s, 1 min and 10 min, as far as these are coarser than windows.
    """
    coarser = [Level(10 * SECOND, 2 * DAY), Level(MINUTE, 8 * DAY), Level(10 * MINUTE, kept)]
    return (Level(window, 2 * HOUR), *(level for level in coarser if level.width > window))
