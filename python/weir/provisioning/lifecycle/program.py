"""The job's program: run on its store, and ended with everything that it started."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.interruption import Interruption
from weir.provisioning.lifecycle.record import JobFolder, Phase, State, changed
from weir.store.processes import Process

GRACE_SECONDS = 30.0
"""Time that a program has for its end after a signal (as Slurm's KillWait)."""
_KILL_SECONDS = 10.0
"""Longest time until the kernel has ended killed processes."""
_SIGNALLED = 128
"""Added to the number of the signal that ended a program, as a shell does."""
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
"""Exit codes of a shell whose command cannot be executed or is not there (POSIX, 2.8.2)."""
_SET_CHILD_SUBREAPER = 36
"""Request of prctl(2) by which processes that lost their parent become children of this one."""
_POLL_SECONDS = 0.02
_START_TIME_FIELD = 19
"""Index of `starttime` behind the command name in /proc/PID/stat (proc(5), field 22)."""


def run_program(folder: JobFolder, environment: Mapping[str, str], interruption: Interruption) -> State:
    """Run the job's program to its end, and end what it left running.

    The program is in a session of its own and reads nothing. A signal that this process gets is handed on; after
    `GRACE_SECONDS` the program is killed.

    Args:
        folder: Folder of the job, whose state names the command.
        environment: Variables of the program.
        interruption: Signals of this process.

    Returns:
        The state: `RAN` with the exit code, or still `RUNNING` where a signal ended the program early.

    Raises:
        ProvisioningError: The job has no command.
    """
    # A signal that came before its handler was exchanged would leave the program behind.
    with folder.locked(), interruption.noted():
        state = folder.state()
        if not state.command:
            raise ProvisioningError(f"the job of {folder.root} has no command", hint="name one in its jobspec")
        state = folder.write(changed(state, phase=Phase.RUNNING))
        _adopt_orphans()
        before = _children(os.getpid())
        child = _started(state.command, state.working_directory, environment)
        if isinstance(child, int):
            return folder.write(changed(state, phase=Phase.RAN, exit_code=child))
        state = folder.write(changed(state, process=_recorded(child.pid)))
        code = _ended(child, interruption)
        _end_all(before)
        if interruption.number:
            return folder.write(changed(state, exit_code=_SIGNALLED + interruption.number))
        return folder.write(changed(state, phase=Phase.RAN, exit_code=code))


def is_running(state: State) -> bool:
    """Decide whether the job's program runs on after its `weir job run` was killed.

    Returns:
        Whether it does.
    """
    if state.phase is not Phase.RUNNING or not state.process:
        return False
    pid, ticks, boot = state.process.split()
    return Process(int(pid), int(ticks), boot).is_alive()


def _recorded(pid: int) -> str:
    """A process's number, its start and the boot, by which it is found again."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    ticks = status.rpartition(")")[2].split()[_START_TIME_FIELD]
    return f"{pid} {ticks} {Process.current().boot}"


def _started(
    command: Sequence[str], working_directory: str, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes] | int":
    """Start the program; return a shell's exit code where it cannot be started."""
    try:
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd=working_directory or None,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except FileNotFoundError:
        return _NOT_FOUND
    except OSError:
        return _NOT_EXECUTABLE


def _ended(child: "subprocess.Popen[bytes]", interruption: Interruption) -> int:
    deadline: float | None = None
    while (code := child.poll()) is None:
        if interruption.number and deadline is None:
            deadline = time.monotonic() + GRACE_SECONDS
            _signal(child.pid, interruption.number)
        if deadline is not None and time.monotonic() > deadline:
            _signal(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_SECONDS)
    # Processes that the program left in its session use the store, which is to be unmounted.
    _signal(child.pid, signal.SIGKILL)
    return code if code >= 0 else _SIGNALLED - code


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _adopt_orphans() -> None:
    """Become the parent of the program's processes that lose theirs, so that none of them escapes the job's end."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_all(before: frozenset[int]) -> None:
    """Kill the processes that became children of this one since."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        left = _children(os.getpid()) - before
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_POLL_SECONDS)


def _children(pid: int) -> frozenset[int]:
    return frozenset(_listed_children(pid))


def _listed_children(pid: int) -> Iterator[int]:
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, listed.read_text().split())
