"""`weir server`: servers that join the store, or retire, while programs use it."""

from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import say, tell
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import Checked, Network
from weir.store import values
from weir.store.errors import SettingsError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.store.answers import WantedTarget


@click.group(cls=Listing)
def server() -> None:
    """Add a server to the store, or let one retire, while programs use the store."""


@server.command()
@click.option(
    "--targets",
    type=click.IntRange(1, 64),
    help=("Number of targets of the new server. [default: as the first server with targets]"),
)
@click.option(
    "--backend",
    type=click.Choice(["ram", "dir"]),
    help=("Place of the targets' bytes. [default: as on the first server with targets]"),
)
@click.option(
    "--capacity",
    metavar="SIZE",
    type=Checked("size", values.size),
    help="Capacity of each target. [default: as on the first server with targets]",
)
@click.option(
    "--host",
    metavar="HOST",
    help=("Host of the server, in a store of several hosts; the host may be new to the store."),
)
@click.option("--network", type=Network(), metavar="NET/BITS", help="Network that carries the store's traffic.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65534),
    help="Lowest port to choose from; a server needs two. [default: the store's lowest]",
)
@output_option
@click.pass_obj
def add(
    home: Home,
    targets: int | None,
    backend: str | None,
    capacity: str | None,
    host: str | None,
    network: Any,
    port: int | None,
    output: str,
) -> None:
    """Start one more server, and have it join the store.

    The new server copies the first server that has targets: it gets as many targets, with the backends and capacities
    that the configuration gives for that server. Emulated speeds and classes are not copied.

    New files use its targets at once, and new directories in the root may have the new server as their home. Existing
    files stay where they are; `weir rebalance` moves their stripes. All servers, and in a store of several hosts all
    hosts, must answer and have the installed version. A new host gets the store's key, and mounts the store as the
    other hosts do. If the command is ended early, the same command continues.
    """
    from weir.cli.common.asking import administered
    from weir.deployment.growth import add_server
    from weir.deployment.joining import Place

    if host is None and (network is not None or port is not None):
        raise click.UsageError("--network and --port are for a server on another --host")
    administered(home, "add a server")
    wanted = _wanted(home, targets, backend, capacity)
    place = None if host is None else Place(_one(host), network, port)
    number, on = add_server(home, place, wanted, tell)
    backends = ", ".join(sorted({target.backend for target in wanted}))
    document = {"server": number, "targets": len(wanted), "backend": backends, "host": on}
    headings, row = ("SERVER", "TARGETS", "BACKEND"), (number, len(wanted), backends)
    if on is None:
        show(output, document, headings, [row])
    else:
        show(output, document, (*headings, "HOST"), [(*row, on)])


def _wanted(home: Home, targets: int | None, backend: str | None, capacity: str | None) -> "list[WantedTarget]":
    """The targets of a new server: like those of the first server that has some, unless options say otherwise.

    Raises:
        UsageError: Nothing tells the backend, or the capacity of a ram target.
    """
    from weir.deployment.growth import configuration_of
    from weir.store.answers import WantedTarget
    from weir.store.membership import model_targets

    find_cluster(home)
    model = model_targets(configuration_of(home, tell).read())
    if backend is None and not model:
        raise click.UsageError("no server of the store has targets to copy, so --backend and --capacity are needed")
    like = [target for target in model if backend in (None, target.backend)]
    if not like:
        if backend == "ram" and capacity is None:
            raise click.UsageError("ram targets need --capacity, because no server has ram targets to copy")
        like = [WantedTarget(str(backend))] * max(len(model), 1)
    if backend is not None and targets is None:
        targets = len(model) or 1
    chosen = [like[number % len(like)] for number in range(targets or len(like))]
    return chosen if capacity is None else [WantedTarget(target.backend, capacity) for target in chosen]


def _one(spelled: str) -> str:
    """The name of one host.

    Raises:
        SettingsError: The text names several hosts, or none.
    """
    from weir.deployment.nodes import listed

    hosts = listed(spelled)
    if len(hosts) != 1:
        raise SettingsError(f"{spelled} is not the name of one host", hint="add one server after the other")
    return hosts[0]


@server.command()
@click.argument("number", metavar="SERVER", type=click.IntRange(0))
@click.option("--to", metavar="HOST", help="Host that takes its trees.  [default: the one with the fewest servers]")
@click.option(
    "--rate",
    metavar="BYTES/s",
    type=Checked("rate", values.rate),
    help="Highest rate of the moves, in bytes per second.  [default: the policy's share]",
)
@click.option("--cancel", is_flag=True, help="Let a retiring server take new files again.")
@output_option
@click.pass_obj
def retire(home: Home, number: int, to: str | None, rate: str | None, cancel: bool, output: str) -> int | None:
    """Empty a server's targets, and have another host serve its trees.

    From now on the server gets no new files and no new trees (directories whose metadata it holds). Its objects move
    to the other servers, as by `weir rebalance`, while programs use the files, and its targets leave the store. Its
    trees keep their server number. In a store of several hosts their journal moves to another host, where a process
    serves them from then on: programs wait as for a restart, and the old host is no longer needed. In a store of one
    host the process stays, and holds only metadata. If the command is ended early, the same command continues;
    --cancel opens a server that has not yet retired.
    """
    from weir.cli.common.draining import INTERRUPTED, await_end, changeable, empty
    from weir.deployment import handover
    from weir.deployment.growth import check_move
    from weir.store.membership import begin_server, end_retirement, end_server, reopen_server

    chosen, file = changeable(home, str(number), f"let server {number} retire")
    if cancel:
        handover.refuse_moving(home, number)
        reopen_server(file, chosen)
        show(output, {"server": number, "state": "open"}, ("SERVER", "STATE"), [(number, "open")])
        return None
    goal = check_move(home, number, to, tell)
    # A move that was gone on with has changed its address.
    chosen, file = changeable(home, str(number), f"let server {number} retire")
    moved = 0
    if names := begin_server(file, chosen):
        interrupted, moved = empty(home, names, rate)
        if interrupted:
            say(f"server {number} takes no new files; the same command continues, and --cancel opens it again")
            return INTERRUPTED
        for name in names:
            await_end(lambda name=name: end_retirement(file, chosen, name))  # type: ignore[misc]
    if goal is None:
        await_end(lambda: end_server(file, chosen))
    else:
        handover.move(home, number, goal, tell)
    document = {"server": number, "state": "retired", "objects_moved": moved, "host": goal}
    headings, row = ("SERVER", "STATE", "OBJECTS MOVED"), (number, "retired", moved)
    if goal is None:
        show(output, document, headings, [row])
    else:
        show(output, document, (*headings, "HOST OF ITS TREES"), [(*row, goal)])
    return None
