"""`weir sslo`: service-level objectives of storage."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.listing import Listing
from weir.cli.common.output import Quantity, output_option, share_or_dash, show
from weir.cli.common.parameters import FILE, PATH, Checked

if TYPE_CHECKING:
    from weir.provisioning.objectives.sslos import Sslo, SsloTable

_HEADER = (
    *("NAME", "SYSTEM", "DEVICE", "SERVERS", "READ", "WRITE", "NAMES"),
    *("SMALL", "RANDOM", "MIXED", "SHARED", "CONCURRENT", "SEMANTICS"),
)


@click.group(cls=Listing)
def sslo() -> None:
    """Make and show service-level objectives of storage: rates, sensitivities and semantics."""


@sslo.command()
@click.argument("folders", metavar="RESULTS...", nargs=-1, required=True, type=PATH)
@click.option(
    "--to", "target", metavar="FILE", type=FILE, help="File of the table.  [default: none; the table is printed alone]"
)
@click.option(
    "--clusters",
    type=click.IntRange(1, 1000),
    help="Number of objectives, at least one for each kind of semantics.  [default: one for each system; from"
    " 20 systems on by K-means]",
)
@click.option(
    "--default", "name", default="", show_default=False, help=("Name of the objective for jobs that no objective fits.")
)
@click.option("--source", type=Checked("text", str), default="weir stress", help="Origin, in words.")
@output_option
def build(
    folders: tuple[Path, ...], target: Path | None, clusters: int | None, name: str, source: str, output: str
) -> None:
    """Make a table of objectives from the results of `weir stress`.

    Each system is described by the medians of its results. If there are many systems, they are clustered, and the
    system nearest to the middle stands for its cluster.
    """
    from weir.provisioning.stress import objectives
    from weir.provisioning.stress.results import read_results

    results = read_results(folders)
    table = objectives.table(results, source=source, clusters=clusters, default=name)
    if refused := sum(each.figures is None for each in results):
        warn(
            f"{refused} of {len(results)} measurements were refused, so some figures may be missing",
            hint="run `weir stress` again: it makes them",
        )
    if target is not None:
        import msgspec

        from weir.ways import write_whole

        write_whole(target, msgspec.json.format(msgspec.json.encode(table)).decode() + "\n", mode=0o644)
    _show(table, output)
    if target is not None:
        say(f"written: {target}")


@sslo.command(name="show")
@click.argument("file", metavar="[TABLE]", required=False, type=PATH)
@output_option
def show_table(file: Path | None, output: str) -> None:
    """Show a table of objectives: one that `weir sslo build` made, or without a file the one that comes with Weir."""
    from weir.provisioning.objectives.shipped import built_in
    from weir.provisioning.objectives.sslo_tables import read_table

    _show(built_in() if file is None else read_table(file), output)


def _show(table: "SsloTable", output: str) -> None:
    import msgspec

    show(output, msgspec.to_builtins(table), _HEADER, [_row(each) for each in table.sslos])
    if output == "table":
        say(f"source: {table.source}")


def _row(sslo: "Sslo") -> tuple[object, ...]:
    rates, left = sslo.guarantees, sslo.sensitivities

    def rate(value: float | None, scale: float, unit: str) -> Quantity:
        return Quantity("-" if value is None else f"{value / scale:.1f} {unit}")

    semantics = [
        sslo.semantics.representation,
        *(["durable"] if sslo.semantics.durable else []),
        *(["encrypted"] if sslo.semantics.encrypted else []),
        *([f"{sslo.semantics.replicas} copies"] if sslo.semantics.replicas > 1 else []),
    ]
    return (
        sslo.name,
        sslo.system.kind,
        sslo.system.device,
        sslo.system.servers,
        rate(rates.read_bytes_per_second, 1e6, "MB/s"),
        rate(rates.write_bytes_per_second, 1e6, "MB/s"),
        rate(rates.metadata_operations_per_second, 1.0, "/s"),
        *map(share_or_dash, (left.small, left.random, left.mixed, left.shared_file, left.concurrency)),
        ", ".join(semantics),
    )
