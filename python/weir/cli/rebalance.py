"""`weir rebalance`: move stripes of existing files from full targets to empty ones."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError, say
from weir.cli.common.move_notes import MoveNotes
from weir.cli.common.options import option
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import PATH, Checked, Number, each
from weir.store import values
from weir.store.home import Home, find_cluster
from weir.store.settings import CREDENTIAL

if TYPE_CHECKING:
    pass
from weir.cli.common.mover import follow, mover_credential, start_mover, target_fills, warn_of_left

_TARGETS = Checked("targets", each(values.target))


@click.command()
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1, type=PATH)
@click.option(
    "--rate",
    metavar="BYTES/s",
    type=Checked("rate", values.rate),
    help="Highest rate of the moves, in bytes per second.  [default: the policy's share]",
)
@click.option(
    "--until",
    type=Number(0.0, 1.0),
    default=0.05,
    help=("Stop once no target's fill is above the mean by more than this."),
)
@click.option("--from", "givers", metavar="TARGET,...", type=_TARGETS, help="Move stripes only from these targets.")
@click.option(
    "--to",
    "receivers",
    metavar="TARGET,...",
    type=_TARGETS,
    help="Move stripes only to these targets.",
)
@click.option("--drain", metavar="TARGET,...", type=_TARGETS, help="Move all stripes away from these targets.")
@click.option("--gather", is_flag=True, help="Move all named files to the targets of --to.")
@click.option("--dry-run", is_flag=True, help="Only show the moves.")
@option(CREDENTIAL)
@output_option
@click.pass_obj
def rebalance(
    home: Home,
    paths: tuple[Path, ...],
    rate: str | None,
    until: float,
    givers: str | None,
    receivers: str | None,
    drain: str | None,
    gather: bool,
    dry_run: bool,
    credential: str | None,
    output: str,
) -> int:
    """Move stripes of existing files from full targets to empty ones, while programs use the files.

    Without paths it looks at the whole store. The bytes are moved as a job of its own under the policy, which `weir
    jobs` lists. Ctrl-C ends the command after the present file, and a second Ctrl-C at once; every file is whole in
    either case. The exit code is 1 if something could not be moved.
    """
    if gather and receivers is None:
        raise click.UsageError("--gather needs --to")
    cluster = find_cluster(home)
    fills, silent = target_fills(home, cluster, drained=drain.split(",") if drain else ())
    _check_known(fills, (givers, receivers, drain))
    options = ["--until", str(until)]
    for name, value in (("--rate", rate), ("--from", givers), ("--to", receivers), ("--drain", drain)):
        options += [] if value is None else [name, value]
    options += ["--gather"] if gather else []
    options += ["--dry-run"] if dry_run else []
    paths_there = _in_store(home, paths)
    what = "" if dry_run else f"drain {drain}" if drain else "rebalance"
    with mover_credential(home, credential) as bearer:
        outcome = follow(start_mover(cluster, bearer, options, silent, paths_there), fills, MoveNotes(home, what))
    warn_of_left(outcome.left)
    if outcome.summary:
        _show(output, outcome.summary, outcome.moves)
    return outcome.code


def _check_known(fills: list[dict[str, Any]], lists: tuple[str | None, ...]) -> None:
    known = {fill["target"] for fill in fills}
    for target in (target for names in lists if names for target in names.split(",")):
        if target not in known:
            raise CommandError(f"there is no target {target}, or its server does not answer", hint="see `weir targets`")


def _in_store(home: Home, paths: tuple[Path, ...]) -> list[str]:
    """The paths as the store knows them: below its mount point, or as they are where it is not mounted.

    Raises:
        CommandError: A path lies elsewhere.
    """
    from weir.store.launch import mount_point

    point = mount_point(home)
    found = []
    for path in paths:
        whole = Path(os.path.normpath(path.absolute()))
        if point is None:
            found.append(str(whole))
        elif whole.is_relative_to(point):
            found.append("/" + str(whole.relative_to(point)).removeprefix("."))
        else:
            raise CommandError(f"{path} is not on the store", hint=f"the store is mounted at {point}")
    return found


def _show(output: str, summary: dict[str, Any], moves: list[dict[str, Any]]) -> None:
    if output == "ndjson":
        show(output, moves, (), ())
        return
    rows = [(move["path"], move["from"], move["to"], size(move["bytes"])) for move in moves]
    show(output, {**summary, "moves": moves}, ("FILE", "FROM", "TO", "BYTES"), rows)
    if output == "table":
        say(f"{size(sum(move['bytes'] for move in moves))} in {len(moves)} objects")
