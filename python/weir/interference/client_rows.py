"""Rows of data sets from the lines of windows that programs counted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weir.interference.windows import CLIENT, TIMES

_METADATA = "metadata"
"""End of the names of metadata services."""


def rows_of(
    run: str, workload: str, number: int, lines: Sequence[Mapping[str, Any]], named: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Make the rows of a job's window from the lines that its programs counted.

    Args:
        run: Name of the run.
        workload: Name of the program.
        lines: The lines of that window, with the counts and times of `weir.store.client_windows.ClientLine`.
        named: Names a line's device as the windows of servers do.

    Returns:
        Rows of a data set, one for each server.
    """
    seconds = sum(float(line[name]) for line in lines for name in TIMES)
    shared = {"run": run, "workload": workload, "window": number, "io_seconds": seconds, "slowdown": None}
    shared["counted_by"] = "client"
    merged: dict[str, dict[str, Any]] = {}
    for line in lines:
        server = named(line["device"])
        row = merged.setdefault(server, {**shared, "server": server, "is_metadata": server.endswith(_METADATA)})
        for name in (*CLIENT, *TIMES):
            row[f"client_{name}"] = row.get(f"client_{name}", 0.0) + float(line[name])
    return [merged[server] for server in sorted(merged)]
