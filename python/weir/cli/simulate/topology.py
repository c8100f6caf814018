"""`weir simulate topology`: the machines of a preset, a file or a store, as TOML."""

import click

from weir.cli.simulate.names import TOPOLOGY
from weir.store.home import Home, find_cluster


@click.command(name="topology")
@click.argument("name", metavar="[NAME|FILE]", required=False, type=TOPOLOGY)
@click.option(
    "--from-store", is_flag=True, help=("Take the machines of the running store, with their measured speeds.")
)
@click.option("--list", "lists", is_flag=True, help="List the presets, with their numbers of machines.")
@click.pass_obj
def topology(home: Home, name: str | None, from_store: bool, lists: bool) -> None:
    """Print the machines of a topology as TOML, to be changed and simulated on.

    NAME is a preset, or numbers of servers and of targets a server as in 16x8. FILE describes a topology, or is the
    cluster.toml of a store. With --from-store the rates are those that the servers learned from served requests;
    client nodes and links are assumed.
    """
    from weir.simulation.stores import topology_of_store
    from weir.simulation.topology import topology_named
    from weir.store.access import access_to

    if sum((name is not None, from_store, lists)) != 1:
        raise click.UsageError("give the name of a topology, its file, --from-store, or --list")
    if lists:
        _show_presets()
        return
    if name is None:
        cluster = find_cluster(home)
        found = topology_of_store(cluster, access_to(home, cluster))
    else:
        found = topology_named(name)
    print(found.text(), end="")


def _show_presets() -> None:
    from weir.cli.common.output import print_table
    from weir.simulation.topology import preset_names, topology_named

    presets = [topology_named(name) for name in preset_names()]
    rows = [
        (each.name, each.nodes, each.servers, each.targets, f"{each.capacity_bytes / 1e12:.1f}") for each in presets
    ]
    print_table(("NAME", "CLIENT NODES", "SERVERS", "TARGETS", "TB"), rows)
