"""`weir logs`: the words of a store's servers and mounts."""

import contextlib
import time
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED, CommandError, warn
from weir.plain_text import plain
from weir.store.errors import StoreError
from weir.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.deployment.record import Record
    from weir.store.log_files import Log

_LOOK_SECONDS = 0.2
"""Pause between two looks at logs that are followed."""


@click.command()
@click.argument("servers", metavar="[SERVER]...", nargs=-1, type=click.IntRange(min=0))
@click.option(
    "--mounts", "with_mounts", is_flag=True, help=("Show the logs of the mounts too, or alone if no SERVER is given.")
)
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=20, help=("Number of last lines to show of each log.")
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new lines, until Ctrl-C.")
@click.pass_obj
def logs(home: Home, servers: tuple[int, ...], with_mounts: bool, lines: int, follow: bool) -> int:
    """Show the last lines of the servers' logs, each line after the name of its program.

    Each line has its time and level. A log that reaches 1 MiB is started anew, and one older log is kept. Logs stay
    when a store is stopped, and only the user who started the store may read them. On the host that a store was
    deployed from, the logs of all of its hosts are shown; the exit code is 1 where a host does not answer.
    """
    from weir.deployment import record

    described = record.read(home)
    if described is not None:
        return _show_those_of_hosts(described, servers, with_mounts, lines, follow)
    found = _logs(home, servers, with_mounts)
    with contextlib.ExitStack() as ends:
        for log in found:
            ends.callback(log.close)
            for line in log.last(lines):
                _show(log.name, line)
        while follow:
            time.sleep(_LOOK_SECONDS)
            for log in found:
                for line in log.fresh():
                    _show(log.name, line)
    return 0


def _show_those_of_hosts(
    described: "Record", servers: "Sequence[int]", with_mounts: bool, lines: int, follow: bool
) -> int:
    from weir.deployment import asking, operations
    from weir.deployment.nodes import folded

    present = {number for part in described.members for number in part.servers}
    if strange := sorted(set(servers) - present):
        raise CommandError(
            f"the store of {described.home} has no server {strange[0]}",
            hint=f"its servers are {', '.join(map(str, sorted(present)))}",
        )
    wanted = set(servers) or (set() if with_mounts else present)
    hosts = {
        part.host: tuple(number for number in part.servers if number in wanted)
        for part in described.members
        if with_mounts or wanted.intersection(part.servers)
    }
    if follow:
        raise CommandError(
            "`--follow` shows the logs of one host", hint=f"call `weir logs --follow` on {folded(tuple(hosts))}"
        )
    requests = {
        host: operations.LogsRequest(described.home, described.deployment, numbers, with_mounts, lines)
        for host, numbers in hosts.items()
    }
    answers = asking.ask(described.reach(), operations.LOGS, requests)
    for host, answer in answers.items():
        if isinstance(answer, StoreError):
            warn(answer.message, hint=answer.hint)
            continue
        for log in answer.logs:
            for line in log.lines:
                print(f"{plain(log.name)} on {host} | {plain(line)}", flush=True)
    return FAILED if any(isinstance(answer, StoreError) for answer in answers.values()) else 0


def _logs(home: Home, servers: tuple[int, ...], with_mounts: bool) -> "list[Log]":
    from weir.cli.common.elsewhere import place_of, refuse_elsewhere
    from weir.store import mounts
    from weir.store.log_files import logs_of

    present = home.server_numbers()
    if servers or not with_mounts:
        refuse_elsewhere(home, "`weir logs`")
    if not present and not mounts.mounts_of(home):
        raise CommandError(
            f"{home.root} has no servers, and so no logs", hint="name the store with --home or WEIR_HOME"
        )
    for number in servers:
        if number not in present:
            place = place_of(home, number)
            hint = f"its servers are {', '.join(map(str, present))}"
            raise CommandError(
                f"there is no server {number} in {home.root}",
                hint=hint if place is None else f"call `weir logs {number}` on {place}",
            )
    return logs_of(home, servers or (() if with_mounts else tuple(present)), with_mounts=with_mounts)


def _show(name: str, line: bytes) -> None:
    from weir.store.log_files import text_of

    print(f"{name} | {plain(text_of(line))}", flush=True)
