"""Real-time priority for the programs of a collection, so that other work on the machine does not delay them.

It is for programs that sleep most of the time: kernels on a store whose devices are emulated.
"""

import os
import tomllib
from contextlib import suppress
from pathlib import Path

_PRIORITY = 1
"""The least real-time priority: it goes before ordinary programs, and behind all real-time ones."""


def is_allowed() -> bool:
    """Whether this process may give processes a real-time priority; it keeps its own."""
    own, before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except OSError:
        return False
    os.sched_setscheduler(0, own, before)
    return True


def sleeps(store: str) -> bool:
    """Whether all targets of a store are emulated, so that its programs sleep most of the time.

    Args:
        store: Text of a cluster.toml.
    """
    servers = tomllib.loads(store).get("server", [])
    targets = [target for server in servers for target in server.get("target", [])]
    return bool(targets) and all("speed" in target for target in targets)


def give(pid: int) -> None:
    """Give all threads of a process a real-time priority, where this is allowed.

    Args:
        pid: Number of a process.
    """
    # A thread, or the process, may end meanwhile.
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(_PRIORITY))
