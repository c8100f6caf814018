"""`weir status`: the state of a store's servers, targets and mounts."""

from typing import TYPE_CHECKING, Any

import click

from weir.cli.asking import backend_words, failed_targets, hosts_of, servers_up, warn_of_silence
from weir.cli.errors import FAILED, warn
from weir.cli.leases import lease_document, lease_words, leases_of
from weir.cli.output import output_option, share, sharing_name, show, size
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.store.answers import Lease, Status, Target
    from weir.store.control import Server

_HEADER = ("SERVER", "TARGET", "BACKEND", "USED", "CAPACITY", "FILL", "LOAD", "QUEUED", "KEEPS")


@click.command()
@output_option
@click.pass_obj
def status(home: Home, output: str) -> int:
    """Show servers, targets and mounts.

    A store of several hosts is shown with the host of each server on the host that it was deployed from. The exit code
    is 1 where a server or a host does not answer, where a server takes no changes, where a target has failed, and where
    a mount is not served.
    """
    from weir.store.control import Server, ask_all
    from weir.store.decoding import encode

    cluster = find_cluster(home)
    servers: list[dict[str, Any]] = []
    answering: list[Status] = []
    rows: list[tuple[object, ...]] = []
    silent = 0
    known = servers_up(home)
    hosts = hosts_of(home)
    answers = list(zip(known, ask_all(known, Server.status), strict=True))
    leases = leases_of(server for server, answer in answers if not isinstance(answer, StoreError))
    for server, answer in answers:
        place = {"host": hosts[server.number]} if server.number in hosts else {}
        if isinstance(answer, StoreError):
            warn_of_silence(home, server, answer)
            said = {"server": server.number, **place, **_addresses(server), "error": answer.message}
            servers.append({"up": False, **said})
            rows.append(_bare_row(server.number, "no answer"))
            silent += 1
        else:
            answering.append(answer)
            _warn_of(home, server.number, answer)
            leased = {"lease": lease_document(leases.get(server.number))}
            servers.append({"up": True, **place, **_addresses(server), **encode(answer), **leased})
            own = [_target_row(server.number, target) for target in answer.targets]
            bare = _bare_row(server.number, "no targets" if answer.state == "open" else answer.state)
            rows.extend(own or [bare])
    mounted = _mounts(home)
    document = {"home": str(home.root), "cluster": str(cluster), "servers": servers, "mounts": mounted}
    if hosts:
        show(output, document, ("HOST", *_HEADER), [(hosts.get(int(str(row[0])), "-"), *row) for row in rows])
    else:
        show(output, document, _HEADER, rows)
    if output == "table":
        _print_summary(answering, len(servers), mounted, leases)
    stopped = [(each.server, each.journal) for each in answering if each.journal and each.journal.state == "stopped"]
    for number, journal in stopped:
        warn(
            f"server {number} takes no changes (EROFS): {journal.error}",
            hint="reads go on, and its journal begins anew by itself once the device works",
        )
    failed = failed_targets(answering)
    unknown = [mount for mount in mounted if mount["point"] is None]
    lost = [_place(mount) for mount in mounted if not mount["served"] and mount not in unknown]
    for point in lost:
        warn(f"the mount at {point} is not served: its program ended", hint=f"`weir {_starter(home)}` mounts it again")
    return FAILED if silent or stopped or failed or lost or unknown else 0


def _warn_of(home: Home, number: int, answer: "Status") -> None:
    """Warn of what keeps a server from taking clients or changes."""
    from weir.amounts import size_text
    from weir.store import taken_ports

    for notice in taken_ports.notices(answer):
        warn(notice.words, hint=notice.hint)
    if answer.full:
        warn(
            f"server {number}: the file system of its journal is full; names can be removed and files be cut, all "
            "other changes answer ENOSPC",
            hint=f"make room on the file system of {home.server(number)}",
        )
    if answer.kept_bytes >= answer.kept_bytes_max:
        warn(
            f"server {number} keeps {size_text(answer.kept_bytes)} of names and attributes in memory, and may keep "
            f"{size_text(answer.kept_bytes_max)}: names can be removed, new ones answer ENOSPC",
            hint="remove files, or raise `namespace_memory` in cluster.toml",
        )


def _mounts(home: Home) -> list[dict[str, Any]]:
    """The mounts of the store, on all hosts that it was deployed on; no mount point where a host does not answer."""
    from weir.deployment import deployment, record
    from weir.store import mounts

    described = record.read(home)
    if described is None:
        return [{"point": str(mount.point), "served": mount.is_served()} for mount in mounts.mounts_of(home)]
    found: list[dict[str, Any]] = []
    for host, state in deployment.states(described).items():
        if isinstance(state, StoreError):
            warn(state.message, hint=state.hint)
            found.append({"host": host, "point": None, "served": False, "error": state.message})
        else:
            found += [{"host": host, "point": mount.point, "served": mount.served} for mount in state.mounts]
    return found


def _place(mount: dict[str, Any]) -> str:
    """A mount in words."""
    return f"{mount['host']}:{mount['point']}" if "host" in mount else str(mount["point"])


def _starter(home: Home) -> str:
    """The command that starts again what ended."""
    from weir.deployment import record

    return "up" if record.read(home) is None else "deploy"


def _addresses(server: "Server") -> dict[str, str]:
    return {"control": server.control, "metrics": f"http://{server.control}/metrics"}


def _bare_row(server: int, state: str) -> tuple[object, ...]:
    """The row of a server without targets to show."""
    return (server, "-", state, "-", "-", "-", "-", "-", "-")


def _target_row(server: int, target: "Target") -> tuple[object, ...]:
    capacity = target.capacity_bytes
    return (
        server,
        target.target,
        backend_words(target),
        size(target.used_bytes),
        size(capacity),
        share(target.used_bytes / capacity if capacity else 0.0),
        share(target.load),
        target.queued,
        target.keeps,
    )


def _print_summary(
    answering: "list[Status]", known: int, mounted: list[dict[str, Any]], leases: "dict[int, Lease]"
) -> None:
    policies = sorted({sharing_name(server.policy, server.scheduler) for server in answering})
    print(f"\nservers  {len(answering)} of {known} answer")
    if policies:
        print(f"policy   {' and '.join(policies)}")
        for words in sorted({lease_words(lease) for lease in leases.values()}):
            print(f"lease    {words}, in place of the policy; see `weir guard log`")
        print(f"inodes   {sum(server.inodes for server in answering)}")
    if journals := [server.journal for server in answering if server.journal]:
        works = sum(journal.state == "works" for journal in journals)
        undurable = sum(journal.appended - journal.durable for journal in journals)
        print(f"journals {works} of {len(journals)} take changes; {undurable} changes not on stable storage yet")
    for mount in mounted:
        if mount["point"] is None:
            print(f"mount    {mount['host']} does not answer")
        else:
            print(f"mount    {_place(mount)}{'' if mount['served'] else ' (not served)'}")
    if not mounted:
        print("mount    none")
