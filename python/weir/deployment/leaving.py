"""The end of a server on the host that it leaves: one whose names are in memory writes them into its folder first."""

import time

from weir.store import cluster
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.processes import Process

_ASKED = "names-wanted"
"""File that asks for the names (crates/server/src/server/handover.rs)."""
_REFUSED = "names-refused"
"""File by which the server tells why it could not write them; it goes on then."""
_KEPT = ("names", "journal")
"""Folders that have a server's names once it has ended: the first in a store in memory, the second in others."""
_SECONDS = 200.0
"""Longest wait for the names: 400,000 took 3 s, and 65 MB, on a busy machine of two cores."""


def end(home: Home, number: int) -> None:
    """Have a server end that goes to another host. One that does not run has ended.

    Args:
        home: The home.
        number: Number of the server.

    Raises:
        StoreError: The server could not write its names, or not in time, and goes on; or it ended without them.
        OSError: The server cannot be asked.
    """
    process = Process.recorded(home.record(number))
    if process is not None and process.is_alive():
        _ask(home, number, process)
        if not any((home.server(number) / name).is_dir() for name in _KEPT):
            raise StoreError(
                f"server {number} was ended by force before it had written its names, which were in memory",
                hint="the same command goes on without them",
            )
    cluster.stop_servers(home, [number])


def _ask(home: Home, number: int, process: Process) -> None:
    """Ask a server to write its names and to end, and wait for that."""
    asked, refused = (home.server(number) / name for name in (_ASKED, _REFUSED))
    refused.unlink(missing_ok=True)
    asked.touch()
    process.request_stop()
    deadline = time.monotonic() + _SECONDS
    while not process.ends_within(0.1):
        if refused.exists():
            asked.unlink()
            raise StoreError(
                f"server {number} could not write its names, and goes on: {refused.read_text()}",
                hint=f"make room in {home.servers}; then the same command goes on",
            )
        if time.monotonic() > deadline:
            raise StoreError(
                f"server {number} has not ended within {_SECONDS:.0f} s",
                hint="see `weir logs`; the same command waits again",
            )
