"""Units of systemd that run servers.

A server of a unit is restarted by its unit: nobody would start another one again when it dies.
"""

import re
import subprocess
import time
from pathlib import Path

from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.processes import Process

_UNIT = re.compile(r"^(?:0:|\d+:name=systemd):.*/(weir-server@\d+\.service)$", re.MULTILINE)
"""Line of systemd's hierarchy in /proc/PID/cgroup (cgroups(7)), of version 2 or 1."""
_RESTART_SECONDS = 180.0
"""Longest time of a restart: the unit gives a server 60 s to end, and a busy machine takes its time to start one."""
_LOOK_SECONDS = 0.05


def unit_of(home: Home, number: int) -> str | None:
    """Find the unit that runs a server.

    Returns:
        Name of the unit; None where the server does not run, or without a unit.
    """
    process = Process.recorded(home.record(number))
    if process is None or not process.is_alive():
        return None
    try:
        return unit_named(Path(f"/proc/{process.pid}/cgroup").read_text())
    except OSError:
        return None


def unit_named(groups: str) -> str | None:
    """Find the unit of a server that a process's control groups name.

    Args:
        groups: Content of /proc/PID/cgroup.

    Returns:
        Name of the unit; None where there is none.
    """
    found = _UNIT.search(groups)
    return found[1] if found else None


def restart(home: Home, number: int, unit: str) -> None:
    """Have systemd restart a server, and wait until the server listens.

    The home must not be locked, because the new server locks it.

    Raises:
        StoreError: The server did not start again.
    """
    hint = f"see `systemctl status {unit}` and `journalctl -u {unit}`"
    deadline = time.monotonic() + _RESTART_SECONDS
    try:
        answer = subprocess.run(
            ["systemctl", "restart", unit], capture_output=True, text=True, timeout=_RESTART_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"systemd does not restart server {number}: {error}", hint=hint) from error
    if answer.returncode != 0:
        raise StoreError(f"systemd does not restart server {number}: {answer.stderr.strip()}", hint=hint)
    while not home.address(number).is_file():
        if time.monotonic() > deadline:
            raise StoreError(f"server {number} does not listen after {_RESTART_SECONDS:.0f} s", hint=hint)
        time.sleep(_LOOK_SECONDS)
