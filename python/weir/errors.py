"""The base of the errors that this package raises for its users."""


class WeirError(Exception):
    """An error that its reader can do something about.

    Attributes:
        message: What happened, to what.
        hint: What to do about it; empty where nothing can be said.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Say `message`, and `hint` what to do."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # A traceback shows the note below the message.
            self.add_note(f"hint: {hint}")
