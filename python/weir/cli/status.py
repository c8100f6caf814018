"""`weir status`: what the servers of a store are doing."""

from typing import Any

import click

from weir.cli.errors import FAILED, Failure, warn
from weir.cli.home import Home
from weir.cli.output import output_option

_HEADER = ("SERVER", "TARGET", "BACKEND", "USED", "CAPACITY", "FILL", "LOAD", "QUEUED", "KEEPS")


@click.command()
@output_option
@click.pass_obj
def status(home: Home, output: str) -> int:
    """Show servers, targets and mounts.

    The exit code is 1 where a server does not answer or takes no changes, and where a mount is not served.
    """
    from weir.cli import mounts
    from weir.cli.control import ask_all, servers_of
    from weir.cli.home import find_cluster
    from weir.cli.output import show

    cluster = find_cluster(home)
    servers: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    silent = 0
    known = servers_of(cluster)
    for server, answer in zip(known, ask_all(known, "/v1/status"), strict=True):
        if isinstance(answer, Failure):
            warn(answer.message, hint=f"see {home.log(server.number)}; `weir up` starts it again")
            servers.append({"up": False, "server": server.number, "error": answer.message})
            rows.append((server.number, "-", "no answer", "-", "-", "-", "-", "-", "-"))
            silent += 1
        else:
            servers.append({"up": True, **answer})
            if answer.get("full"):
                warn(
                    f"server {server.number}: the file system of its journal is full; names can be removed and files "
                    "be cut, all other changes answer ENOSPC",
                    hint=f"make room on the file system of {home.server(server.number)}",
                )
            rows.extend(_target_row(server.number, target) for target in answer["targets"])
    mounted = [{"point": str(mount.point), "served": mount.is_served()} for mount in mounts.mounts_of(home)]
    document = {"home": str(home.root), "cluster": str(cluster), "servers": servers, "mounts": mounted}
    show(output, document, _HEADER, rows)
    if output == "table":
        _print_summary(servers, mounted)
    stopped = [server for server in servers if (server.get("journal") or {}).get("state") == "stopped"]
    for each in stopped:
        warn(
            f"server {each['server']} takes no changes (EROFS): {each['journal']['error']}",
            hint="reads go on, and its journal begins anew by itself once the device works",
        )
    lost = [mount["point"] for mount in mounted if not mount["served"]]
    for point in lost:
        warn(f"the mount at {point} is not served: its program ended", hint="`weir up` mounts it again")
    return FAILED if silent or stopped or lost else 0


def _target_row(server: int, target: dict[str, Any]) -> tuple[object, ...]:
    from weir.cli.output import share, size

    capacity = target["capacity_bytes"]
    return (
        server,
        target["target"],
        target["backend"] + (", emulated speed" if target.get("speed") else ""),
        size(target["used_bytes"]),
        size(capacity),
        share(target["used_bytes"] / capacity if capacity else 0.0),
        share(target["load"]),
        target["queued"],
        target["keeps"],
    )


def _print_summary(servers: list[dict[str, Any]], mounted: list[dict[str, Any]]) -> None:
    from weir.cli.output import sharing_name

    answering = [server for server in servers if server["up"]]
    policies = sorted({sharing_name(server["policy"], server["scheduler"]) for server in answering})
    print(f"\nservers  {len(answering)} of {len(servers)} answer")
    if policies:
        print(f"policy   {' and '.join(policies)}")
        print(f"inodes   {sum(server['inodes'] for server in answering)}")
    if journals := [server["journal"] for server in answering if server["journal"]]:
        works = sum(journal["state"] == "works" for journal in journals)
        undurable = sum(journal["appended"] - journal["durable"] for journal in journals)
        print(f"journals {works} of {len(journals)} take changes; {undurable} changes not on stable storage yet")
    for mount in mounted:
        print(f"mount    {mount['point']}{'' if mount['served'] else ' (not served)'}")
    if not mounted:
        print("mount    none")
