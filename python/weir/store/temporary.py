"""Stores in temporary folders, which belong to the program that brought them up."""

import contextlib
import shutil
from pathlib import Path

from weir.store import lifecycle
from weir.store.errors import StoreError
from weir.store.home import Home


def home_in(folder: Path) -> Home:
    """The home of a temporary store.

    Returns:
        The home, which need not exist.
    """
    return Home.at(str(folder / "home"))


def remove(folder: Path) -> None:
    """Remove a temporary store as far as possible."""
    with contextlib.suppress(StoreError, OSError):
        lifecycle.remove(home_in(folder))
    shutil.rmtree(folder, ignore_errors=True)
