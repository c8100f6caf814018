"""`weir stats show`: the targets of a Lustre file system, as the placement of files sees them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import FAILED, CommandError, say, warn
from weir.cli.common.output import Quantity, output_option, share, size
from weir.cli.common.output import show as show_result
from weir.cli.common.parameters import EXISTING_FILE

if TYPE_CHECKING:
    from weir.lustre.view import Target, View

_HEADER = ("OST", "NAME", "SERVER", "SIZE", "AVAILABLE", "FILL", "READ/S", "WRITTEN/S", "REQUESTS", "SPEED", "STATE")
_STALE_SECONDS = 60.0
"""Age from which a document is old: a running subscriber writes one every few seconds."""
_SLOW = 0.5


@click.command()
@click.option("--file", "path", type=EXISTING_FILE, help="The file that `weir stats subscribe --file` keeps.")
@click.option(
    "--lfs-df",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    help="Output of `lfs df` in a file; - for standard input.",
)
@click.option(
    "--lctl-dl", type=EXISTING_FILE, help="Output of `lctl dl -t` in a file, beside --lfs-df: it names the servers."
)
@click.option("--file-system", help="Name of the file system, if there are several.")
@output_option
def show(path: Path | None, lfs_df: Path | None, lctl_dl: Path | None, file_system: str | None, output: str) -> int:
    """Show the targets of a Lustre file system as the placement of files sees them.

    FILL is the fraction of the space that files cannot use. REQUESTS is the mean number of requests in service at
    once. SPEED is the number of bytes that a target serves in the time of a request, as a fraction of the other
    targets' median. The exit code is 1 if the statistics are old or targets were left out.
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
