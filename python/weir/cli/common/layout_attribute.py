"""The layouts of files and directories of a store, from their extended attribute."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from weir.cli.common.errors import CommandError

ATTRIBUTE = "weir.layout"
"""Extended attribute of files and directories that holds their layout."""


@dataclass(frozen=True)
class LayoutAttribute:
    """The layout of a file or directory."""

    layout: str
    """The layout in the spelling of `lfs setstripe`."""
    spread: bool | None
    """Whether a directory's subdirectories get homes on all servers; None for a file."""


def layout_of(path: Path) -> LayoutAttribute:
    """Read the layout of a file or directory.

    Args:
        path: Path of the file or directory.

    Raises:
        CommandError: The path is not on a store, or not there.
    """
    try:
        text = os.getxattr(path, ATTRIBUTE).decode()
    except OSError as error:
        raise failure(path, error) from error
    spelling, separator, spread = text.partition(" spread=")
    return LayoutAttribute(layout=spelling, spread=spread == "yes" if separator else None)


def failure(path: Path, error: OSError) -> CommandError:
    """Make the error of a layout that cannot be read or set.

    Args:
        path: Path of the file or directory.
        error: The system's error.

    Returns:
        The error for the user, with a remedy.
    """
    if error.errno in (errno.EOPNOTSUPP, errno.ENODATA):
        return CommandError(f"{path} is not on a Weir store", hint="the store is at $WEIR_MOUNT; see `weir status`")
    if error.errno == errno.EINVAL:
        return CommandError(
            f"{path} cannot have this layout",
            hint="stripes and ends of components are multiples of 4 KiB; at most 32 components and 512 stripes",
        )
    if error.errno == errno.ENXIO:
        return CommandError(
            f"{path}: the layout names a target that the store has not", hint="`weir targets` lists them"
        )
    if error.errno == errno.EBUSY:
        return CommandError(
            f"{path} has bytes or is open: it keeps its layout",
            hint="copy it into a directory with the layout, or move its stripes with `weir rebalance`",
        )
    return CommandError(f"{path}: {error.strerror}")
