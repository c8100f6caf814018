"""The bound of balance: a lower bound of OST cost for a placement of stripes (Tarazu, equation 4)."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

PATTERNS_MAX = 4_000
"""Most ways to fill a bin that are all listed; where there are more, stripes are small beside a bin."""
_STEPS = 24
"""Halvings of the interval in which the bound lies: to a ten-millionth."""


def cost_bound(stripes: Sequence[int], bins: int) -> float:
    """A lower bound of the fullest bin's load over the mean of all, wherever the stripes go.

    The largest of three: the largest stripe; of the k * bins + 1 largest, k + 1 of which share a bin, the k + 1
    smallest; and the least size of a bin with which the linear program of Gilmore and Gomory (Operations Research 9,
    1961) does not need more than `bins`, where stripes are so large that its patterns can be listed.
    """
    ordered = sorted(stripes, reverse=True)
    mean = sum(ordered) / bins
    low = max(mean, float(ordered[0]))
    for last in range(bins, len(ordered), bins):
        low = max(low, float(sum(ordered[last - last // bins : last + 1])))
    counts = Counter(ordered)
    if _fits(counts, bins, low):
        return low / mean
    high = 2.0 * low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _fits(counts, bins, middle) else (middle, high)
    return low / mean


def _fits(counts: Counter[int], bins: int, size: float) -> bool:
    """Whether bins of `size` may be enough, as far as the linear program can tell."""
    import numpy as np
    from scipy.optimize import linprog

    sizes = sorted(counts, reverse=True)
    patterns = []
    for pattern in _patterns(sizes, [counts[stripe] for stripe in sizes], size * (1 + 1e-9)):
        patterns.append(pattern)
        if len(patterns) > PATTERNS_MAX:
            return True
    needed = linprog(
        np.ones(len(patterns)),
        A_ub=-np.array(patterns, dtype=float).T,
        b_ub=-np.array([counts[stripe] for stripe in sizes], dtype=float),
        method="highs",
    )
    return needed.fun is None or math.ceil(needed.fun - 1e-6) <= bins


def _patterns(sizes: Sequence[int], counts: Sequence[int], room: float) -> Iterator[list[int]]:
    """Numbers of stripes of each size that fill a bin, so that no further stripe of the smallest size fits."""
    if len(sizes) == 1:
        yield [min(counts[0], int(room // sizes[0]))]
        return
    for number in range(min(counts[0], int(room // sizes[0])), -1, -1):
        for rest in _patterns(sizes[1:], counts[1:], room - number * sizes[0]):
            yield [number, *rest]
