"""What goes wrong with refactored data, in words that name the file and the step."""

from weir.errors import WeirError


class AdaptiveError(WeirError):
    """Tiers, a stream or a step that cannot be used."""


class NoStreamError(AdaptiveError):
    """A place where no stream was begun."""


class NoAnswerError(AdaptiveError, TimeoutError):
    """A tier that does not say in time what lies there."""


class StepError(AdaptiveError):
    """One step that cannot be written or read; others still can.

    Attributes:
        number: The step.
        place: The file.
    """

    def __init__(self, number: int, place: str, message: str, *, hint: str = "") -> None:
        """Say what happened to `place` of step `number`."""
        super().__init__(f"step {number}: {place}: {message}", hint=hint)
        self.number = number
        self.place = place


class DeadlineError(StepError, TimeoutError):
    """Not even the base of a step had arrived when its time was over."""


class AdaptiveWarning(UserWarning):
    """A step that is less accurate than it was to be."""


def told(error: BaseException) -> str:
    """What an error of a file system says; some say nothing but what they are."""
    return str(error) or type(error).__name__
