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
_SHOW_SECONDS = 5.0
"""Longest time until systemd tells of a unit."""
_RUNNING = Path("/run/systemd/system")
"""The folder that is there exactly where systemd is the first process (sd_booted(3))."""


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


def name_of(number: int) -> str:
    """Name the unit of a server."""
    return f"weir-server@{number}.service"


def enabled_unit(home: Home, number: int) -> str | None:
    """Find the unit that starts a server with this machine, whether the server runs or not.

    Returns:
        Name of the unit; None where systemd does not run here, or keeps no such server of this home.
    """
    unit = name_of(number)
    if not _RUNNING.is_dir():
        return None
    command = ["systemctl", "show", "--property=UnitFileState,ActiveState,Environment", unit]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SHOW_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    shown = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    is_kept = shown.get("UnitFileState") == "enabled" or shown.get("ActiveState") not in ("inactive", None)
    return unit if is_kept and f"WEIR_HOME={home.root}" in shown.get("Environment", "").split() else None


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
