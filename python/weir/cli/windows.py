"""`weir interference record` and `weir interference collect`: windows of a running store, and labelled data sets."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click

from weir.cli.errors import CommandError, say, warn
from weir.cli.output import output_option
from weir.cli.parameters import Checked, Number
from weir.store import values
from weir.store.home import Home

_POLL_SECONDS = 0.5
_folder = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--to", "target", required=True, type=_folder, help="Folder of the windows, one part of it for each run.")
@click.option("--name", default="run", show_default=True, type=Checked("name", values.claim), help="Name of the run.")
@click.option("--seconds", type=Number(0, min_open=True), help="Time after which it ends.  [default: until ^C]")
@click.option(
    "--max-size",
    "bytes_max",
    default="1GiB",
    show_default=True,
    type=Checked("size", values.size),
    help="Most bytes in the folder: the oldest windows are removed beyond it.",
)
@output_option
@click.pass_obj
def record(home: Home, target: Path, name: str, seconds: float | None, bytes_max: str, output: str) -> None:
    """Record the windows of every job of a store while it runs.

    The holder of the site's key records all jobs, and others their own. The windows have no labels.
    """
    from weir.cli.output import show
    from weir.interference.collector import Collector, Parts, jobs_of, joined
    from weir.store.control import servers_of
    from weir.store.home import find_cluster

    cluster = find_cluster(home)
    collector = Collector(lambda: servers_of(cluster), _token(home), warn)
    parts = Parts(target, values.size(bytes_max))
    ended = _end_of_signals()
    limit = None if seconds is None else time.monotonic() + seconds
    windows, removed = 0, 0
    jobs: set[str] = set()
    while True:
        is_end = ended() or (limit is not None and time.monotonic() >= limit)
        collector.poll()
        for number, at_servers in collector.take(is_end=is_end):
            for job in jobs_of(at_servers):
                removed += parts.add(joined(number, at_servers, job, f"{name}.{job}", job))
                jobs.add(job)
                windows += 1
        if is_end:
            break
        time.sleep(_POLL_SECONDS)
    document = {"windows": windows, "jobs": len(jobs), "removed_parts": removed, "folder": str(target)}
    show(output, document, ("WINDOWS", "JOBS", "REMOVED PARTS", "FOLDER"), [tuple(document.values())])


@click.command()
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--to", "target", required=True, type=_folder, help="Folder of the data set.")
@click.option(
    "--policy", type=Checked("policy", values.policy), help="Policy of the store.  [default: that of the plan's store]"
)
@output_option
def collect(plan: Path, target: Path, policy: str | None, output: str) -> None:
    """Collect a labelled data set by the runs of a plan.

    Each target runs alone, and then among its interferers, on a store of its own. A collection that was ended goes on
    where it stopped.
    """
    import msgspec

    from weir.cli.output import Quantity, show
    from weir.interference import collection
    from weir.interference import plan as plans
    from weir.interference.agreement import described

    loaded = plans.read(plan)
    runs = collection.collect(loaded if policy is None else plans.under(loaded, policy), target, say)
    for line in described(*collection.quality(runs, target)):
        say(line)

    def shown(figure: float | None) -> Quantity:
        return Quantity("" if figure is None else f"{figure:.2f}")

    rows = [
        (run.name, run.windows, run.dropped, shown(run.label), shown(run.truth), shown(run.agreement), run.labelled_by)
        for run in runs
    ]
    headings = ("RUN", "WINDOWS", "DROPPED", "LABEL", "TRUTH", "AGREEMENT", "BY")
    show(output, [msgspec.to_builtins(run) for run in runs], headings, rows)


def _token(home: Home) -> str:
    """The token of the site's key, or that of the user's credential."""
    from weir import _core
    from weir.store.identity import read_claims
    from weir.store.launch import credential_path

    site_key = home.read_site_key()
    if site_key is not None:
        return _core.control_token(site_key)
    path = credential_path(home)
    if path is None:
        raise CommandError("no key and no credential is here", hint="ask the holder of the site key: `weir grant`")
    read_claims(path)
    return _core.job_token(path.read_text())


def _end_of_signals() -> Callable[[], bool]:
    """Whether the process was told to end; windows that are whole are kept then."""
    told = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    return told.is_set
