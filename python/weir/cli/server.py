"""`weir server`: servers that join the store while programs use it."""

import click

from weir.cli.errors import tell
from weir.cli.output import output_option
from weir.cli.parameters import Checked
from weir.store import values
from weir.store.home import Home


@click.group()
def server() -> None:
    """Add a server to the store while programs use it."""


@server.command()
@click.option("--targets", type=click.IntRange(1, 64), help="Number of its targets.  [default: as many as server 0]")
@click.option("--backend", type=click.Choice(["ram", "dir"]), help="Place of its bytes.  [default: as on server 0]")
@click.option(
    "--capacity",
    metavar="SIZE",
    type=Checked("size", values.size),
    help="Most bytes of each target.  [default: as on server 0]",
)
@output_option
@click.pass_obj
def add(home: Home, targets: int | None, backend: str | None, capacity: str | None, output: str) -> None:
    """Start one more server on this host, and have it join the store.

    New files get their share on its targets at once, and new directories of the root may have their home on it. What is
    there stays where it is; `weir rebalance` moves stripes. Other servers must be of the version that is installed.
    """
    from weir.cli.output import show
    from weir.cli.targets import control_token
    from weir.deployment.growth import add_server
    from weir.store.answers import WantedTarget
    from weir.store.control import servers_of
    from weir.store.home import find_cluster

    token = control_token(home, "add a server")
    first = servers_of(find_cluster(home))[0].status().targets
    alike = first[0] if first else None
    backend = backend or (alike.backend if alike else "dir")
    if capacity is None and backend == "ram":
        if alike is None or alike.backend != "ram":
            raise click.UsageError("ram targets need --capacity")
        capacity = str(alike.capacity_bytes)
    wanted = [WantedTarget(backend, capacity)] * (targets or len(first) or 1)
    number = add_server(home, wanted, token, tell)
    rows = [(number, len(wanted), backend)]
    show(output, {"server": number, "targets": len(wanted), "backend": backend}, ("SERVER", "TARGETS", "BACKEND"), rows)
