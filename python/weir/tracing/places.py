"""The place of the store in a traced run, in a file beside the traces: the next run may have it elsewhere."""

import re
from dataclasses import replace
from pathlib import Path

from weir.tracing.records import Creation, Making, Place, Run
from weir.ways import write_whole

SUFFIX = ".place"
"""Ending of the file's name, behind that of the run."""
_BYTES_MAX = 8 << 10
"""Longest file: a path has at most 4 KiB."""
_FORM = re.compile(r"(mount|prefix) (/.*)\n", re.DOTALL)


def write_place(folder: Path, run: str, place: Place) -> None:
    """Write the place of a run.

    Args:
        folder: Folder of its traces.
        run: Name of the run.
        place: The place of the store.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(folder / f"{run}{SUFFIX}", f"{'mount' if place.is_mount else 'prefix'} {place.path}\n", mode=None)


def place_of(folder: Path, run: str) -> Place | None:
    """Read the place of a run.

    Args:
        folder: Folder of its traces.
        run: Name of the run.

    Returns:
        The place; None where nothing was written, or something else.
    """
    try:
        with (folder / f"{run}{SUFFIX}").open("rb") as file:
            content = file.read(_BYTES_MAX)
    except OSError:
        return None
    found = _FORM.fullmatch(content.decode(errors="surrogateescape"))
    return None if found is None else Place(found[2], found[1] == "mount")


def relocated(run: Run, path: str) -> Run:
    """Move the files and arguments of a run from its place to another one.

    Args:
        run: The run; it has a place.
        path: The other place.

    Returns:
        The run as it would have been there.
    """
    if run.place is None:
        return run
    before = re.compile(rf"(^|=){re.escape(run.place.path)}(?=/|$)")

    def moved(text: str) -> str:
        return before.sub(lambda match: f"{match[1]}{path}", text)

    def made(one: Creation) -> Creation:
        return replace(one, path=moved(one.path), renamed=None if one.renamed is None else moved(one.renamed))

    def making(one: Making) -> Making:
        return replace(one, path=moved(one.path), name=moved(one.name))

    return replace(
        run,
        arguments=tuple(map(moved, run.arguments)),
        creations=tuple(map(made, run.creations)),
        overwritten=tuple(map(made, run.overwritten)),
        makings=tuple(map(making, run.makings)),
        place=Place(path, run.place.is_mount),
    )
