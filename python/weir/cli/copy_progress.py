"""The progress of a copy: one line on a terminal, nothing elsewhere."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weir.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from weir.staging.reports import Progress

_BAR = 20
"""Characters of the bar."""


@contextmanager
def copy_progress() -> "Iterator[Callable[[str, Progress], None]]":
    """Show the progress of copies that follow each other.

    Yields:
        A function for the name of the copy and its progress. The bar is of the files that the walk has come to.
    """
    if not sys.stderr.isatty():
        yield lambda name, progress: None
        return
    begun: dict[str, tuple[float, int]] = {}

    def show(name: str, progress: "Progress") -> None:
        from weir.amounts import size_text

        start, before = begun.setdefault(name, (time.monotonic(), progress.size_bytes))
        rate = (progress.size_bytes - before) / max(time.monotonic() - start, 1e-3)
        filled = _BAR * progress.size_bytes // max(progress.bytes_found, 1)
        words = (
            f"{name}  [{'#' * filled}{'-' * (_BAR - filled)}] {progress.files}/{progress.files_found} files, "
            f"{size_text(progress.size_bytes)} of {size_text(progress.bytes_found)}, {size_text(max(rate, 0))}/s"
        )
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{plain(words)[-width:]:<{width}}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if begun:
            sys.stderr.write("\n")
