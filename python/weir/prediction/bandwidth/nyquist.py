"""Warnings that an analysis is too slow to see its disturbance (the paper's section IV-D2).

Steps see a period only if they are at most half of it apart. Evenly spaced steps show a shorter period as a longer
one, its alias. The alias of a steady disturbance can be forecast, but a small change of the period moves the alias far.
"""

from weir.prediction.bandwidth.history import Steps

_STEPS_MIN = 24
_SPACING_SECONDS_MIN = 0.05
"""Spacing of steps that follow each other at once: no analysis works between them, or can read more often."""
_VARIES = 0.1
_FORESEEN = 0.85
"""A method has seen a period if its error is below this part of a constant's."""

_SEEN = 0.65
"""Below this part the result is no chance: among many periods some fit any noise a little."""


class Sampling:
    """Warns where steps are too far apart for a known period."""

    def __init__(self, period_seconds: float | None) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._period_seconds = period_seconds

    def warning(self, steps: Steps | None) -> str | None:
        """The warning for the period that the user knows."""
        if self._period_seconds is None:
            return None
        return self.warning_of(steps, self._period_seconds)

    def warning_of(self, steps: Steps | None, period_seconds: float) -> str | None:
        """The warning for any period."""
        if steps is None or steps.spacing_seconds * 2 <= period_seconds:
            return None
        return (
            f"steps {steps.spacing_seconds:.3g} s apart cannot follow a disturbance every {period_seconds:.3g} s; "
            f"read at least every {period_seconds / 2:.3g} s"
        )


def is_foreseen(steps: Steps, error: float, constant_error: float) -> bool:
    """Whether a method of this mean relative error has seen something in a bandwidth that varies.

    Args:
        steps: The last steps.
        error: Mean relative error of the method.
        constant_error: Mean relative error of the best constant.
    """
    return _may_tell(steps) and constant_error >= _VARIES and error < _SEEN * constant_error


def unexplained(steps: Steps, best_error: float, constant_error: float) -> str | None:
    """The warning for a varying bandwidth that no method forecasts, where the pace of the steps could change.

    Args:
        steps: The last steps.
        best_error: Mean relative error of the best method.
        constant_error: Mean relative error of the best constant.
    """
    if not _may_tell(steps) or constant_error < _VARIES or best_error < _FORESEEN * constant_error:
        return None
    if not steps.has_pace:
        return None
    return (
        f"the bandwidth varies by {constant_error:.0%} from step to step and no period is seen in it; "
        f"if what disturbs it has one, it is shorter than {2 * steps.spacing_seconds:.3g} s: read more often to see it"
    )


def _may_tell(steps: Steps) -> bool:
    return len(steps.values) >= _STEPS_MIN and steps.spacing_seconds >= _SPACING_SECONDS_MIN
