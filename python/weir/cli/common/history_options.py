"""Options of commands that keep or read a store's history, and the stretch of time that they look at."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from weir.amounts import clock_time
from weir.cli.common.errors import warn
from weir.cli.common.parameters import FOLDER, Checked
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.history.reading import Gap, History

Command = TypeVar("Command", bound=Callable[..., Any])

_FOLDER = "history"
"""Folder of the history in the store's home."""
_GAPS_SHOWN = 3

history_option = click.option("--history", type=FOLDER, help="Folder of the history.  [default: history in the home]")


def _moment(text: str) -> float:
    from weir.history.moments import read_moment

    return read_moment(text, time.time())


MOMENT = Checked("moment", _moment)
"""A moment that was, such as 14:00 or yesterday."""


def folder_of(home: Home, history: Path | None) -> Path:
    """Find the folder of a history.

    Args:
        history: The folder that was named; None is that of the home.
    """
    return (history or home.root / _FOLDER).absolute()


def stretch(since: str, until: str | None) -> tuple[int, int]:
    """Read a stretch of time.

    Args:
        since: Its begin, as `MOMENT` takes it.
        until: Its end; None is now.

    Returns:
        Begin and end in Unix milliseconds.

    Raises:
        click.UsageError: It ends before it begins.
    """
    from weir.history.moments import read_moment

    now = time.time()
    begin, end = read_moment(since, now), now if until is None else read_moment(until, now)
    if end <= begin:
        raise click.UsageError(f"--until {until} is not after --since {since}")
    return round(begin * 1000), round(end * 1000)


def opened(home: Home, history: Path | None) -> "History":
    """Open the history of a store.

    Raises:
        HistoryError: There is none, or it cannot be read.
    """
    from weir.history.reading import History

    return History(folder_of(home, history))


def warn_of_gaps(gaps: "list[Gap]") -> None:
    """Warn of what is not known of a stretch of time."""
    for gap in gaps[:_GAPS_SHOWN]:
        warn(f"nothing was recorded of server {gap.server} from {clock(gap.begin)} to {clock(gap.end)}")
    if len(gaps) > _GAPS_SHOWN:
        warn(f"there are {len(gaps) - _GAPS_SHOWN} more gaps; --output json has all")


def clock(milliseconds: int) -> str:
    """Spell a moment, in local time.

    Args:
        milliseconds: Unix time.
    """

    return clock_time(milliseconds / 1000)
