"""`weir interference record`, `gather`, `clients` and `collect`: windows of a running store, and labelled data sets."""

import json
import os
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.asking import observed
from weir.cli.drawing import say_drawn
from weir.cli.ending import end_of_signals
from weir.cli.errors import say, warn
from weir.cli.output import Quantity, json_text, output_option, show
from weir.cli.parameters import FILE, FOLDER, Checked
from weir.cli.window_export import TOKEN, exported, listen_option, token_file_option
from weir.cli.window_options import max_size_option, seconds_option
from weir.store import values
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.interference.collection import Run
    from weir.interference.collector import Collector, Parts
    from weir.interference.export import Board

_POLL_SECONDS = 0.5
_END_SECONDS = 1.0
"""Time at the end in which clients may tell the windows that servers told at once."""
_END_POLL_SECONDS = 0.05
_folder = FOLDER


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
@click.option("--to", "target", required=True, type=_folder, help="Folder of the windows, one part of it for each run.")
@click.option("--name", default="run", type=Checked("name", values.claim), help="Name of the run.")
@seconds_option
@max_size_option
@click.option(
    "--counts",
    type=click.Choice(("server", "client")),
    default="server",
    help="Who counts the operations of jobs: the servers, or the jobs' programs on this host and those of --gather.",
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
    client, a window of a job whose programs were on no host that counts is left out, and counted as UNCOUNTED.
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


@click.command()
@output_option
@click.pass_obj
def clients(home: Home, output: str) -> None:
    """Show what programs on this host asked of the store in the windows that ended last.

    They are those of this user, and for the superuser those of all users. IOPS counts reads, writes and metadata
    operations together.
    """
    from dataclasses import asdict

    from weir.cli import client_lines
    from weir.store import client_windows

    document = json.loads(find_cluster(home).read_text())
    length = client_windows.length_of(document)
    found = client_windows.look(document, 0)
    for problem in found.problems:
        warn(problem)
    lines = [asdict(line) for line in found.lines]
    in_order = sorted(lines, key=lambda line: (line["window"], line["job"], line["device"]))
    shown = {
        "window_seconds": length,
        "last": found.last,
        "left_out": found.left_out,
        "lines": lines,
    }
    show(output, shown, client_lines.HEADINGS, [client_lines.cells(line, length) for line in in_order])


@click.command()
@seconds_option
@click.pass_obj
def gather(home: Home, seconds: float | None) -> None:
    """Write what programs on this host ask of the store, a JSON object for each window that ends.

    It is for `weir interference record --gather` on another host.
    """
    from weir.interference.clients import gathered
    from weir.store import client_windows

    document = json.loads(find_cluster(home).read_text())
    length = client_windows.length_of(document)
    ended = end_of_signals(seconds)
    after = 0
    while True:
        is_end = ended()
        found = client_windows.look(document, after)
        for each in gathered(found, length, after):
            print(json_text(each), flush=True)
        after = found.last
        if is_end:
            break
        time.sleep(_POLL_SECONDS)


@click.command()
@click.argument("plan", type=FILE)
@click.option("--to", "target", required=True, type=_folder, help="Folder of the data set.")
@click.option(
    "--policy", type=Checked("policy", values.policy), help="Policy of the store.  [default: that of the plan's store]"
)
@click.option("--simulated", "is_simulated", is_flag=True, help="Simulate the runs in place of stores and programs.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Start of all dice of --simulated.  [default: 0]")
@click.option("--plots", "is_drawn", is_flag=True, help="Draw the times of operations into `plots` of the data set.")
@output_option
def collect(
    plan: Path,
    target: Path,
    policy: str | None,
    is_simulated: bool,
    seed: int | None,
    is_drawn: bool,
    output: str,
) -> None:
    """Collect a labelled data set by the runs of a plan.

    Each target runs alone, and then among its interferers, on a store of its own. A collection that was ended goes on
    where it stopped. With --simulated no program runs: the simulator does the operations of the plan's kernels on the
    plan's store. One seed has one data set.
    """
    if seed is not None and not is_simulated:
        raise click.UsageError("--seed needs --simulated")
    import msgspec

    from weir.interference import collection
    from weir.interference import plan as plans
    from weir.interference.agreement import described
    from weir.plots import operation_times

    loaded = plans.read(plan)
    if policy is not None:
        loaded = plans.under(loaded, policy)
    if is_simulated:
        loaded = plans.simulated(loaded, seed or 0)
    runs = collection.collect(loaded, target, say)
    for line in described(collection.quality(runs, target)):
        say(line)
    _tell_noise(runs, loaded.plan.noise_max)

    def shown(figure: float | None) -> Quantity:
        return Quantity("" if figure is None else f"{figure:.2f}")

    rows = [
        (
            run.name,
            run.windows,
            run.dropped,
            run.noisy,
            *map(shown, (run.label, run.truth, run.agreement)),
            run.labelled_by,
        )
        for run in runs
    ]
    headings = ("RUN", "WINDOWS", "DROPPED", "NOISY", "LABEL", "TRUTH", "AGREEMENT", "BY")
    show(output, [msgspec.to_builtins(run) for run in runs], headings, rows)
    if is_drawn:
        say_drawn(lambda: operation_times.draw(loaded, target))


def _tell_noise(runs: "Sequence[Run]", most: float) -> None:
    """Say how much the machine itself disturbed the labels, and warn where that cost windows."""
    from weir.interference.collection import noise_words

    say(noise_words(runs, most))
    noisy = sum(run.noisy for run in runs)
    if noisy:
        is_raised = all(run.is_real_time for run in runs)
        hint = (
            "collect on a quiet machine, or with a greater `noise_max` in the plan"
            if is_raised
            else "collect as a user who may set real-time priorities (CAP_SYS_NICE), or on a quiet machine"
        )
        warn(f"{noisy} windows were dropped because the machine was busy with other things", hint=hint)
