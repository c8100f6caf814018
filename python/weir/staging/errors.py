"""The errors of a copy."""

import errno

from weir.errors import Picklable, WeirError

FATAL = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EMFILE, errno.ENFILE)
)
"""Errors after which no other file would fare better."""
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Errors of a destination without room."""


class StagingError(WeirError):
    """A copy that is not done. Whatever was copied is kept, and the same copy goes on there.

    Attributes:
        is_missing: Whether there is no source.
        is_full: Whether the destination has no room.
    """

    def __init__(self, message: str, *, hint: str = "", is_missing: bool = False, is_full: bool = False) -> None:
        """Report a copy that is not done.

        Args:
            message: The failure, with the thing that it concerns.
            hint: A remedy.
            is_missing: Whether there is no source.
            is_full: Whether the destination has no room.
        """
        super().__init__(message, hint=hint)
        self.is_missing = is_missing
        self.is_full = is_full


class SourceChangedError(Exception):
    """A source that is not the same as when it was looked at; the copy of the file begins anew."""


class StoppedError(Exception):
    """A copy that was asked to stop, or that another worker's failure has ended."""


class FatalError(Picklable):
    """An error of the system that ends the copy.

    Attributes:
        path: The file, relative to the destination.
        error: The error.
    """

    def __init__(self, path: bytes, error: OSError) -> None:
        """Keep an error.

        Args:
            path: The file, relative to the destination.
        """
        super().__init__(str(error))
        self.path = path
        self.error = error
