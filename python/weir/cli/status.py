"""`weir status`: the state of a store's servers, targets and mounts."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.asking import backend_words
from weir.cli.common.errors import FAILED
from weir.cli.common.findings import warn_of
from weir.cli.common.leases import lease_document, lease_words
from weir.cli.common.output import output_option, share, sharing_name, show, size
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.health import Facts
    from weir.store.answers import Lease, Status, Target
    from weir.store.control import Server

_ANSWER_SECONDS = 10.0
"""Longest wait for all servers and hosts together: a busy host takes its time to run a command."""
_HEADER = ("SERVER", "TARGET", "BACKEND", "USED", "CAPACITY", "FILL", "LOAD", "QUEUED", "KEEPS")


@click.command()
@output_option
@click.pass_obj
def status(home: Home, output: str) -> int:
    """Show servers, targets and mounts.

    On the host that a store was deployed from, each server is shown with its host. The warnings and their codes are
    those of `weir health`. The exit code is 1 if one of them is an error: a server or a host does not answer, a
    server takes no changes, a target has failed, the store is full, or a mount is not served.
    """
    from weir.health import gather, judge
    from weir.store.decoding import encode

    facts = gather(home, _ANSWER_SECONDS)
    servers: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    hosts = {each.server.number: each.host for each in facts.servers if each.host is not None}
    leases = {each.server.number: each.lease for each in facts.servers if each.lease and each.lease.is_leased}
    for each in facts.servers:
        number, answer = each.server.number, each.status
        place = {} if each.host is None else {"host": each.host}
        if answer is None:
            error = each.error.message if each.error else f"no answer within {facts.seconds:g} s"
            servers.append({"up": False, "server": number, **place, **_addresses(each.server), "error": error})
            rows.append(_bare_row(number, "no answer"))
        else:
            leased = {"lease": lease_document(leases.get(number))}
            servers.append({"up": True, **place, **_addresses(each.server), **encode(answer), **leased})
            own = [_target_row(number, target) for target in answer.targets]
            bare = _bare_row(number, "no targets" if answer.state == "open" else answer.state)
            rows.extend(own or [bare])
    found, mounted = judge(facts), _mounts(facts)
    document = {
        "home": str(home.root),
        "cluster": str(find_cluster(home)),
        "servers": servers,
        "mounts": mounted,
        "findings": [asdict(each) for each in found],
    }
    if hosts:
        show(output, document, ("HOST", *_HEADER), [(hosts.get(int(str(row[0])), "-"), *row) for row in rows])
    else:
        show(output, document, _HEADER, rows)
    if output == "table":
        _print_summary(facts.answering(), len(servers), mounted, leases)
    return FAILED if warn_of(found) else 0


def _mounts(facts: "Facts") -> list[dict[str, Any]]:
    """The mounts of the store; no mount point where a host does not answer."""
    found: list[dict[str, Any]] = [
        {**({} if mount.host is None else {"host": mount.host}), "point": mount.point, "served": mount.is_served}
        for mount in facts.mounts
    ]
    return found + [
        {"host": host, "point": None, "served": False, "error": state.message}
        for host, state in facts.hosts.items()
        if isinstance(state, StoreError)
    ]


def _place(mount: dict[str, Any]) -> str:
    """A mount in words."""
    return f"{mount['host']}:{mount['point']}" if "host" in mount else str(mount["point"])


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
