"""`weir record`: the resident recorder of a store's history."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.ending import end_of_signals
from weir.cli.common.errors import say, warn
from weir.cli.common.history_options import folder_of, history_option
from weir.cli.common.parameters import Checked
from weir.cli.common.window_options import seconds_option
from weir.store import values
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.control import Server

_KEPT_DAYS_MIN = 30


def _kept(text: str) -> float:
    from weir.history.moments import duration_seconds

    seconds = duration_seconds(text)
    if not _KEPT_DAYS_MIN * 86_400 <= seconds <= 10 * 366 * 86_400:
        raise ValueError(f"a history is kept for {_KEPT_DAYS_MIN}d to ten years, not for {text}")
    return seconds


@click.command()
@history_option
@click.option(
    "--max-size",
    "bytes_max",
    default="2GiB",
    type=Checked("size", values.size),
    help="Largest size of the history in bytes. Beyond this size old data is made coarser earlier, and at last"
    " the oldest is removed.",
)
@click.option(
    "--keep",
    "kept",
    metavar="TIME",
    default="35d",
    type=Checked("time", _kept),
    help=("Time for which sums over 10 minutes are kept."),
)
@seconds_option
@click.pass_obj
def record(home: Home, history: Path | None, bytes_max: str, kept: str, seconds: float | None) -> None:
    """Keep the history of a store, until ^C.

    Each second the command records from the servers: the work of jobs at devices, waits and the jobs that caused
    them, shares owed and received, states of targets, decisions, and findings. Windows are kept for two hours. Sums
    and maxima over 10 s are kept for two days, over a minute for eight days, and over 10 minutes for the time of
    --keep. Times without a recorder stay gaps.

    The command needs the site's key. `weir jobs --since` and `weir replay` read the history, even while it grows.
    """
    from weir.cli.common.asking import administered
    from weir.health import findings
    from weir.health.gathering import PATIENT_SECONDS
    from weir.history.database import Database
    from weir.history.judgements import Judgements
    from weir.history.recorder import Recorder, run

    def find() -> "list[Server]":
        return administered(home, "record it")

    find()
    home.check_owner()
    is_over = end_of_signals(seconds)
    folder = folder_of(home, history)
    database = Database(folder, bytes_max=values.size(bytes_max), kept=round(_kept(kept) * 1000))
    judgements = Judgements(lambda: findings(home, seconds=PATIENT_SECONDS))
    try:
        say(f"the history is kept in {folder}")
        run(Recorder(find, database, warn, judged=judgements.values), is_over)
    finally:
        database.close()
