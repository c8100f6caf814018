"""`weir bench figure-7`: aggregate rates by the number of servers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.bench.export import check_packages, export, export_option
from weir.cli.common.errors import say, warn
from weir.cli.common.output import Quantity, output_option, share, show
from weir.cli.common.parameters import FOLDER, Checked, Number
from weir.distribution import install_command
from weir.store import values

if TYPE_CHECKING:
    from weir.simulation.scaling_study import Study

NAME = "figure-7"
TITLE = "Aggregate rates of 1 to 128 servers"
SHOWS = (
    "Each server has a client node of eight processes: real servers in networks of their own, then simulated ones with"
    " the costs measured here, beside the paper's 68 % of 128 times one server."
)
SECONDS = 8.0
_HEADER = ("SERVERS", "RUN", "WRITE MB/S", "READ MB/S", "EFFICIENCY", "SIMULATED", "CREATES/S", "SIMULATED")
_SERVERS_MAX = 128
_REAL_MAX = 32


@click.command(name=NAME, help=f"{SHOWS}\n\n{TITLE}. The real part needs root, and is left out without it.")
@click.option(
    "--seconds",
    type=Number(1.0, 600.0),
    default=SECONDS,
    help="Time that each link of the real part needs for the writes of a node, and again for the reads.",
)
@click.option(
    "--speed",
    type=Checked("rate", values.rate),
    default="8MB/s",
    help="Speed of each link of the real part, in each direction.",
)
@click.option(
    "--real",
    metavar="SERVERS",
    type=click.IntRange(0, _REAL_MAX),
    default=8,
    help="Largest number of real servers; 0 only simulates.",
)
@click.option(
    "--servers", metavar="SERVERS", type=click.IntRange(1, _SERVERS_MAX), default=_SERVERS_MAX, help="Most servers."
)
@click.option("--out", metavar="DIR", type=FOLDER, default="weir-bench", help="Folder for the plot and the numbers.")
@export_option
@output_option
def figure_7(seconds: float, speed: str, real: int, servers: int, out: Path, table: Path | None, output: str) -> None:
    """Run the experiment, show its results and write them."""
    from weir import _core
    from weir.experiments import networks
    from weir.plots import scaling
    from weir.plots.canvas import picture
    from weir.simulation.scaling_study import study
    from weir.ways import make_folders, write_whole

    check_packages(table)
    missing = networks.missing() if real else ""
    if missing:
        warn(f"no real servers were run: {missing}", hint="run as root, or give --real 0")
    found = study(
        seconds=seconds,
        speed=_core.parse_rate(speed),
        real=() if missing else _doubled(real),
        servers=_doubled(servers),
        say=say,
    )
    document = found.document()
    make_folders(out)
    files = [out / f"{NAME}.json"]
    write_whole(files[0], json.dumps(document, indent=1) + "\n", mode=None)
    try:
        with picture(out / f"{NAME}.png") as canvas:
            scaling(found, figure=canvas)
        files.append(out / f"{NAME}.png")
    except ImportError as error:
        warn(f"nothing is drawn: {error}", hint=f"install matplotlib: `{install_command('plots')}`")
    show(output, {**document, "files": [str(path) for path in files]}, _HEADER, _rows(found))
    if found.costs:
        costs = found.costs
        say(
            f"costs here: a request {1e6 * costs.request_seconds:.0f} us, a server"
            f" {(costs.write_bytes_per_second or 0) / 1e6:.0f} MB/s of writes and"
            f" {(costs.read_bytes_per_second or 0) / 1e6:.0f} MB/s of reads, a create"
            f" {1e6 * costs.create_seconds:.0f} us"
        )
    say(f"written: {', '.join(str(path) for path in files)}")
    export(table, NAME, found.observations())


def _doubled(most: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, up to a number, which is the last one."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*powers, most) if most else ()


def _rows(found: "Study") -> list[tuple[object, ...]]:
    """Real servers first. Efficiency is the rate of the slower direction over that of one server for each."""
    rows: list[tuple[object, ...]] = []
    for each in found.real:
        one, real, simulated = found.real[0], each.real, each.simulated
        rows.append(
            (
                real.servers,
                "real",
                *_megabytes(real.write_bytes_per_second, real.read_bytes_per_second),
                share(real.bytes_per_second / real.servers / one.real.bytes_per_second),
                share(simulated.bytes_per_second / real.servers / one.simulated.bytes_per_second),
                *_counts(real.creates_per_second, each.simulated_creates_per_second),
            )
        )
    for curve in found.curves:
        creates = {each.servers: each.drawn for each in found.creates if curve is found.curves[0]}
        rows += [
            (
                point.servers,
                curve.name,
                *_megabytes(point.write_bytes_per_second, point.read_bytes_per_second),
                Quantity("-"),
                share(curve.efficiency(point)),
                *_counts(None, creates.get(point.servers)),
            )
            for point in curve.points
        ]
    return rows


def _megabytes(*rates: float) -> tuple[Quantity, ...]:
    return tuple(Quantity(f"{rate / 1e6:,.1f}") for rate in rates)


def _counts(*rates: float | None) -> tuple[Quantity, ...]:
    return tuple(Quantity("-" if rate is None else f"{rate:,.0f}") for rate in rates)
