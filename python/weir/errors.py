"""The base class of the errors that this package raises for its users."""


class WeirError(Exception):
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
