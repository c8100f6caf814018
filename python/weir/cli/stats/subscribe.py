"""`weir stats subscribe`: the statistics of all servers, collected."""

from pathlib import Path
from typing import Any

import click

from weir.cli.common.errors import FAILED, CommandError, warn
from weir.cli.common.output import json_text
from weir.cli.common.parameters import FILE, Number
from weir.cli.stats.addresses import ADDRESS, ENDPOINT, root_option, zmq_errors
from weir.ways import write_whole


def _fraction(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Read a part of the whole, `70%` or `0.7`."""
    try:
        number = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
    except ValueError:
        number = -1.0
    if not 0.0 < number <= 1.0:
        raise click.BadParameter(f"{value!r} is no part of the whole such as 70%")
    return number


@click.command()
@click.option(
    "--connect",
    "endpoints",
    multiple=True,
    type=ADDRESS,
    default=[ENDPOINT],
    help="ZeroMQ address of a publisher; repeat it for each.",
)
@click.option(
    "--file",
    "path",
    type=FILE,
    help="File that keeps the latest document; without it, each is printed as a line of JSON.",
)
@click.option(
    "--every", "every_seconds", type=Number(1, 3600), default=5.0, help="Longest time in seconds between two documents."
)
@click.option("--once", is_flag=True, help="End once every publisher has sent statistics.")
@click.option(
    "--wait",
    "wait_seconds",
    type=Number(1, 3600),
    default=30.0,
    help="With --once: seconds after which the command ends with exit code 1.",
)
@click.option(
    "--cpu-max",
    callback=_fraction,
    default="70%",
    help=("While this host uses more of its processors than this, no files are placed."),
)
@click.option(
    "--memory-max",
    callback=_fraction,
    default="50%",
    help=("While this host uses more of its memory than this, no files are placed."),
)
@root_option
def subscribe(
    endpoints: tuple[str, ...],
    path: Path | None,
    every_seconds: float,
    once: bool,
    wait_seconds: float,
    cpu_max: float,
    memory_max: float,
    root: Path,
) -> int:
    """Collect the statistics of all servers until SIGTERM or Ctrl-C.

    A server that misses three heartbeats or three readings is listed as silent, and its targets are left out.
    """
    from weir.lustre.observer import Thresholds
    from weir.lustre.subscriber import Subscriber

    subscriber = Subscriber(endpoints=endpoints, root=root, thresholds=Thresholds(cpu_max, memory_max))
    with zmq_errors(f"subscribe to {', '.join(endpoints)}"):
        complete = subscriber.run(
            lambda document: _hand_on(document, path),
            every_seconds=every_seconds,
            until_all_within_seconds=wait_seconds if once else None,
        )
    if once and not complete:
        heard = subscriber.collector.servers_heard()
        warn(
            f"{heard} of {len(endpoints)} publishers were heard within {wait_seconds:g} s",
            hint="is `weir stats publish` running there, and bound to an address that can be reached from here?",
        )
        return FAILED
    return 0


def _hand_on(document: dict[str, Any], path: Path | None) -> None:
    """Print a document, or put it in the place of the file at once, so that a reader never sees half of it."""

    text = json_text(document, separators=(",", ":"))
    if path is None:
        print(text, flush=True)
        return
    try:
        write_whole(path, text + "\n", mode=None)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", hint="choose another --file") from error
