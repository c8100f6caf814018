"""`weir deploy`: a store whose servers and mounts are on several hosts."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import FAILED, say, tell
from weir.cli.common.options import origin_of, store_options
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import PATH, Network
from weir.store.errors import SettingsError
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.deployment.deployment import Deployed
    from weir.deployment.fanout import Reach
    from weir.deployment.record import Record
    from weir.deployment.unchanged import Given
    from weir.store.configuration import Configuration

_FIRST_PORT = 7700
"""First port of a host's servers: no service of /etc/services has it or the next hundred."""
_PORT_MAX = 65534
"""Last first port: a server has two."""


@click.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@click.option("--nodes", metavar="HOSTS", help="Hosts of the servers: node[01-16], or a file with such lists.")
@click.option("--clients", metavar="HOSTS", help="Further hosts, which mount the store and have no server.")
@click.option(
    "--via",
    type=click.Choice(("ssh", "srun", "flux")),
    help="Program that reaches the hosts.  [default: ssh; inside of an allocation, that of its manager]",
)
@click.option(
    "--ssh-options",
    metavar="OPTIONS",
    default="",
    show_default=False,
    help="Further options of ssh, such as '-F FILE'.",
)
@click.option("--program", metavar="PATH", help="Path of `weir` on the hosts.  [default: that of this one]")
@click.option("--network", type=Network(), metavar="NET/BITS", help="Network that carries the store's traffic.")
@click.option(
    "--port",
    type=click.IntRange(1024, _PORT_MAX),
    default=_FIRST_PORT,
    help="First port of each host's servers; each server has two.",
)
@click.option("--mount", "point", metavar="PATH", help="Mount the store at PATH on every host.")
@click.option("--no-mount", is_flag=True, help="Do not mount the store.")
@click.option(
    "--accept-journal-loss",
    is_flag=True,
    help="Start even if a journal lost changes that were on stable storage, and list the lost changes.",
)
@store_options
@output_option
@click.pass_context
def deploy(
    context: click.Context,
    /,
    file: Path | None,
    nodes: str | None,
    clients: str | None,
    via: str | None,
    ssh_options: str,
    program: str | None,
    network: Any,
    port: int,
    point: str | None,
    no_mount: bool,
    accept_journal_loss: bool,
    output: str,
    **given: object,
) -> int:
    """Bring a store up on several hosts: install its key and configuration, start its servers and mount it.

    Without --nodes, the hosts are those of the Slurm or Flux allocation that this runs in. If the store was deployed
    before, the servers and mounts that do not run are started again; hosts that do not answer are left out, and the
    exit code is then 1. One server runs on each host, unless the file or --servers asks for more.
    """
    from weir.cli.common.progress import working
    from weir.deployment import deployment, handover, record
    from weir.deployment.fanout import telling
    from weir.deployment.unchanged import Given
    from weir.store import restored

    if no_mount and point is not None:
        raise click.UsageError("--mount and --no-mount contradict each other")
    if point is not None and not Path(point).is_absolute():
        raise click.UsageError("--mount needs an absolute path: it is one of every host")
    home: Home = context.obj
    present = record.read(home)
    if present is not None and present.moving is not None:
        present = handover.go_on(home, tell)
    if present is not None:
        clients_given = None if clients is None else _listed(clients)
        port_given = port if _is_given(context, "port") else None
        other = Given(clients_given, network, port_given, "" if no_mount else point, via, ssh_options or None, program)
        _refuse_unlike(context, home, present, given, other, is_described=nodes is not None or file is not None)
    with working("deploy") as shown, telling(shown):
        if present is not None and nodes is None and file is None:
            deployed = deployment.bring_up(home, present, tell, accept_journal_loss=accept_journal_loss)
        else:
            servers, reach = _hosts(nodes, clients, via, ssh_options, program)
            wanted = deployment.Wanted(servers, _listed(clients), network, port, "" if no_mount else point)
            configuration = _configuration(context, home, file, present, given, len(wanted.servers))
            deployed = deployment.deploy(
                home, wanted, reach, configuration, tell, accept_journal_loss=accept_journal_loss
            )
    restored.tell(home, tell)
    return _report(home, deployed, output)


