"""`weir stats windows`: server windows of block devices, and of Lustre's targets and metadata services."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.ending import end_of_signals
from weir.cli.common.errors import warn
from weir.cli.common.interference_packages import needed
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import EXISTING_FOLDER, FOLDER, Checked, Number
from weir.cli.common.window_export import TOKEN, exported, listen_option, token_file_option
from weir.cli.common.window_options import max_size_option, seconds_option
from weir.store import values

if TYPE_CHECKING:
    from weir.interference.collector import Parts
    from weir.interference.devices import Storage
    from weir.interference.export import Board

_folder = FOLDER


@click.command()
@click.option("--device", "devices", metavar="NAME", multiple=True, help="A block device such as sda; repeat for more.")
@click.option("--lustre", "is_lustre", is_flag=True, help="Lustre's targets and metadata services on this host.")
@click.option("--to", "target", required=True, type=_folder, help="Folder of the windows.")
@click.option(
    "--name",
    type=Checked("name", values.claim),
    help="Name of the run.  [default: the host's name]",
)
@click.option(
    "--window",
    "window_seconds",
    type=Number(0.1, 3600),
    default=1.0,
    help="Length of a window in seconds; ten samples are taken in each.",
)
@seconds_option
@max_size_option
@listen_option
@token_file_option
@click.option("--root", type=EXISTING_FOLDER, default="/", help="Directory that holds /proc and /sys.")
@output_option
def windows(
    devices: tuple[str, ...],
    is_lustre: bool,
    target: Path,
    name: str | None,
    window_seconds: float,
    seconds: float | None,
    bytes_max: str,
    listen: str | None,
    token_file: Path | None,
    root: Path,
    output: str,
) -> None:
    """Record the windows of this host's storage, for `weir interference`.

    A window has the sum, mean and deviation of each counter of /proc/diskstats, or of Lustre's statistics. These
    windows name no job: `weir interference join` puts them beside the windows of jobs.
    """
    needed("pyarrow")
    import socket

    from weir.interference.collector import Parts
    from weir.interference.devices import Storage
    from weir.interference.upkeep import collecting

    storage = Storage(root, devices, is_lustre, warn)
    storage.check()
    ended = end_of_signals(seconds)
    with collecting(target, window_seconds, warn), exported(listen, token_file or target / TOKEN) as board:
        parts = Parts(target, values.size(bytes_max))
        run = name or socket.gethostname()
        counts = _sample(storage, (parts, run, board), window_seconds, ended, _pause(window_seconds))
    document = {"windows": counts[0], "devices": counts[1], "removed_parts": counts[2], "folder": str(target)}
    show(output, document, ("WINDOWS", "DEVICES", "REMOVED PARTS", "FOLDER"), [tuple(document.values())])


def _pause(window_seconds: float) -> Callable[[], None]:
    """Sleep until the next sample, at a multiple of a part of the window in Unix time."""
    from weir.interference.sampling import SAMPLES

    step = window_seconds / SAMPLES

    def sleep() -> None:
        now = time.time()
        time.sleep(max(step - now % step, 0.0))

    return sleep


def _sample(
    storage: "Storage",
    kept: "tuple[Parts, str, Board | None]",
    window_seconds: float,
    is_over: Callable[[], bool],
    pause: Callable[[], None],
) -> tuple[int, int, int]:
    """Take samples until the end. Returns the numbers of windows, devices and removed parts."""
    from weir.interference.sampling import Sampler

    parts, run, board = kept
    sampler = Sampler(window_seconds, warn)
    windows, removed = 0, 0
    devices: set[str] = set()
    while not is_over():
        ended = sampler.take(time.time(), storage.read())
        if ended:
            rows = [window.row(run) for window in ended]
            removed += parts.add_rows(ended[0].number, rows)
            devices |= {window.device for window in ended}
            windows += 1
            if board is not None:
                board.add(ended[0].number, None, rows)
        pause()
    return windows, len(devices), removed
