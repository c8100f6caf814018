"""`weir run --observe`: the windows of a program's operations on files outside the store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.interference_packages import needed
from weir.cli.common.recorder import observed_paths, run_name

if TYPE_CHECKING:
    from weir.interference.observed import Gatherer

DEFAULT_FOLDER = "windows"
_BYTES_MAX = 1 << 30
"""Most bytes of a folder of windows, as of `weir interference record`."""


class Observation:
    """The observation of one run: variables for the program, and a gatherer beside it."""

    def __init__(self, variables: dict[str, str], gatherer: "Gatherer | None") -> None:
        """Describe an observation.

        Args:
            variables: Variables of the program.
            gatherer: Gatherer of the windows; None where nothing is observed.
        """
        self.variables = variables
        self._gatherer = gatherer

    def start(self) -> None:
        """Begin to gather, once the program runs."""
        if self._gatherer is not None:
            self._gatherer.start()

    def end(self) -> None:
        """Write the last windows, once the program has ended."""
        if self._gatherer is None:
            return
        self._gatherer.end()
        if not self._gatherer.windows:
            warn(
                "no operation below the paths of --observe was seen",
                hint="static programs, those that drop LD_PRELOAD, and streams of C (`fread`, `fwrite`) are not seen",
            )


def folder_of(windows: str | None, trace: str | None, paths: Sequence[str]) -> Path | None:
    """Decide where windows are written.

    Args:
        windows: Folder that was given.
        trace: Folder of traces that was given: then windows are written only where they are asked for.
        paths: Paths that are observed.

    Returns:
        The folder; None where nothing is observed.

    Raises:
        click.UsageError: A folder was given without paths.
    """
    if windows is not None and not paths:
        raise click.UsageError("--windows are those of files below --observe PATH, which is missing")
    if windows is None and (trace is not None or not paths):
        return None
    return Path(windows or DEFAULT_FOLDER).absolute()


@contextmanager
def observing(folder: Path | None, window_seconds: float, paths: Sequence[str], command: str) -> Iterator[Observation]:
    """Observe a run within the block.

    Args:
        folder: Folder of the windows; None observes nothing.
        paths: Paths below which files are observed.
        command: The program.

    Yields:
        The observation.

    Raises:
        CommandError: A package is missing.
        InterferenceError: The folder cannot be written.
    """
    if folder is None:
        yield Observation({}, None)
        return
    needed("pyarrow")
    import os

    from weir.interference import observed
    from weir.interference.collector import Parts
    from weir.interference.upkeep import collecting, tell_of_deaths

    variables = {"WEIR_OBSERVE": observed_paths(paths)}
    workload = Path(command).name
    run = f"{workload}@{run_name({}, folder)}"
    parts = Parts(folder, _BYTES_MAX)
    tell_of_deaths(folder, warn)
    with collecting(parts.place(run), window_seconds, warn), observed.shared_folder() as shared:
        variables |= observed.variables(shared, window_seconds)
        gatherer = observed.Gatherer(
            folder=shared,
            window_seconds=window_seconds,
            run=run,
            workload=workload,
            parts=parts,
            tell=warn,
        )
        yield Observation(variables, gatherer)
    if gatherer.windows:
        say(f"{gatherer.windows} windows are in {os.path.relpath(parts.place(run))}")
