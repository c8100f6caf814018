"""`weir down`: end a store."""

from dataclasses import dataclass

import click

from weir.cli.common.errors import say
from weir.cli.common.output import Row, output_option, show
from weir.store.home import Home

_JOBS_NAMED_MAX = 5
_ANSWER_SECONDS = 2.0
"""Longest time until a server has told what it holds; a store is ended without knowing, too."""


@click.command()
@click.option("--force", is_flag=True, help="Unmount even while a program uses the mount.")
@click.option("--discard", is_flag=True, help="Remove the store's files in its home, too.")
@click.option("--yes", is_flag=True, help="Do not ask before files are removed or lost.")
@output_option
@click.pass_obj
def down(home: Home, force: bool, discard: bool, yes: bool, output: str) -> None:
    """End the store: unmount it and stop its servers, on every host that it was deployed on.

    The contents of `dir` targets are kept for the next `weir up` or `weir deploy`, unless --discard is given. The
    contents of `ram` targets are lost: the command first says how much that is, and on a terminal asks whether to
    continue.
    """
    import sys

    from weir.amounts import size_text
    from weir.cli.common.confirmation import confirm
    from weir.deployment import deployment, record
    from weir.store import cluster, lifecycle

    described, held = record.read(home), _held(home)
    if discard and (described is not None or cluster.stored(home) is not None):
        amount = f", {size_text(held.folder_bytes)} on its targets" if held.folder_bytes else ""
        confirm(f"remove the files of the store in {home.root}{amount}", yes=yes)
    if held.memory_bytes:
        lost = f"end the store, whose targets in memory hold {size_text(held.memory_bytes)} that are lost then"
        if sys.stdin.isatty():
            confirm(lost, yes=yes)
        else:
            say(f"this will {lost}")
    if held.jobs:
        say(f"jobs at work get errors from now on: {', '.join(held.jobs)}")
    if described is not None:
        ended = deployment.take_down(home, described, force=force, discard=discard)
    else:
        ended = lifecycle.take_down(home, force=force, discard=discard)
    document = {
        "stopped": ended.servers,
        "unmounted": [str(point) for point in ended.mounts],
        "lost_bytes": ended.lost_bytes,
        "discarded": discard,
        "left": list(ended.left),
    }
    rows: list[Row] = [("servers stopped", ended.servers), ("mounts ended", len(ended.mounts))]
    if discard:
        rows.append(
            ("files removed", f"those in {home.root}" if described is None else f"those in {home.root} of each host")
        )
    show(output, document, ("STORE", "down"), rows)
    for path in ended.left:
        say(f"left as it is, because it lies outside of the home: {path}")
    if ended.lost_bytes:
        say(f"the ram targets held {size_text(ended.lost_bytes)}; that data is lost")
    if not ended.servers and not ended.mounts:
        say(f"no server of {home.root} was running")


@dataclass(frozen=True)
class _Held:
    """The contents of a store that are lost with its servers, and the jobs at work."""

    memory_bytes: int = 0
    folder_bytes: int = 0
    jobs: tuple[str, ...] = ()
    """Names of the jobs that have requests, at most `_JOBS_NAMED_MAX`, and the count of the others."""


def _held(home: Home) -> _Held:
    """Ask the servers that answer soon."""
    from weir.store.access import access_to
    from weir.store.control import Server, ask_all, servers_of
    from weir.store.errors import StoreError

    if not home.cluster.is_file():
        return _Held()
    try:
        servers = servers_of(home.cluster, access_to(home, home.cluster), timeout_seconds=_ANSWER_SECONDS)
    except StoreError:
        return _Held()
    states = [state for state in ask_all(servers, Server.status) if not isinstance(state, StoreError)]
    tables = [jobs for jobs in ask_all(servers, Server.jobs) if not isinstance(jobs, StoreError)]
    targets = [target for state in states for target in state.targets]
    memory = sum(target.used_bytes for target in targets if target.backend == "ram")
    folders = sum(target.used_bytes for target in targets) - memory
    names = sorted({job.job for jobs in tables for job in jobs if job.active and job.connections})
    others = [f"and {len(names) - _JOBS_NAMED_MAX} more"] if len(names) > _JOBS_NAMED_MAX else []
    return _Held(memory, folders, (*names[:_JOBS_NAMED_MAX], *others))
