"""The screen of `weir top`: the keys, what is chosen, and the picture of a moment."""

import os
import re
import select
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from weir.cli.common.output import bold

Sample = TypeVar("Sample")
Interval = TypeVar("Interval")

_ENTER = "\x1b[?1049h\x1b[?25l"
"""The terminal's other screen, without a cursor (xterm, "Private Modes"); its own is as it was after `_LEAVE`."""
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_REVERSED, _PLAIN = "\x1b[7m", "\x1b[0m"
_KEY = re.compile(rb"\x1b(?:[\[O][0-9;]*[A-Za-z~])?|.", re.DOTALL)
"""A key as xterm sends it: one byte, or a sequence that begins with an escape."""
_UP, _DOWN, _LEFT, _RIGHT = "up", "down", "left", "right"
_OPEN, _CLOSE, _REVERSE, _QUIT = "open", "close", "reverse", "quit"
_NAMES = {
    **dict(zip((b"\x1b[A", b"\x1b[B", b"\x1b[C", b"\x1b[D"), (_UP, _DOWN, _RIGHT, _LEFT), strict=True)),
    **dict(zip((b"\x1bOA", b"\x1bOB", b"\x1bOC", b"\x1bOD"), (_UP, _DOWN, _RIGHT, _LEFT), strict=True)),
    b"\r": _OPEN,
    b"\n": _OPEN,
    b"\x1b": _CLOSE,
    b"\x7f": _CLOSE,
    b"r": _REVERSE,
    b"q": _QUIT,
}
KEYS = "q leaves   up, down: choose   left, right: sort   r: the other way round   Enter: open   Escape: back"


@dataclass(frozen=True)
class View:
    """The user's choices.

    Attributes:
        column: Number of the column by which the jobs are sorted.
        is_reversed: Whether the order is the other way round.
        chosen: Number of the chosen job, which stays chosen while others come and go; None is none.
        is_open: Whether the chosen job's details are shown in place of the table.
    """

    column: int
    is_reversed: bool = False
    chosen: str | None = None
    is_open: bool = False

    def pressed(self, key: str, jobs: Sequence[str], columns: int) -> "View":
        """Follow a key.

        Args:
            key: Name of the key.
            jobs: Numbers of the jobs in their order on the screen.
            columns: Count of the columns.

        Returns:
            The choices then; the same for a key without a meaning now.
        """
        if key in (_UP, _DOWN):
            return replace(self, chosen=self._neighbour(1 if key == _DOWN else -1, jobs))
        if key in (_LEFT, _RIGHT) and not self.is_open:
            step = 1 if key == _RIGHT else -1
            return replace(self, column=(self.column + step) % columns, is_reversed=False)
        if key == _REVERSE and not self.is_open:
            return replace(self, is_reversed=not self.is_reversed)
        if key == _OPEN:
            return replace(self, is_open=self.chosen is not None)
        return replace(self, is_open=False) if key == _CLOSE else self

    def _neighbour(self, step: int, jobs: Sequence[str]) -> str | None:
        """The next job on the screen; the first or last one where the chosen one is gone."""
        if not jobs:
            return self.chosen
        if self.chosen not in jobs:
            return jobs[0 if step > 0 else -1]
        return jobs[min(max(jobs.index(self.chosen) + step, 0), len(jobs) - 1)]


@dataclass(frozen=True)
class Picture:
    """Lines of a moment, which are cut to the terminal.

    Attributes:
        head: Lines that are always shown; the first one is bold.
        title: Line above the rows.
        rows: Further lines; as many as there is room for.
        chosen: Place of the row that is chosen, and therefore shown; None is none.
    """

    head: Sequence[str]
    title: str
    rows: Sequence[str]
    chosen: int | None = None

    def text(self, columns: int, lines: int, *, keys: bool) -> str:
        """Draw the picture over the one before, without clearing that first, so that nothing flickers.

        Args:
            columns: Width of the terminal.
            lines: Height of the terminal.
            keys: Whether the last line names the keys.

        Returns:
            The text for the terminal.
        """
        room = max(lines - len(self.head) - 2 - (2 if keys else 1), 1)
        first = 0 if self.chosen is None else max(0, self.chosen - room + 1)
        head = [line[:columns] for line in self.head]
        drawn = [bold(head[0]), *head[1:], "", bold(self.title[:columns])]
        for place, row in enumerate(self.rows[first : first + room], first):
            cut = row[:columns]
            drawn.append(f"{_REVERSED}{cut:<{columns}}{_PLAIN}" if place == self.chosen else cut)
        drawn = drawn[: lines - 1]
        foot = f"\x1b[{lines};1H{KEYS[: columns - 1]}" if keys else ""
        return _HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in drawn) + _END_OF_SCREEN + foot


@dataclass(frozen=True)
class Show(Generic[Sample, Interval]):
    """What is shown, for a screen that does not know of stores.

    Attributes:
        sample: Asks for a moment.
        interval: Computes what was between two moments.
        jobs: Finds the numbers of the jobs in their order on the screen.
        picture: Draws them.
        columns: Count of the columns.
    """

    sample: Callable[[], Sample]
    interval: Callable[[Sample, Sample], Interval]
    jobs: Callable[[Interval, View], Sequence[str]]
    picture: Callable[[Interval, View], Picture]
    columns: int


def follow(show: Show[Sample, Interval], view: View, interval_seconds: float) -> None:
    """Show interval after interval until the user leaves, and leave the terminal as it was.

    Args:
        show: What is shown.
        view: The first choices.
        interval_seconds: Length of an interval.
    """
    before = show.sample()
    with _screen(), _keyboard() as key_within:
        has_keys = sys.stdin.isatty()
        _write(f"{_HOME}the first interval ends in {interval_seconds:g} s{_END_OF_SCREEN}")
        due = time.monotonic()
        shown: Interval | None = None
        while True:
            # Samples lie on a grid, so that slow servers do not stretch intervals, but never without a pause.
            due = max(due + interval_seconds, time.monotonic() + interval_seconds / 10)
            while (left := due - time.monotonic()) > 0:
                key = key_within(left)
                if key == _QUIT:
                    return
                if key is not None and shown is not None:
                    view = view.pressed(key, show.jobs(shown, view), show.columns)
                    _draw(show.picture(shown, view), keys=has_keys)
            after = show.sample()
            shown = show.interval(before, after)
            _draw(show.picture(shown, view), keys=has_keys)
            before = after


def _draw(picture: Picture, *, keys: bool) -> None:
    size = shutil.get_terminal_size()
    _write(picture.text(size.columns, size.lines, keys=keys))


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal's other screen, until the block ends or the user presses Ctrl-C."""
    _write(_ENTER)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        _write(_LEAVE)


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str | None]]:
    """Keys without the need of Enter, where standard input is a terminal.

    Yields:
        A function that waits a number of seconds for a key; it returns None if no key came.
    """
    import termios
    import tty

    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    pending: deque[str] = deque()

    def key_within(seconds: float) -> str | None:
        if not pending and select.select([descriptor], [], [], seconds)[0]:
            typed = os.read(descriptor, 1024)
            # The end of the input is the user who has gone.
            keys = [_NAMES.get(each) for each in _KEY.findall(typed)] if typed else [_QUIT]
            pending.extend(key for key in keys if key is not None)
        return pending.popleft() if pending else None

    tty.setcbreak(descriptor)
    try:
        yield key_within
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
