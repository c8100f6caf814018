"""One step of a deployment, in a process of its own with the rights of the deployment's user.

    python -m weir.planner.step MODULE STEP FOLDER

The deployment is the first line of standard input. The end of standard input is the end of the planner, and ends this
process and its children, so that no step goes on that nobody knows of. The answer is one JSON object in a line.
"""

import contextlib
import fcntl
import os
import resource
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from weir.errors import WeirError
from weir.provisioning.deployments import Deployment
from weir.provisioning.outcomes.outcome import Outcome as Measured
from weir.provisioning.outcomes.outcome import Question
from weir.store.claims import act_for
from weir.store.identity import user_name

ORDER_BYTES_MAX = 16 << 20
_LOCK_SECONDS = 60.0
"""Longest wait for the process of the same step that a planner left when it was killed."""
_LOG_BYTES_MAX = 4 << 20


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """All that a step has to know beside the deployment."""

    job: str = ""
    """The job as its scheduler names it."""
    nodes: int = 1
    """Nodes of the job, as its scheduler knows them."""
    discard: bool = False
    """Whether the end may lose output."""
    question: Question | None = None
    """The job as its plan knew it, which its outcome is compared with; None measures nothing."""
    reach: Literal["auto", "local", "ssh"] = "auto"
    """The way to the servers' nodes: `auto` takes ssh unless this machine is the only one."""


class Order(msgspec.Struct, kw_only=True):
    """The step's request."""

    deployment: Deployment
    context: Context


class Outcome(msgspec.Struct, kw_only=True):
    """The step's answer."""

    environment: dict[str, str] = {}
    message: str = ""
    """The failure; empty where there was none."""
    hint: str = ""
    nodes: tuple[str, ...] = ()
    """Nodes at fault."""
    measured: Measured | None = None
    """The outcome of the job's run, from the first step behind it."""


def main() -> None:
    """Do the step that the arguments name."""
    module, step, place = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = msgspec.json.decode(sys.stdin.buffer.readline(ORDER_BYTES_MAX), type=Order)
    threading.Thread(target=_watch_planner, daemon=True).start()
    job = f", job {order.context.job}" if order.context.job else ""
    act_for(f"weir planner: {step} of {order.deployment.name}{job}", user_name(os.getuid()))
    answers = os.fdopen(os.dup(1), "wb")
    folder = Path(place)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _log_into(folder)
        with _alone(folder):
            outcome = _do(module, step, order, folder)
    except OSError as error:
        outcome = Outcome(message=f"{error.filename or folder}: {error.strerror or error}")
    answers.write(msgspec.json.encode(outcome) + b"\n")
    answers.flush()
    if step == "teardown" and not outcome.message:
        _remove(folder)


def _do(module: str, step: str, order: Order, folder: Path) -> Outcome:
    function: Any = getattr(import_module(module), step)
    try:
        found = function(order.deployment, folder, order.context)
    except WeirError as error:
        nodes = getattr(error, "nodes", ())
        return Outcome(message=error.message, hint=error.hint, nodes=tuple(str(node) for node in nodes))
    except ImportError as error:
        return Outcome(message=f"{error.name} is not installed for the planner", hint=str(error))
    except OSError as error:
        return Outcome(message=f"{error.filename or step}: {error.strerror or error}")
    except Exception as error:
        import traceback

        # A fault of the step's own; its log has the whole of it.
        traceback.print_exc()
        return Outcome(message=f"{step} failed: {type(error).__name__}: {error}", hint=f"see {folder}/planner.log")
    measured = found if isinstance(found, Measured) else None
    return Outcome(environment=dict(found) if step == "environment" else {}, measured=measured)


def _watch_planner() -> None:
    # Python's own buffer is locked while a thread reads it, and the end of the process would wait for the lock.
    os.read(0, 1)
    with contextlib.suppress(OSError):
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _log_into(folder: Path) -> None:
    """Send all output of the step and its children into the deployment's log."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    log = os.open(folder / "planner.log", flags, 0o600)
    if os.fstat(log).st_size > _LOG_BYTES_MAX:
        os.ftruncate(log, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


@contextlib.contextmanager
def _alone(folder: Path) -> Any:
    """Hold the folder against another process of its steps. The kernel gives the lock back however one ends."""
    lock = os.open(folder / ".step.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the folder of a deployment that is gone. A step that left something else in it wanted the rest to stay."""
    for name in ("planner.log", ".step.lock"):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


if __name__ == "__main__":
    main()
