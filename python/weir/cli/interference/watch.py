"""`weir interference watch` and `weir interference serve`: predictions of a running store."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.asking import administered, observed
from weir.cli.common.ending import end_of_signals
from weir.cli.common.errors import say, warn
from weir.cli.common.output import json_text, output_option
from weir.cli.common.parameters import FILE, Number
from weir.cli.interference.remedy import Remedies
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.interference.live import Live
    from weir.store.control import Server
    from weir.store.predictions import JobPrediction, Predictions

_POLL_SECONDS = 0.25
_COLUMNS = "{:>12}  {:<24}  {:<12}  {:>11}  {:<12}  {:>7}  {:<28}  {:<24}  {}"
_model = FILE
_windows = click.option(
    "--windows", type=Number(1), help=("Number of windows after which the command ends.  [default: until ^C]")
)


@click.command()
@click.option(
    "--model",
    type=_model,
    help="Predict with this model.  [default: show the servers' predictions, else the general model]",
)
@_windows
@output_option
@click.pass_obj
def watch(home: Home, model: Path | None, windows: int | None, output: str) -> None:
    """Show, window by window, how much jobs are slowed and by whom.

    For each job that did something in a window: the class of its slowdown with its probability and its BASIS, the
    classes of the next windows, the device time that it waited for others over that which it received, and the job for
    which it waited longest. BASIS is `measured` if the store measured more waiting than a model predicted. The holder
    of the site's key sees all jobs, and others their own. With --output json or ndjson each line is a document of one
    job and window. For a job that stays slowed, the command that helps it is shown.

    Without --model the command shows the predictions of `weir interference serve`; if no such process runs, it
    predicts with the general model that comes with Weir.
    """
    observed(home)

    def servers() -> "list[Server]":
        return observed(home)

    ended = end_of_signals()
    is_told = model is None and _is_served(servers())
    found = _told(servers, ended) if is_told else _polled(_live(model, servers), ended)
    if output == "table":
        headings = ("WINDOW", "JOB", "SLOWDOWN", "PROBABILITY", "BASIS", "WAITED", "NEXT", "RESPONSIBLE", "DRIVEN BY")
        click.echo(_COLUMNS.format(*headings))
    remedies = Remedies(home, servers)
    for count, predictions in enumerate(found, start=1):
        for job in predictions.jobs:
            remedy = remedies.of(predictions.window, job)
            click.echo(_row(predictions, job) if output == "table" else _line(predictions, job, remedy))
        if windows is not None and count >= windows:
            break


@click.command()
@click.option("--model", type=_model, help="Model of `weir interference train`.  [default: the general one]")
@_windows
@click.pass_obj
def serve(home: Home, model: Path | None, windows: int | None) -> None:
    """Predict the slowdowns of all jobs while the store runs, and have the servers show them.

    Each server shows the last predictions at `/v1/interference` and in `/metrics`, for ten windows after it received
    them. The command needs the site's key. Run one such process for a store; with several, the last predictions sent
    to a server count.
    """
    from weir.interference.live import Publisher

    change = "tell its servers predictions"
    administered(home, change)

    def servers() -> "list[Server]":
        return administered(home, change)

    live = _live(model, servers)
    publisher = Publisher(servers, warn)
    ended = end_of_signals()
    say("predicting; ^C ends it")
    for count, predictions in enumerate(_polled(live, ended), start=1):
        publisher.publish(predictions)
        if windows is not None and count >= windows:
            break


def _live(model: Path | None, servers: "Callable[[], list[Server]]") -> "Live":
    from weir.cli.common.interference_packages import needed
    from weir.interference import predictor
    from weir.interference.collector import Collector
    from weir.interference.live import Live

    needed()
    native = predictor.native(predictor.load(predictor.GENERAL if model is None else model))
    return Live(Collector(servers, warn), native, warn)


def _is_served(servers: "list[Server]") -> bool:
    """Whether a server shows predictions."""
    from weir.store.errors import StoreError

    for server in servers:
        try:
            if server.interference().window:
                return True
        except StoreError:
            continue
    return False


def _polled(live: "Live", ended: Callable[[], bool]) -> "Iterator[Predictions]":
    """The windows from now on: those that ended before are history alone."""
    live.poll()
    while not ended():
        yield from live.poll()
        time.sleep(_POLL_SECONDS)


def _told(servers: "Callable[[], list[Server]]", ended: Callable[[], bool]) -> "Iterator[Predictions]":
    """The predictions that the servers are told, each window once, by the first server that has them."""
    from weir.store.errors import StoreError

    last, is_noted = 0, False
    while not ended():
        error: StoreError | None = None
        answers = []
        for server in servers():
            try:
                answers.append(server.interference())
            except StoreError as refused:
                error = refused
            if answers and answers[-1].window:
                break
        if not answers and error is not None:
            raise error
        newest = max(answers, key=lambda each: each.window, default=None)
        if newest is not None and newest.window > last:
            last, is_noted = newest.window, False
            yield newest
        elif newest is not None and not newest.window and not is_noted:
            is_noted = True
            say("nobody serves predictions any more: end this, and `weir interference watch` predicts by itself")
        time.sleep(_POLL_SECONDS)


def _row(predictions: "Predictions", job: "JobPrediction") -> str:
    now, *later = job.horizons
    ratio = "" if job.waited_ratio is None else f"{job.waited_ratio:.2f}"
    by = f"{job.responsible[0].job} ({job.responsible[0].user})" if job.responsible else ""
    driven = ", ".join(f"{driver.feature} ({driver.server or 'no server'})" for driver in job.driven_by)
    following = ", ".join(horizon.slowdown for horizon in later)
    name = f"{job.job} ({job.user})"
    row = (predictions.window, name, now.slowdown, f"{now.probability:.2f}", job.basis, ratio, following, by, driven)
    return _COLUMNS.format(*row)


def _line(predictions: "Predictions", job: "JobPrediction", remedy: str | None) -> str:
    from weir.store.decoding import encode

    shared = {
        "window": predictions.window,
        "window_seconds": predictions.window_seconds,
        "missing": list(predictions.missing),
    }
    return json_text({**shared, **encode(job), "remedy": remedy})
