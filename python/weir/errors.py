"""The base classes of the errors that this package raises for its users."""

from typing import Any


def remade(kind: type[BaseException], arguments: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Make an error again from its pickle, without its constructor, whose arguments were others.

    Args:
        kind: Class of the error.
        arguments: Its `args`.
        state: Its attributes.
    """
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class Picklable(Exception):  # noqa: N818 - a base of errors, which name their failures
    """An error that another process gets as it was raised.

    An exception pickles by calling its class with `args`. Where a constructor takes anything else, that fails in the
    process that gets the error, and a pool of workers waits for ever.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe the error for `pickle` and `copy`."""
        return remade, (type(self), self.args, self.__dict__)


class WeirError(Picklable):
    """An error that its reader can mend.

    Attributes:
        message: The failure, with the thing that it concerns.
        hint: A remedy; empty where none is known.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Report a failure.

        Args:
            message: The failure, with the thing that it concerns.
            hint: A remedy; empty where none is known.
        """
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # A traceback shows the note below the message.
            self.add_note(f"hint: {hint}")

    @property
    def line(self) -> str:
        """The message, and the hint where there is one, on one line."""
        return f"{self.message}; {self.hint}" if self.hint else self.message
