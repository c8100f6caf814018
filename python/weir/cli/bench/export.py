"""`weir bench ... --export`: the figures of an experiment as a tidy table."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError, say
from weir.distribution import install_command

if TYPE_CHECKING:
    from weir.experiments.tidy import Observation


class TableFile(click.Path):
    """A file for a table: its name says the form, and its folder is there before minutes of work."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the name of a file.

        Args:
            value: The path.
            param: The parameter, for the error.
            ctx: Click's context, for the error.

        Returns:
            The path.
        """
        from weir.experiments.tidy import SUFFIXES

        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix not in SUFFIXES:
            self.fail(f"{path}: the name of a table ends in {' or '.join(SUFFIXES)}", param, ctx)
        if not path.absolute().parent.is_dir():
            self.fail(f"{path}: there is no folder {path.absolute().parent}", param, ctx)
        return path


export_option = click.option(
    "--export",
    "table",
    metavar="FILE",
    type=TableFile(dir_okay=False, path_type=Path),
    help="Write a table there, a row for each figure with its parameters, unit, machine, version, commit, seed and "
    "date: CSV or Parquet, by the name's end.",
)


def check_packages(file: Path | None) -> None:
    """Refuse an experiment whose table could not be written at its end.

    Args:
        file: The table; None where none is wanted.

    Raises:
        CommandError: The table is Parquet, and pyarrow is not installed.
    """
    from importlib.util import find_spec

    if file is not None and file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise CommandError("pyarrow is not installed", hint=f"{install_command('simulation')}, or export to a .csv")


def export(
    file: Path | None, experiment: str, observations: "Iterable[Observation]", *, seed: int | None = None
) -> None:
    """Write the table that was asked for.

    Args:
        file: The table; None where none is wanted.
        experiment: Name of the experiment.
        seed: Start of all dice of the experiment; None where it has none.

    Raises:
        OSError: The file cannot be written.
    """
    if file is None:
        return
    from weir.experiments import tidy

    found = list(observations)
    tidy.write(file, experiment, found, seed=seed)
    say(f"exported: {len(found)} figures to {file}")
