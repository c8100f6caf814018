"""`weir stats`: statistics of Lustre servers, published, collected, and seen as a file system."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.device_windows import windows
from weir.cli.errors import FAILED, CommandError, say, warn
from weir.cli.listing import Listing
from weir.cli.output import Quantity, json_text, output_option, share, size
from weir.cli.output import show as show_result
from weir.cli.parameters import EXISTING_FILE, EXISTING_FOLDER, FILE, Checked, Number
from weir.distribution import install_command
from weir.ways import write_whole

if TYPE_CHECKING:
    from weir.lustre.view import Target, View

_ENDPOINT = "tcp://127.0.0.1:4710"
_ENDPOINT_FORM = re.compile(r"tcp://[^/\s]+:(?:(?P<port>\d{1,5})|\*)|ipc://.+", re.ASCII)
_PORT_MAX = 65535
_HEADER = ("OST", "NAME", "SERVER", "SIZE", "AVAILABLE", "FILL", "READ/S", "WRITTEN/S", "REQUESTS", "SPEED", "STATE")
_STALE_SECONDS = 60.0
"""Age from which a document is old: a running subscriber writes one every few seconds."""
_SLOW = 0.5


def _endpoint(text: str) -> None:
    """Refuse a text that ZeroMQ takes for no address: `tcp://HOST:PORT`, or `ipc://PATH`."""
    found = _ENDPOINT_FORM.fullmatch(text)
    if found is None or int(found["port"] or 0) > _PORT_MAX:
        raise ValueError(f"`{text}` is no address; give tcp://HOST:PORT or ipc://PATH")


_ADDRESS = Checked("address", _endpoint)


def _fraction(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Read a part of the whole, `70%` or `0.7`."""
    try:
        number = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
    except ValueError:
        number = -1.0
    if not 0.0 < number <= 1.0:
        raise click.BadParameter(f"{value!r} is no part of the whole such as 70%")
    return number


_root_option = click.option(
    "--root",
    type=EXISTING_FOLDER,
    default="/",
    help="Directory that holds /proc and /sys.",
)


@click.group(cls=Listing)
def stats() -> None:
    """Collect the statistics of storage servers: for the placement of files on Lustre, and of interference.

    For placement, run `weir stats publish` on each OSS, and `weir stats subscribe` on the MDS or on the host that
    places files. `weir stats windows` records the windows of any block device, and of Lustre's services.
    """


stats.add_command(windows)


@stats.command()
@click.option("--bind", "endpoint", type=_ADDRESS, default=_ENDPOINT, help="ZeroMQ address to publish at.")
@click.option(
    "--interval", "interval_seconds", type=Number(0.1, 3600), default=60.0, help="Seconds between two readings."
)
@click.option(
    "--heartbeat", "heartbeat_seconds", type=Number(0.1, 3600), default=5.0, help="Seconds between two signs of life."
)
@click.option("--server", help="Name of this server.  [default: its host name]")
@_root_option
def publish(endpoint: str, interval_seconds: float, heartbeat_seconds: float, server: str | None, root: Path) -> None:
    """Publish this server's statistics until SIGTERM or Ctrl-C.

    Messages are neither signed nor encrypted: bind to an address of the management network.
    """
    import socket

    from weir.lustre.publisher import Publisher

    publisher = Publisher(
        root=root,
        server=server or socket.gethostname(),
        interval_seconds=interval_seconds,
        heartbeat_seconds=heartbeat_seconds,
        tell=lambda trouble: warn(trouble),
    )
    with _zmq_errors(f"publish at {endpoint}"):
        publisher.run(endpoint, bound=lambda address: say(f"publishing at {address} every {interval_seconds:g} s"))


