"""Errors of refactored data; their messages name the file and the step."""

from weir.errors import WeirError


class AdaptiveError(WeirError):
    """Tiers, a stream or a step that cannot be used."""


class NoStreamError(AdaptiveError):
    """A place where no stream was begun."""


class NoAnswerError(AdaptiveError, TimeoutError):
    """A tier that does not list its objects in time."""


class StepError(AdaptiveError):
    """One step that cannot be written or read; others still can.

    Attributes:
        number: The step.
        place: The file.
    """

    def __init__(self, number: int, place: str, message: str, *, hint: str = "") -> None:
        """Report an error at `place` of step `number`."""
        super().__init__(f"step {number}: {place}: {message}", hint=hint)
        self.number = number
        self.place = place


class DeadlineError(StepError, TimeoutError):
    """Not even the base of a step had arrived when its time was over."""


class AdaptiveWarning(UserWarning):
    """A step that is less accurate than planned."""


def told(error: BaseException) -> str:
    """The text of a file system's error; the name of its type where it has no text."""
    return str(error) or type(error).__name__
