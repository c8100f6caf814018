"""`weir interference record`: the windows of every job of a store while it runs."""

import os
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.asking import observed
from weir.cli.common.ending import end_of_signals
from weir.cli.common.errors import warn
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import FOLDER, Checked
from weir.cli.common.window_export import TOKEN, exported, listen_option, token_file_option
from weir.cli.common.window_options import max_size_option, seconds_option
from weir.store import values
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.interference.collector import Collector, Parts
    from weir.interference.export import Board

_END_SECONDS = 1.0
"""Time at the end in which clients may tell the windows that servers told at once."""
_POLL_SECONDS = 0.5
_END_POLL_SECONDS = 0.05


def _read_command(text: str) -> str:
    """Check a command whose program is there.

    Raises:
        ValueError: It is none.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no command: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise ValueError(f"{text!r} names no program that is here")
    return text


@click.command()
@click.option("--to", "target", required=True, type=FOLDER, help="Folder of the windows, one part of it for each run.")
@click.option("--name", default="run", type=Checked("name", values.claim), help="Name of the run.")
@seconds_option
@max_size_option
@click.option(
    "--counts",
    type=click.Choice(("server", "client")),
    default="server",
    help="Where operations are counted: at the servers, or in the jobs' programs on this host and on those of"
    " --gather.",
)
@click.option(
    "--gather",
    "commands",
    metavar="COMMAND",
    multiple=True,
    type=Checked("command", _read_command),
    help='Command of another host\'s programs, such as "ssh HOST weir interference gather"; repeat for several.',
)
@listen_option
@token_file_option
@output_option
@click.pass_obj
def record(
    home: Home,
    target: Path,
    name: str,
    seconds: float | None,
    bytes_max: str,
    counts: str,
    commands: tuple[str, ...],
    listen: str | None,
    token_file: Path | None,
    output: str,
) -> None:
    """Record the windows of every job of a store while it runs.

    The holder of the site's key records all jobs, and others their own. The windows have no labels. With --counts
    client, windows of a job are left out if its programs ran on no host that counts; UNCOUNTED is their number.
    """
    if commands and counts != "client":
        raise click.UsageError("--gather needs --counts client")
    from weir.interference.clients import Clients
    from weir.interference.collector import Collector, Parts
    from weir.interference.upkeep import collecting

    cluster = find_cluster(home)
    ended = end_of_signals(seconds)
    with (
        collecting(target, 0.0, warn),
        exported(listen, token_file or target / TOKEN) as board,
        Clients(cluster, commands, warn).running() as clients,
    ):
        recorded = _Recorded(name, Parts(target, values.size(bytes_max)), board)
        look = clients.look if counts == "client" else None
        collector = Collector(lambda: observed(home), warn, look)
        while True:
            is_end = ended()
            collector.poll()
            if is_end and look is not None:
                _await_clients(collector)
            recorded.take(collector, is_end=is_end and look is None)
            if is_end:
                break
            time.sleep(_POLL_SECONDS)
    document = {
        "windows": recorded.windows,
        "jobs": len(recorded.jobs),
        "removed_parts": recorded.removed,
        "folder": str(target),
    }
    headings = ["WINDOWS", "JOBS", "REMOVED PARTS", "FOLDER"]
    if counts == "client":
        document["uncounted"] = recorded.uncounted
        headings.append("UNCOUNTED")
    show(output, document, headings, [tuple(document.values())])


def _await_clients(collector: "Collector") -> None:
    """Poll until clients told the last window of the servers, within a bound."""
    told, limit = collector.told(), time.monotonic() + _END_SECONDS
    while collector.reached() < told and time.monotonic() < limit:
        time.sleep(_END_POLL_SECONDS)
        collector.poll()


class _Recorded:
    """The windows that were kept."""

    def __init__(self, name: str, parts: "Parts", board: "Board | None") -> None:
        self._name = name
        self._parts = parts
        self._board = board
        self.windows = 0
        self.removed = 0
        self.uncounted = 0
        self.jobs: set[tuple[str, int]] = set()

    def take(self, collector: "Collector", *, is_end: bool) -> None:
        """Keep the windows that every side has told."""
        from weir.interference.collector import joined, owned_jobs_of

        for number, at_servers in collector.take(is_end=is_end):
            clients = None if collector.look_at_clients is None else collector.take_clients(number)
            counted = None if clients is None else {(line.job, line.uid) for line in clients}
            for job in owned_jobs_of(at_servers):
                if counted is not None and job not in counted:
                    self.uncounted += 1
                    continue
                name, uid = job
                window = joined(number, at_servers, name, self._run_of(job), name, uid=uid, clients=clients)
                self.removed += self._parts.add(window)
                if self._board is not None:
                    self._board.add(number, job, window.rows)
                self.jobs.add(job)
                self.windows += 1

    def _run_of(self, job: tuple[str, int]) -> str:
        """The name of a job's run. No other user can give a job a name by which it joins a run of this one."""
        name, uid = job
        return f"{self._name}.{name}" if uid == os.geteuid() else f"{self._name}.{uid}/{name}"
