"""Warnings that an analysis is too slow to see its disturbance (the paper's section IV-D2).

Steps see a period only if they are at most half of it apart. Evenly spaced steps show a shorter period as a longer
one, its alias. The alias of a steady disturbance can be forecast, but a small change of the period moves the alias far.
"""

from weir.prediction.bandwidth.history import Steps

_STEPS_MIN = 24
_SPACING_SECONDS_MIN = 0.05
"""Spacing up to which steps follow each other at once: no analysis works between such steps, or can read more often."""
_VARIES = 0.1
"""Mean relative error of the best constant from which a bandwidth varies."""
_FORESEEN = 0.85
"""Part of a constant's error below which a method has seen a period."""

_SEEN = 0.65
"""Part of a constant's error below which this is no chance: among many periods some fit any noise a little."""


class Sampling:
    """Warns where steps are too far apart for a period."""

    def __init__(self, period_seconds: float | None) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._period_seconds = period_seconds

    def warning(self, steps: Steps | None) -> str | None:
        """Check the period that the user knows.

        Args:
            steps: The last steps; None where there are none.

        Returns:
            The warning; None where there is nothing to warn of.
        """
        if self._period_seconds is None:
            return None
        return self.warning_of(steps, self._period_seconds)

    def warning_of(self, steps: Steps | None, period_seconds: float) -> str | None:
        """Check a period.

        Args:
            steps: The last steps; None where there are none.

        Returns:
            The warning; None where the steps are close enough.
        """
        if steps is None or steps.spacing_seconds * 2 <= period_seconds:
            return None
        return (
            f"steps {steps.spacing_seconds:.3g} s apart cannot follow a disturbance every {period_seconds:.3g} s; "
            f"read at least every {period_seconds / 2:.3g} s"
        )


def is_foreseen(steps: Steps, error: float, constant_error: float) -> bool:
    """Decide whether a method of a mean relative error has seen a rule in a bandwidth that varies.

    Args:
        steps: The last steps.
        constant_error: Mean relative error of the best constant.

    Returns:
        Whether it has.
    """
    return _may_tell(steps) and constant_error >= _VARIES and error < _SEEN * constant_error


def unexplained(steps: Steps, best_error: float, constant_error: float) -> str | None:
    """Warn of a varying bandwidth that no method forecasts, where the pace of the steps could change.

    Args:
        steps: The last steps.
        best_error: Mean relative error of the best method.
        constant_error: Mean relative error of the best constant.

    Returns:
        The warning; None where there is nothing to warn of.
    """
    if not _may_tell(steps) or constant_error < _VARIES or best_error < _FORESEEN * constant_error:
        return None
    if not steps.has_pace:
        return None
    return (
        f"the bandwidth varies by {constant_error:.0%} from step to step and no period is seen in it; "
        f"if its disturbance has a period, it is below {2 * steps.spacing_seconds:.3g} s: read more often to see it"
    )


def _may_tell(steps: Steps) -> bool:
    return len(steps.values) >= _STEPS_MIN and steps.spacing_seconds >= _SPACING_SECONDS_MIN
