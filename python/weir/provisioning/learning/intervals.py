"""Intervals of predictions by conformal prediction: from the errors on runs that a model was not fitted on.

The errors are those of logarithms, so an interval is a factor around the prediction. Papadopoulos et al. 2002
(inductive conformal prediction); Dunn, Wasserman and Ramdas 2022 for a run of a group that was not seen.
"""

import math
from typing import Any

import numpy
from numpy.typing import NDArray

LEVEL = 0.9
"""Part of the runs whose times are to lie in their intervals."""

COVERAGE_TOLERANCE = 0.05
"""Distance below `LEVEL` from which the part of the runs in their intervals counts as too small."""
PROGRAMS_ENOUGH = math.ceil(LEVEL / (1 - LEVEL))
"""Fewest programs of which the interval of an unknown program is a quantile: of fewer, the worst program's count."""


def half_width(errors: NDArray[Any]) -> float:
    """Find the half width of the intervals of a known program's runs.

    Args:
        errors: Absolute errors of held-out runs.

    Returns:
        The (1 + 1/n)·LEVEL quantile, which holds for one more run of the same kind.
    """
    if not len(errors):
        return math.inf
    return float(numpy.quantile(errors, min(LEVEL * (1 + 1 / len(errors)), 1.0), method="higher"))


def half_width_of_unknown(errors: NDArray[Any], programs: NDArray[Any]) -> float:
    """Find the half width of the intervals of runs whose program was never seen.

    Not runs but programs are alike here, so the quantile is taken over the programs' own quantiles: with fewer than
    `PROGRAMS_ENOUGH` programs, it is the worst program's.

    Args:
        errors: Absolute errors of runs whose program was held out as a whole.
        programs: Number of each run's program.
    """
    if not len(errors):
        return math.inf
    each = [half_width(errors[programs == program]) for program in numpy.unique(programs)]
    return half_width(numpy.array(each))
