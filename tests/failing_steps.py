"""Work for processes of a pool that fails as a step does. Workers that are spawned import it by its name."""

from weir.adaptive.errors import DeadlineError, StepError


def fail(number: int) -> None:
    """Raise the error of a step: of one that is late where the number is even."""
    raise (StepError if number % 2 else DeadlineError)(number, "place", "it is gone", hint="write it again")
