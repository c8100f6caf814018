"""The score of a method; old steps count less."""

import math

_LASTING = 0.98
_RECENT = 0.85
_DOUBT = 0.5
"""Number of assumed steps before the first one, each with the error `_ERROR_FIRST`."""
_ERROR_FIRST = 0.3
_ERROR_MIN = 0.004
"""Least error of a method, so that no other method is left out for good."""


class Score:
    """Two discounted means of errors, over about 50 and about 6 steps, so that a new regime counts at once."""

    def __init__(self) -> None:
        """Begin without steps."""
        self._sums = {_LASTING: 0.0, _RECENT: 0.0}
        self._counts = {_LASTING: 0.0, _RECENT: 0.0}

    def record(self, error: float) -> None:
        """Add a step.

        Args:
            error: Relative error of the method's forecast for the step.
        """
        for discount in self._sums:
            self._sums[discount] = discount * self._sums[discount] + error
            self._counts[discount] = discount * self._counts[discount] + 1

    @property
    def lasting(self) -> float:
        """The mean over about 50 steps."""
        return self._mean(_LASTING)

    @property
    def value(self) -> float:
        """The geometric mean of both; smaller is better."""
        return max(math.sqrt(self._mean(_LASTING) * self._mean(_RECENT)), _ERROR_MIN)

    def _mean(self, discount: float) -> float:
        return (self._sums[discount] + _DOUBT * _ERROR_FIRST) / (self._counts[discount] + _DOUBT)
