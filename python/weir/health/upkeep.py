"""The facts that lie on this host: credentials, the planner, and a guard that died."""

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

from weir import _core
from weir.errors import WeirError
from weir.health.facts import CredentialFacts, GuardFacts, PlannerFacts
from weir.planner.places import found_socket
from weir.store.home import Home

_LOCKS = Path("/proc/locks")
"""The locks of files of all processes (proc(5))."""
_PATIENCE = 0.8
"""Part of the bound of all answers for which the planner is waited for."""
_UNDONE = ("undone", "refused", "left alone")
"""Words of the guard's journal behind which nothing of an action is in force."""


def credentials(home: Home) -> list[CredentialFacts]:
    """Read the credentials in a home, and those beside the addresses that root announces to other users."""
    announced = home.announcement() if home.root.is_dir() else None
    folders = [home.credentials, *([Home(announced).credentials] if announced is not None else [])]
    found = []
    for path in [path for folder in folders if os.access(folder, os.R_OK) for path in sorted(folder.glob("*.json"))]:
        with contextlib.suppress(OSError, ValueError):
            claims = _core.claims_of_credential(path.read_text())
            found.append(CredentialFacts(path, claims["uid"], claims["job"], claims["expires_seconds"]))
    return found


def planner(seconds: float) -> PlannerFacts | None:
    """Ask the planner of this machine for the deployments that failed.

    Args:
        seconds: Longest time until it answers.

    Returns:
        The facts; None where no planner was started here.
    """
    try:
        place = found_socket()
        if not place.exists():
            return None
    except (OSError, RuntimeError):
        # A user without a home, or whose home is closed to it, has no planner there.
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
            knock.settimeout(seconds)
            knock.connect(str(place))
        return PlannerFacts(place, None, _failed_deployments(place, seconds))
    except OSError as error:
        return PlannerFacts(place, error.strerror or str(error))
    except WeirError as error:
        return PlannerFacts(place, error.message)


def _failed_deployments(place: Path, seconds: float) -> tuple[tuple[str, str, float], ...]:
    """Ask for the deployments that failed.

    Raises:
        WeirError: The planner takes connections, and does not answer.
    """
    try:
        from weir.planner.client import Client
    except ModuleNotFoundError:
        return ()
    # A planner that hangs becomes a finding within the bound of all answers.
    with Client(place, answer_seconds=seconds * _PATIENCE) as client:
        listed = client.deployments(all_users=os.geteuid() == 0)
    return tuple((each.name, each.error, each.changed) for each in listed if each.state == "failed")


def dead_guard(home: Home) -> GuardFacts | None:
    """Find the last action of a guard that ended without undoing it.

    Returns:
        The action; None where a guard runs, or has undone all.
    """
    from weir.guard.journal import Journal

    folder = home.root / "guard"
    lock = folder / "lock"
    if not lock.is_file() or _is_locked(lock):
        return None
    lines: list[dict[str, Any]] = []
    with contextlib.suppress(WeirError):
        lines = [line for line in Journal(folder).lines() if line["kind"] is not None and not line["is_dry_run"]]
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in lines:
        last[(line["kind"], line["victim"], line["victim_uid"])] = line
    open_actions = [line for line in last.values() if line["did"] not in _UNDONE]
    if not open_actions:
        return None
    action = max(open_actions, key=lambda line: float(line["time"]))
    return GuardFacts(f"{action['did']}: {action['kind']} for {action['victim']}", float(action["time"]))


def _is_locked(path: Path) -> bool:
    """Whether a process holds a lock of a file; to try it would keep a guard from starting."""
    number = path.stat().st_ino
    with contextlib.suppress(OSError):
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
        return any(str(number) in field.split(":")[2:] for line in lines for field in line)
    return True
