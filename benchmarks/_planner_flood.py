"""Milliseconds in which the planner answers `validate` to slurmctld, and to a user, while another user floods it.

Only root can measure: the planner runs as root, as does slurmctld. The rival in the same run is the planner without a
flood.
"""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _harness import ROOT, WAIT_SECONDS, announce

sys.path.insert(0, str(ROOT / "tests"))

import planner_flood
import resident

ATTACKER, OTHER = "nobody", "daemon"
KINDS = (*planner_flood.FLOODS, "connections")
QUESTIONS = 100
LIMIT_MS = 90.0
"""Time after which Slurm's plugin gives up."""
HEAD_START_SECONDS = 1.0


def measure(directory: Path) -> dict[str, float]:
    """Measure every flood, on a planner in a folder.

    Returns:
        `planner_flood_validate_ms_p99`, in milliseconds: the 99th percentile of slurmctld's answers in the worst flood;
        `planner_flood_user_ms_p99`, that of another ordinary user; `planner_quiet_validate_ms_p99` without a flood;
        and `planner_floods`, their number.

    Raises:
        RuntimeError: An answer was refused, or this is not root.
    """
    if os.geteuid() != 0:
        raise RuntimeError("only root can run a planner for several users")
    uid = pwd.getpwnam(ATTACKER).pw_uid
    directory.chmod(0o755)
    with resident.planner(directory / "p", program=resident.interpreter(uid)) as planner:
        planner.start()
        quiet = _answers(planner, "quiet")
        worst = dict.fromkeys(quiet, 0.0)
        for kind in KINDS:
            with _flood(planner, kind):
                found = _answers(planner, kind)
            worst = {name: max(worst[name], found[name]) for name in worst}
    figures = {
        "planner_flood_validate_ms_p99": worst["root"],
        "planner_flood_user_ms_p99": worst[OTHER],
        "planner_quiet_validate_ms_p99": quiet["root"],
        "planner_floods": float(len(KINDS)),
    }
    for name in ("planner_flood_validate_ms_p99", "planner_flood_user_ms_p99"):
        announce(name, f"{figures[name]:.1f} ms", f"limit {LIMIT_MS:.0f} ms", figures[name] / LIMIT_MS)
    return figures


def _command(*arguments: str) -> list[str]:
    # The other users need not be able to read this folder.
    return [
        resident.interpreter(pwd.getpwnam(ATTACKER).pw_uid),
        "-c",
        Path(planner_flood.__file__).read_text(),
        *arguments,
    ]


@contextmanager
def _flood(planner: resident.Planner, kind: str) -> Iterator[None]:
    flood = subprocess.Popen(_command("flood", str(planner.socket), kind), user=ATTACKER, extra_groups=[], cwd="/")
    try:
        time.sleep(HEAD_START_SECONDS)
        yield
        if flood.poll() is not None:
            raise RuntimeError(f"the flood of {kind} ended by itself")
    finally:
        flood.kill()
        flood.wait(WAIT_SECONDS)


def _answers(planner: resident.Planner, kind: str) -> dict[str, float]:
    """The 99th percentile of each user's answers."""
    command = _command("ask", str(planner.socket), str(QUESTIONS))
    askers = {
        name: subprocess.Popen(command, user=name, extra_groups=[], cwd="/", stdout=subprocess.PIPE, text=True)
        for name in ("root", OTHER)
    }
    found = {}
    for name, asker in askers.items():
        told, _ = asker.communicate(timeout=WAIT_SECONDS)
        spent = sorted(map(float, told.split()))
        found[name] = spent[int(len(spent) * 0.99)]
        print(f"{kind}: {name} {spent[len(spent) // 2]:.1f} ms, p99 {found[name]:.1f} ms", file=sys.stderr)
    return found