def _hosts(
    nodes: str | None, clients: str | None, via: str | None, ssh_options: str, program: str | None
) -> "tuple[tuple[str, ...], Reach]":
    """The hosts of the servers, and the way to all hosts."""
    from weir.deployment.fanout import Reach
    from weir.deployment.nodes import allocated, listed

    inside = allocated(os.environ) if nodes is None or via in (None, "flux") else None
    if nodes is None and inside is None:
        raise click.UsageError("name the hosts with --nodes, such as --nodes node[01-16], or run it in an allocation")
    servers = listed(nodes) if nodes is not None else inside or ()
    chosen = via or _manager(inside)
    ranks = {host: rank for rank, host in enumerate(inside or ())} if chosen == "flux" else {}
    if chosen == "flux" and (strange := [host for host in (*servers, *_listed(clients)) if host not in ranks]):
        raise SettingsError(
            f"{', '.join(strange)} is not in this Flux instance", hint="`flux resource list` shows its hosts"
        )
    return servers, Reach(chosen, program or _own_program(), ssh_options, ranks)  # type: ignore[arg-type]


def _listed(clients: str | None) -> tuple[str, ...]:
    from weir.deployment.nodes import listed

    return listed(clients) if clients is not None else ()


def _manager(inside: tuple[str, ...] | None) -> str:
    if inside is None:
        return "ssh"
    return "srun" if os.environ.get("SLURM_JOB_NODELIST") else "flux"


def _own_program() -> str:
    """The path of this program, which is the same on the hosts unless the user names another."""
    import shutil

    beside = Path(sys.executable).parent / "weir"
    return str(beside if beside.is_file() else shutil.which("weir") or beside)


def _is_given(context: click.Context, name: str) -> bool:
    from click.core import ParameterSource

    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _refuse_unlike(
    context: click.Context,
    home: Home,
    present: "Record",
    given: dict[str, object],
    other: "Given",
    *,
    is_described: bool,
) -> None:
    """Refuse options that the store was deployed with otherwise, and cannot take."""
    from weir.deployment import record, unchanged
    from weir.store.fixed import unlike

    settings = unlike(record.configuration_file(home), given, partial(origin_of, context))
    unchanged.refuse(home, present, settings, other, is_described=is_described)


def _configuration(
    context: click.Context,
    home: Home,
    file: Path | None,
    present: "Record | None",
    given: dict[str, object],
    hosts: int,
) -> "Configuration":
    from weir.deployment import record
    from weir.store import lifecycle
    from weir.store.configuration import read_toml

    chosen = file or (record.configuration_file(home) if present is not None else None)
    if given.get("servers") is None and (chosen is None or "server" not in read_toml(chosen)):
        given = {**given, "servers": hosts}
    configuration = lifecycle.plan(home, chosen, given, partial(origin_of, context))
    if len(configuration.servers) < hosts:
        raise SettingsError(
            f"{len(configuration.servers)} servers cannot be on {hosts} hosts",
            hint="name hosts that only mount the store with --clients",
        )
    return configuration


def _report(home: Home, deployed: "Deployed", output: str) -> int:
    from dataclasses import asdict

    from weir.cli.common.findings import warn_of
    from weir.deployment.nodes import folded
    from weir.health import gather, judge
    from weir.store.control import TIMEOUT_SECONDS
    from weir.store.decoding import encode

    facts = gather(home, TIMEOUT_SECONDS, with_hosts=False)
    found = judge(facts)
    answering, known = len(facts.answering()), len(facts.servers)
    members = deployed.record.members
    left_out = [member.host for member in members if member.host not in deployed.mounts]
    document = {
        "home": str(home.root),
        "cluster": str(home.cluster),
        "deployment": deployed.record.deployment,
        "hosts": [{**encode(member), "mount": deployed.mounts.get(member.host)} for member in members],
        "left_out": left_out,
        "servers": [encode(address) for address in deployed.addresses],
        "findings": [asdict(each) for each in found],
    }
    serving = [member.host for member in members if member.servers]
    mounting = [host for host, point in deployed.mounts.items() if point]
    points = sorted({point for point in deployed.mounts.values() if point})
    rows = [
        ("servers", f"{known if answering == known else f'{answering} of {known} answer,'} on {folded(serving)}"),
        ("mounts", f"{', '.join(points)} on {folded(mounting)}" if mounting else "none"),
        ("home", home.root),
    ]
    is_whole = not left_out and all(each.level != "error" for each in found)
    show(output, document, ("STORE", "up" if is_whole else "up in part"), rows)
    warn_of(found)
    if output == "table":
        say("next: `weir run -- CMD` on a host runs a program on it, `weir status` shows it, `weir down` ends it")
    return 0 if is_whole else FAILED
