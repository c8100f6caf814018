"""Windows of jobs beside windows of servers: rows of both, joined by the number of the window and the server's name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.interference.errors import InterferenceError


@dataclass(frozen=True, slots=True)
class Joined:
    """Joined rows, and the number of those that could not be joined."""

    rows: tuple[dict[str, Any], ...]
    without_server: int
    """Rows of jobs whose server has no window of that number: they are left out."""


def join(jobs: Sequence[Mapping[str, Any]], servers: Sequence[Mapping[str, Any]], renamed: Mapping[str, str]) -> Joined:
    """Join rows.

    Each window of a job gets a row for every server of that window, since interference comes from servers that the job
    does not touch, too.

    Args:
        servers: Rows of servers, of windows of the same length. Those of a store have the counters of each server once
            for every job.
        renamed: Names of servers by the names that jobs have for them. A name such as `OST0003` stands for the one
            server whose name ends with it.

    Returns:
        The rows, with the counts of jobs and the counters of servers.

    Raises:
        InterferenceError: No row has a server, or two rows have different counters of one server in one window.
    """
    counters: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in servers:
        of_window = counters.setdefault(int(row["window"]), {})
        known = of_window.setdefault(str(row["server"]), row)
        if _counters(known) != _counters(row):
            raise InterferenceError(
                f"window {row['window']} has two rows of server {row['server']} with different counters",
                hint="join the windows of one collector at a time, or of hosts with different devices",
            )
    windows: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in jobs:
        windows.setdefault((str(row["run"]), str(row["workload"]), int(row["window"])), []).append(row)
    rows: list[dict[str, Any]] = []
    without = 0
    for (_, _, number), own in sorted(windows.items()):
        there = counters.get(number, {})
        named = {_named(str(row["server"]), there, renamed): row for row in own}
        without += sum(name not in there for name in named)
        if any(name in there for name in named):
            rows += [_row(own[0], named.get(name), server) for name, server in sorted(there.items())]
    if not rows:
        raise InterferenceError(
            "no window of a job has the number and the name of a server's",
            hint="record both at the same time and with the same `window`; name servers by `server`, JOB'S=SERVER'S",
        )
    return Joined(tuple(rows), without)


def _named(name: str, there: Mapping[str, Any], renamed: Mapping[str, str]) -> str:
    wanted = renamed.get(name, name)
    if wanted in there:
        return wanted
    ending = [known for known in there if known.endswith(f"-{wanted}")]
    return ending[0] if len(ending) == 1 else wanted


def _row(any_own: Mapping[str, Any], own: Mapping[str, Any] | None, server: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("run", "workload", "window", "io_seconds", "slowdown", "counted_by")
    counts = {} if own is None else {name: value for name, value in own.items() if name.startswith("client_")}
    return {name: any_own.get(name) for name in keys} | _counters(server) | counts


def _counters(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a row about the server."""
    return {name: value for name, value in row.items() if name.startswith("server") or name == "is_metadata"}