@stats.command()
@click.option(
    "--connect",
    "endpoints",
    multiple=True,
    type=_ADDRESS,
    default=[_ENDPOINT],
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
@click.option("--once", is_flag=True, help="End as soon as every publisher was heard.")
@click.option(
    "--wait",
    "wait_seconds",
    type=Number(1, 3600),
    default=30.0,
    help="With --once: seconds after which it ends in any case, with exit code 1.",
)
@click.option(
    "--cpu-max", callback=_fraction, default="70%", help="Processor use of this host from which files are not placed."
)
@click.option(
    "--memory-max", callback=_fraction, default="50%", help="Memory use of this host from which files are not placed."
)
@_root_option
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

    A server that missed three heartbeats, or three readings, is listed as silent, and its targets are left out.
    """
    from weir.lustre.observer import Thresholds
    from weir.lustre.subscriber import Subscriber

    subscriber = Subscriber(endpoints=endpoints, root=root, thresholds=Thresholds(cpu_max, memory_max))
    with _zmq_errors(f"subscribe to {', '.join(endpoints)}"):
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


@stats.command()
@click.option("--file", "path", type=EXISTING_FILE, help="The file that `weir stats subscribe --file` keeps.")
@click.option(
    "--lfs-df",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    help="Output of `lfs df` in a file; - for standard input.",
)
@click.option(
    "--lctl-dl", type=EXISTING_FILE, help="Output of `lctl dl -t` in a file, beside --lfs-df: it names the servers."
)
@click.option("--file-system", help="Name of the file system, where there are several.")
@output_option
def show(path: Path | None, lfs_df: Path | None, lctl_dl: Path | None, file_system: str | None, output: str) -> int:
    """Show the targets of a Lustre file system as the placement of files sees them.

    FILL is the part of the space that files cannot have. REQUESTS is the mean number of requests in service at once.
    SPEED is the number of bytes that a target serves in the time of a request, as a part of the other targets' median.
    The exit code is 1 where the statistics are old or targets were left out.
    """
    if (path is None) == (lfs_df is None):
        raise click.UsageError("give either --file or --lfs-df")
    view = _view(path, lfs_df, lctl_dl, file_system)
    trouble = _warn_of(view, path)
    show_result(output, _document(view), _HEADER, [_row(target) for target in view.targets])
    return FAILED if trouble else 0


def _view(path: Path | None, lfs_df: Path | None, lctl_dl: Path | None, file_system: str | None) -> "View":
    import json
    import sys

    from weir.lustre.text import MalformedError
    from weir.lustre.view import UnusableError, view_of_document, view_of_lfs_df

    try:
        if path is not None:
            return view_of_document(json.loads(path.read_text()), str(path), of=file_system)
        assert lfs_df is not None
        text = sys.stdin.read() if str(lfs_df) == "-" else lfs_df.read_text()
        devices = lctl_dl.read_text() if lctl_dl is not None else ""
        return view_of_lfs_df(text, str(lfs_df), devices=devices, of=file_system)
    except UnusableError as error:
        raise CommandError(str(error), hint="name one with --file-system, or write the file anew") from error
    except MalformedError as error:
        raise CommandError(str(error), hint="give the output of `lfs df` and `lctl dl -t` as they print it") from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits is no JSONDecodeError, and neither is a depth of thousands.
        raise CommandError(f"{path or lfs_df}: {error}", hint="write it with `weir stats subscribe --file`") from error


def _warn_of(view: "View", path: Path | None) -> bool:
    """Warn of all that stands against using the view; tell whether anything does."""
    import time

    age_seconds = time.time() - view.time_seconds if view.time_seconds is not None else 0.0
    if age_seconds > _STALE_SECONDS:
        warn(f"{path} is {age_seconds:.0f} s old", hint="is `weir stats subscribe --file` still running?")
    for target, why in view.left_out.items():
        warn(f"{target} is left out: {why}")
    if view.waits_for:
        say(f"placing would wait: {view.waits_for}")
    return age_seconds > _STALE_SECONDS or bool(view.left_out)


def _document(view: "View") -> dict[str, Any]:
    from dataclasses import asdict

    targets = [{**asdict(target), "fill": target.fill} for target in view.targets]
    return {**asdict(view), "targets": targets}


def _row(target: "Target") -> tuple[object, ...]:
    def rate(value: float | None) -> Quantity:
        return Quantity("-") if value is None else size(value)

    slow = target.speed is not None and target.speed < _SLOW
    states = [word for word, holds in (("degraded", target.degraded), ("slow", slow)) if holds]
    requests = target.requests_in_service
    return (
        target.index,
        target.name,
        target.server,
        size(target.total_bytes),
        size(target.available_bytes),
        share(target.fill),
        rate(target.read_bytes_per_second),
        rate(target.write_bytes_per_second),
        Quantity("-" if requests is None else f"{requests:.1f}"),
        Quantity("-" if target.speed is None else f"{target.speed:.2f}"),
        " ".join(states) or "well",
    )


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


@contextmanager
def _zmq_errors(doing: str) -> Iterator[None]:
    """Turn ZeroMQ's error about an address into one of a command."""
    try:
        import zmq
    except ImportError as error:
        raise CommandError("ZeroMQ is not installed", hint=install_command("placement")) from error
    try:
        yield
    except zmq.ZMQError as error:
        hint = "an address is tcp://HOST:PORT with a port that is free, or ipc://PATH"
        raise CommandError(f"cannot {doing}: {error.strerror}", hint=hint) from error
