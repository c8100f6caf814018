"""`weir plan factors`: interference factors of a site's classes, from pairwise runs."""

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError, say
from weir.cli.common.output import output_option
from weir.cli.common.parameters import EXISTING_FOLDER, FILE, Checked, Number
from weir.store import values

if TYPE_CHECKING:
    from weir.provisioning.pairwise.runs import Experiment
    from weir.provisioning.sharing.interference_factors import FactorTable

_PROCESSES_MAX = 1024
_CAPACITY_BYTES_MIN = 256 << 20


def _words(text: str) -> list[str]:
    words = shlex.split(text)
    if not words or not text.isprintable():
        raise ValueError(f"{text!r} is no command; try 'srun -w node1'")
    return words


@click.command(name="factors")
@click.option("--into", required=True, type=FILE, help="File for the table, a new one.")
@click.option(
    "--classes", "chosen", type=click.IntRange(1, 100), help="Use this many of the classes, those with the most jobs."
)
@click.option(
    "--processes",
    "scales",
    type=click.IntRange(1, _PROCESSES_MAX),
    multiple=True,
    default=(1, 4),
    show_default="1 and 4",
    help="Number of processes of each job; repeat for several.",
)
@click.option("--seconds", type=Number(0.1, 3600), default=1.5, help="Length of each run, in seconds.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Number of runs of each pair.")
@click.option("--speed", type=Checked("rate", values.rate), default="64MB/s", help="Speed of a target.")
@click.option(
    "--fixed-time", type=Checked("time", values.duration), default="2ms", help="Time of each request at a target."
)
@click.option(
    "--metadata-time", type=Checked("time", values.duration), default="1ms", help="Time of each metadata operation."
)
@click.option("--targets", type=click.IntRange(1, 64), default=2, help="Targets of the store.")
@click.option(
    "--path", type=EXISTING_FOLDER, help="Measure a mounted file system below this folder, in place of a store of Weir."
)
@click.option(
    "--node", type=Checked("command", _words), help="Command that starts a program on the first node: 'srun -w node1'."
)
@click.option(
    "--matrix",
    "matrix_file",
    type=FILE,
    help="Take the slowdowns from the matrix.json of `weir interference matrix`, and run nothing.",
)
@click.option("--matrix-policy", type=Checked("policy", values.policy), default="fifo", help="A policy of the matrix.")
@click.option(
    "--other-node", type=Checked("command", _words), help=("Command that starts a program on the second node.")
)
@output_option
def factors(
    into: Path,
    output: str,
    node: str | None,
    other_node: str | None,
    path: Path | None,
    matrix_file: Path | None,
    matrix_policy: str,
    **chosen: Any,
) -> None:
    """Measure how much the classes of jobs slow each other down.

    A job that represents a class runs alone, then beside the job of each other class, on the same node and on
    separate nodes. Without --path the jobs run on a store of Weir with rate-limited targets in memory, which is
    started for them. Without --node and --other-node, a half of this machine's processors stands for each node. With
    --matrix, each class is represented by the task of the matrix that is most like it.
    """
    if matrix_file is not None and (node is not None or path is not None):
        raise click.UsageError("--matrix runs nothing, so it goes with neither --path nor --node")
    if (node is None) != (other_node is None):
        raise click.UsageError("--node and --other-node go together")
    if node is not None and path is None:
        raise click.UsageError("--node needs --path: the store of this machine is not on other nodes")
    if into.exists():
        raise CommandError(f"{into} is there already", hint="name a new file")
    if not into.absolute().parent.is_dir():
        raise CommandError(f"there is no folder {into.absolute().parent}", hint="is the path right?")
    from weir.provisioning.sharing.interference_factors import built_in  # noqa: F401

    if matrix_file is None:
        made = _measured(path, node, other_node, chosen)
    else:
        made = _of_matrix(matrix_file, matrix_policy, chosen["chosen"])
    _write(made, into)
    _show(made, output)
    say(f"wrote {into}")


