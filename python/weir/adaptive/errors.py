"""Errors of refactored data; their messages name the file and the step."""

from weir.errors import WeirError


class AdaptiveError(WeirError):
    """Tiers, a stream or a step that cannot be used."""


class NoStreamError(AdaptiveError):
    """A place where no stream was begun."""


class NoAnswerError(AdaptiveError, TimeoutError):
    """A tier that does not answer in time."""


class StepError(AdaptiveError):
    """One step that cannot be written or read; other steps still can.

    Attributes:
        number: Number of the step.
        place: The file.
    """

    def __init__(self, number: int, place: str, message: str, *, hint: str = "") -> None:
        """Report the failure of a step.

        Args:
            place: The file.
            message: The failure.
            hint: A remedy; empty where none is known.
        """
        super().__init__(f"step {number}: {place}: {message}", hint=hint)
        self.number = number
        self.place = place


class DeadlineError(StepError, TimeoutError):
    """A step whose base had not arrived when its time was over."""


class AdaptiveWarning(UserWarning):
    """A step that is less accurate than planned."""


def told(error: BaseException) -> str:
    """Describe an error of a file system.

    Returns:
        The error's text; the name of its type where it has none.
    """
    return str(error) or type(error).__name__
