"""`weir stage`: trees into the store and out of it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import FrameType
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, warn
from weir.cli.common.listing import Listing
from weir.cli.common.options import option
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import PATH
from weir.store.home import Home, find_cluster
from weir.store.settings import CREDENTIAL

if TYPE_CHECKING:
    from weir.staging.reports import Report

_PREFIX = Path("/weir")
"""Path below which a copy sees a store that is not mounted."""
_SIGNALLED = 128
"""Added to the number of the signal that ended the copy, as a shell does."""
_workers = click.option(
    "--workers", type=click.IntRange(1, 256), default=8, help=("Number of files and parts of files to copy at a time.")
)


@click.group(cls=Listing)
def stage() -> None:
    """Copy a tree into the store, or out of it.

    Many files, and parts of large files, are copied at once. A copy that was ended early continues where it stopped
    when the same command is given again. Each byte is read back from stable storage and compared by its checksum
    before a file gets its name. Holes, links, modes, times and empty folders are kept.
    """


@stage.command(name="in")
@click.argument("source", type=PATH)
@click.argument("destination", type=PATH)
@_workers
@option(CREDENTIAL)
@output_option
@click.pass_obj
def stage_in(home: Home, source: Path, destination: Path, workers: int, credential: str | None, output: str) -> None:
    """Copy SOURCE into the store, so that DESTINATION has everything that SOURCE has.

    DESTINATION is a path from the store's root, such as `input`, or a path below its mount point. Its folder has to
    exist. Files of DESTINATION that SOURCE does not have stay, and are counted.
    """
    with _environment(home, credential) as (variables, place):
        inside = _inside(place, destination, "DESTINATION")
        _copy(source.absolute(), inside, variables, workers, output)


@stage.command(name="out")
@click.argument("source", type=PATH)
@click.argument("destination", type=PATH)
@_workers
@option(CREDENTIAL)
@output_option
@click.pass_obj
def stage_out(home: Home, source: Path, destination: Path, workers: int, credential: str | None, output: str) -> None:
    """Copy SOURCE out of the store, so that DESTINATION has everything that SOURCE has.

    SOURCE is a path from the store's root, such as `results`, or a path below its mount point. The folder of
    DESTINATION has to exist, and files of DESTINATION that SOURCE does not have stay there. The copy is done when the
    command ends with exit code 0: then all bytes and names are on stable storage.
    """
    with _environment(home, credential) as (variables, place):
        inside = _inside(place, source, "SOURCE")
        _copy(inside, destination.absolute(), variables, workers, output)


@contextlib.contextmanager
def _environment(home: Home, chosen: str | None) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment of a copying process, and the path at which it sees the store."""
    from weir.store import launch

    cluster = find_cluster(home)
    point = launch.mount_point(home)
    place = point or Path(os.environ.get("WEIR_PREFIX") or _PREFIX)
    variables = launch.environment(os.environ, cluster, place, is_mounted=point is not None)
    own = chosen is None and home.owns(cluster) and home.read_site_key() is not None
    if own:
        with launch.minted(home, launch.run_job("stage")) as minted:
            yield {**variables, "WEIR_CREDENTIAL": str(minted)}, place
        return
    granted = Path(chosen).absolute() if chosen else launch.credential_path(home)
    if granted is None:
        raise CommandError(
            "permission denied: you have no credential for this store, and cannot read its key",
            hint="ask the owner of the store for a grant (`weir grant`), and set WEIR_CREDENTIAL to it",
        )
    yield {**variables, "WEIR_CREDENTIAL": str(granted)}, place


def _inside(place: Path, path: Path, name: str) -> Path:
    """The path inside of the store, as the copying process sees it."""
    if path.is_absolute():
        if path.is_relative_to(place):
            return path
        raise CommandError(
            f"{name} {path} is outside of the store, which is at {place}",
            hint="name a path from the store's root on, such as `input`",
        )
    if ".." in PurePath(path).parts:
        raise CommandError(f"{name} {path} leaves the store", hint="name a path from the store's root on")
    return place / path


def _copy(source: Path, destination: Path, variables: dict[str, str], workers: int, output: str) -> None:
    from weir.cli.common.progress import copy_progress
    from weir.staging.errors import StagingError
    from weir.staging.mover import move

    with _signals() as received, copy_progress() as shown:
        try:
            report = move(
                source,
                destination,
                environment=variables,
                workers=workers,
                progress=lambda progress: shown(source.name, progress),
            )
        except StagingError as error:
            code = _SIGNALLED + received[0] if received else 1
            raise CommandError(error.message, hint=error.hint, exit_code=code) from error
    _report(destination, report, output)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Have signals end the copy in order, with words about the part that is left."""
    received: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(destination: Path, report: "Report", output: str) -> None:
    from dataclasses import asdict

    for left_out in report.left_out:
        warn(f"{left_out} is left out", hint="sockets and devices have no bytes, and unfinished copies no whole files")
    if report.left_by_copies:
        warn(
            f"{destination} has {report.left_by_copies} unfinished files or records of other copies",
            hint="where no other copy runs, remove the files .weir-stage-* and .*.weir-stage there",
        )
    rows = [
        ("destination", destination),
        ("files", report.files),
        ("size", size(report.size_bytes)),
        ("folders", report.folders),
        ("copied now", f"{report.copied_files} files, {size(report.copied_bytes)}"),
        *([("not in the source", report.further)] if report.further else []),
    ]
    document = {"destination": str(destination), **asdict(report), "left_out": list(report.left_out)}
    show(output, document, ("COPY", "verified"), rows)