def _of_matrix(file: Path, policy: str, count: int | None) -> "FactorTable":
    from weir.interference import planner_factors, slowdowns
    from weir.provisioning.behaviour.classes import built_in

    table = built_in()
    classes = sorted(table.classes, key=lambda each: -each.jobs_fraction)[:count]
    return planner_factors.table(slowdowns.read(file), policy, classes, table.source)


def _measured(path: Path | None, node: str | None, other_node: str | None, chosen: dict[str, Any]) -> "FactorTable":
    from weir.cli.common.progress import progress
    from weir.provisioning.behaviour.classes import built_in
    from weir.provisioning.pairwise import runs

    table = built_in()
    classes = sorted(table.classes, key=lambda each: -each.jobs_fraction)[: chosen["chosen"]]
    nodes = runs.processor_nodes()
    if node is not None and other_node is not None:
        nodes = (runs.Node(tuple(_words(node))), runs.Node(tuple(_words(other_node))))
    scales = sorted(set(chosen["scales"]))
    with _experiment(path, nodes, max(scales), chosen) as experiment, progress() as shown:
        found = runs.factors(classes, scales, experiment, lambda done, parts: shown("pairs", done, parts))
    where, placed = f"on {path}", f"nodes `{node}` and `{other_node}`"
    if path is None:
        where = (
            f"on a store of Weir with {chosen['targets']} targets in memory, each limited to {chosen['speed']} and "
            f"{chosen['fixed_time']} a request, and metadata to {chosen['metadata_time']} an operation"
        )
    if node is None:
        processors = len(os.sched_getaffinity(0))
        placed = f"a node is a half of {processors} processors of one machine, without a network between both nodes"
    conditions = f"{where}; runs of {chosen['seconds']:g} s, the median of {chosen['rounds']}; {placed}"
    return runs.table(found, source=f"weir plan factors; classes: {table.source}", conditions=conditions)


@contextlib.contextmanager
def _experiment(path: Path | None, nodes: Any, processes: int, chosen: dict[str, Any]) -> "Iterator[Experiment]":
    from weir.experiments.store import PREFIX, Store
    from weir.provisioning.pairwise import runs, shape
    from weir.store.environment import without_store

    conditions = {"nodes": nodes, "seconds": chosen["seconds"], "rounds": chosen["rounds"]}
    if path is not None:
        with runs.folder_on(path) as folder:
            own = without_store(os.environ)
            yield runs.Experiment(folder=folder, environments=(own, own), **conditions)
        return
    # Both jobs of a run may be on one target, and again as much is left for stripes that do not fall evenly.
    capacity = max(_CAPACITY_BYTES_MIN, 4 * processes * shape.FILE_BYTES)
    with (
        Store(
            policy="size-fair",
            targets=chosen["targets"],
            speed=chosen["speed"],
            fixed_time=chosen["fixed_time"],
            metadata_time=chosen["metadata_time"],
            capacity=f"{capacity >> 20}MiB",
        ) as store,
        store.job("one", user="one", group="one", nodes=1, priority=1) as one,
        store.job("two", user="two", group="two", nodes=1, priority=1) as two,
    ):
        yield runs.Experiment(folder=Path(PREFIX), environments=(one, two), **conditions)


def _write(table: "FactorTable", into: Path) -> None:
    from weir.provisioning.sharing.interference_factors import written
    from weir.ways import write_whole

    write_whole(into, written(table), mode=0o644)


def _show(table: "FactorTable", output: str) -> None:
    import msgspec

    from weir.cli.common.output import Quantity, show

    rows: list[Sequence[object]] = [
        (
            each.one,
            each.other,
            "one" if each.same_node else "two",
            each.processes,
            Quantity(f"{each.slowdown:.2f}"),
            Quantity(f"{each.slowdown_max or each.slowdown:.2f}"),
        )
        for each in table.factors
    ]
    show(output, msgspec.to_builtins(table), ("CLASS", "BESIDE", "NODES", "PROCESSES", "SLOWDOWN", "GREATEST"), rows)
