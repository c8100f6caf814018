"""The lasting steps of an allocation that run the keepers of a store's hosts."""

from collections.abc import Iterable
from pathlib import Path

from weir.deployment import record
from weir.deployment.fanout import Reach
from weir.store import processes
from weir.store.home import Home
from weir.store.processes import Process

KEEP = "keep"
"""Word behind `weir agent` that runs a keeper."""
_END_SECONDS = 30.0
"""Longest time until a step has ended after its keeper."""


def begin(home: Home, reach: Reach, hosts: Iterable[str]) -> None:
    """Begin the step of each host whose step does not run.

    Args:
        home: Home of the host that the store is deployed from, and of every host.
        reach: The way to the hosts.
        hosts: Names of the hosts.

    Raises:
        OSError: A step cannot be begun.
    """
    for host in hosts:
        process = Process.recorded(_record(home, host))
        if process is not None and process.is_alive():
            continue
        command = reach.command(host, ["--home", str(home.root), "agent", KEEP])
        log = _record(home, host).with_suffix(".log")
        processes.start(["/bin/sh", "-c", command], record=_record(home, host), log=log, folder=home.root)


def end(home: Home, hosts: Iterable[str]) -> None:
    """Wait for the end of steps whose keepers have ended, and end those that go on.

    Args:
        home: Home of the host that the store is deployed from.
        hosts: Names of the hosts.
    """
    for host in hosts:
        process = Process.recorded(_record(home, host))
        if process is not None and not process.ends_within(_END_SECONDS):
            process.stop()
        for leftover in (_record(home, host), _record(home, host).with_suffix(".log")):
            leftover.unlink(missing_ok=True)


def _record(home: Home, host: str) -> Path:
    return record.folder_of(home).root / f"{host}.pid"
