"""Progress of long work: a line that moves on a terminal, and a line each ten seconds elsewhere."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from weir.plain_text import plain

if TYPE_CHECKING:
    from weir.staging.reports import Progress

_BAR = 20
"""Characters of the bar."""
_PICTURE_SECONDS, _LINE_SECONDS = 0.1, 10.0
"""Shortest time between two pictures on a terminal, and between two lines elsewhere: a short command prints none."""
_FEW_PARTS = 100
"""Parts of a work each of which is shown on a terminal once it is done, however soon it was."""
_BEAT_SECONDS = 1.0
"""Time between two looks at a work that says nothing."""
_TOLD_SECONDS = 1.0
"""Time after which the rate of a work tells how long it takes yet."""


class Shown(Protocol):
    """Shows how far a work is."""

    def __call__(self, label: str, done: int, parts: int, detail: str = "") -> None:
        """Show one work; another label is the next one.

        Args:
            label: Name of the work.
            done: Parts of it that are done.
            parts: All parts; 0 where nobody knows.
            detail: Further figures.
        """


@contextmanager
def progress() -> Iterator[Shown]:
    """Show works that follow each other on standard error: what, how far, and how long yet.

    Yields:
        The function that shows them.
    """
    line = _Line()
    try:
        yield line.show
    finally:
        line.end()


@contextmanager
def working(label: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a work that may say nothing for long: then by the time that it has taken.

    Args:
        label: Name of the work.

    Yields:
        A function for the name of a step of the work, the number of its parts that are done, and of all parts.
    """
    ended = threading.Event()
    begun = time.monotonic()
    far = ("", 0, 0)
    with progress() as shown:

        def look() -> None:
            step, done, parts = far
            passed = "" if parts else f"{_spelled(time.monotonic() - begun)} so far"
            shown(label, done, parts, ", ".join(words for words in (step, passed) if words))

        def beat() -> None:
            while not ended.wait(_BEAT_SECONDS):
                look()

        def show(step: str, done: int, parts: int) -> None:
            nonlocal far
            far = (step, done, parts)
            look()

        thread = threading.Thread(target=beat, name="progress", daemon=True)
        thread.start()
        try:
            yield show
        finally:
            ended.set()
            thread.join()


@contextmanager
def copy_progress() -> "Iterator[Callable[[str, Progress], None]]":
    """Show copies that follow each other.

    Yields:
        A function for the name of the copy and its progress. All parts are the bytes that the walk has come to.
    """
    from weir.amounts import size_text

    with progress() as shown:

        def show(name: str, copy: "Progress") -> None:
            far = f"{size_text(copy.size_bytes)} of {size_text(copy.bytes_found)}"
            shown(name, copy.size_bytes, copy.bytes_found, f"{copy.files} of {copy.files_found} files, {far}")

        yield show


class _Line:
    """The line of the present work."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._label: str | None = None
        self._begun_seconds = self._due_seconds = 0.0
        self._done_before = self._done_last = 0
        self._is_open = False
        self._lock = threading.RLock()

    def show(self, label: str, done: int, parts: int, detail: str = "") -> None:
        """Show the work if it is due, or done."""
        with self._lock:
            self._show(label, done, parts, detail)

    def _show(self, label: str, done: int, parts: int, detail: str) -> None:
        now = time.monotonic()
        if label != self._label:
            self.end()
            self._label, self._begun_seconds, self._done_before = label, now, done
            self._due_seconds = now + (0.0 if self._is_terminal else _LINE_SECONDS)
        elif done < self._done_last:
            self._begun_seconds, self._done_before = now, done
        is_news = done != self._done_last and parts <= _FEW_PARTS
        self._done_last = done
        is_done = 0 < parts <= done
        if now < self._due_seconds and not (self._is_terminal and (is_done or is_news)):
            return
        self._due_seconds = now + (_PICTURE_SECONDS if self._is_terminal else _LINE_SECONDS)
        words = [*self._far(now, done, parts), *([detail] if detail else [])]
        if self._is_terminal:
            filled = _BAR * min(done, parts) // max(parts, 1)
            bar = f"  [{'#' * filled}{'-' * (_BAR - filled)}]" if parts else " "
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{plain(f'{label}{bar} ' + ', '.join(words))[:width]:<{width}}")
            self._is_open = True
        else:
            sys.stderr.write(plain(f"{label}: {', '.join(words)}") + "\n")
        sys.stderr.flush()

    def _far(self, now: float, done: int, parts: int) -> list[str]:
        """The progress of the work and the remaining time, in words."""
        if not parts:
            return [f"{done}"] if done else []
        elapsed, since = now - self._begun_seconds, done - self._done_before
        words = [f"{100 * min(done, parts) // parts}%"]
        if since > 0 and elapsed >= _TOLD_SECONDS and done < parts:
            words.append(f"{_spelled(elapsed * (parts - done) / since)} left")
        return words

    def end(self) -> None:
        """End the line on a terminal."""
        with self._lock:
            if self._is_open:
                sys.stderr.write("\n")
                sys.stderr.flush()
            self._is_open = False


def _spelled(seconds: float) -> str:
    """A time in the units that people plan with."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
