"""`weir plan run`: the plan of a program, from a run that is recorded on the way."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from weir.cli.common.errors import CommandError, say
from weir.cli.common.interference_packages import needed
from weir.cli.common.options import complete_files
from weir.cli.common.output import output_option
from weir.cli.common.parameters import FOLDER
from weir.cli.plan.explain import print_explanation
from weir.cli.plan.planned import PLAN_OPTIONS, read_and_plan
from weir.ways import make_work_folder


def _plan_options(command: Any) -> Any:
    for option in reversed(PLAN_OPTIONS):
        command = option(command)
    return command


@click.command(name="run", context_settings={"allow_interspersed_args": False})
@_plan_options
@click.option(
    "--observe",
    multiple=True,
    type=click.Path(),
    help="Path whose files count, beside those of the store; repeat for several.  [default: the working directory]",
)
@click.option(
    "--keep", "kept", type=FOLDER, metavar="FOLDER", help=("Keep the record in this folder, as LOG for later plans.")
)
@output_option
@click.argument(
    "command", metavar="-- CMD", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files
)
def plan_run(
    observe: tuple[str, ...], kept: Path | None, output: str, command: tuple[str, ...], **options: Any
) -> None:
    """Run CMD as `weir run` does, record its I/O, and explain the storage that it needs as `explain` does.

    CMD needs no store: its files below --observe count and, if a store is up, its files there. The output of CMD goes
    to standard error. If CMD fails, nothing is planned, and the command ends with CMD's exit code.
    """
    needed("pyarrow")
    with _folder(kept) as folder:
        _record(folder, observe or (str(Path.cwd()),), command)
        made = read_and_plan(log=folder, **options)
    if kept is not None:
        say(f"the record is in {kept}; `weir plan explain {kept}` plans from it again")
    print_explanation(made, output)


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    from tempfile import TemporaryDirectory

    if kept is not None:
        make_work_folder(kept)
        yield kept
        return
    with TemporaryDirectory(prefix="weir-plan-") as folder:
        yield Path(folder)


def _record(folder: Path, observe: Sequence[str], command: Sequence[str]) -> None:
    import subprocess

    from weir.provisioning.behaviour.observed_windows import FOLDER as WINDOWS
    from weir.provisioning.behaviour.observed_windows import note_paths

    note_paths(folder, (each for path in observe for each in (Path(path).absolute(), Path(path).resolve())))
    observed = [word for path in observe for word in ("--observe", path)]
    words = ("--trace", str(folder), *observed, "--windows", str(folder / WINDOWS), "--", *command)
    # The plan alone is on standard output.
    code = subprocess.run([sys.executable, "-m", "weir.cli", "run", *words], stdout=sys.stderr, check=False).returncode
    if code != 0:
        raise CommandError(
            f"{command[0]} ended with exit code {code}, so nothing is planned",
            hint="run it by itself, and mend it",
            exit_code=code if 0 < code < 256 else 1,
        )
