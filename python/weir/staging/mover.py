"""A copy in a process of its own, in the environment and with the rights of a job."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weir.distribution import install_command
from weir.staging.copying import WORKERS
from weir.staging.errors import StagingError
from weir.staging.reports import Progress, Report

_STOP_SECONDS = 60.0
"""Longest time until a copy that was asked to stop has finished its block, also on a slow store."""
_KILL_SECONDS = 5.0
"""Longest wait for a process that was killed: one that hangs in the kernel ends when its file system answers."""
_LINE_BYTES_MAX = 1 << 20
"""Longest line of a copying process: its report names at most 100 files."""

Owner = tuple[int, int, tuple[int, ...]]
"""Uid, gid and further groups of a process."""


def move(
    source: Path,
    destination: Path,
    *,
    environment: Mapping[str, str],
    owner: Owner | None = None,
    workers: int = WORKERS,
    origin: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Copy as `copying.copy` does, in a process of its own.

    Args:
        source: A file or folder, as a program in the environment sees it.
        destination: Name of the copy.
        environment: Variables of the process, which name the store.
        owner: The user whose rights the copy has; None is this process's.
        workers: Number of workers.
        origin: As for `copying.copy`.
        progress: Called with the progress.

    Raises:
        StagingError: The copy is not done, or a KeyboardInterrupt has stopped it. Whatever was copied is kept, and the
            same call goes on.
    """
    if find_spec("blake3") is None:
        raise StagingError("blake3 is not installed", hint=install_command("staging"))
    command: list[str | bytes] = [sys.executable, "-m", "weir.staging", os.fsencode(source), os.fsencode(destination)]
    command += [str(workers), *([] if origin is None else [os.fsencode(origin)])]
    rights: dict[str, Any] = {}
    if owner is not None and owner[0] != os.geteuid():
        rights = {"user": owner[0], "group": owner[1], "extra_groups": list(owner[2])}
    child = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # Ctrl-C at a terminal reaches the caller alone, who decides.
        start_new_session=True,
        cwd="/",
        **rights,
    )
    try:
        return _followed(child, source, destination, progress)
    except KeyboardInterrupt:
        # The process tells how far it came, and the caller's user reads that in place of a traceback.
        child.terminate()
        _followed(child, source, destination, None)
        raise
    finally:
        _end(child)


def _followed(
    child: "subprocess.Popen[bytes]", source: Path, destination: Path, progress: Callable[[Progress], None] | None
) -> Report:
    if child.stdout is None:
        raise ValueError("the copying process was started without a pipe")
    while line := child.stdout.readline(_LINE_BYTES_MAX):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "progress" in told and progress is not None:
            progress(Progress(**told["progress"]))
        elif "error" in told:
            words = told["error"]
            raise StagingError(words["message"], hint=words["hint"], is_missing=words["missing"], is_full=words["full"])
        elif "report" in told:
            return Report(**{**told["report"], "left_out": tuple(told["report"]["left_out"])})
    code = child.wait()
    raise StagingError(
        f"the process that copied {source} to {destination} ended with code {code}",
        hint="what was copied is kept, and the same command continues",
    )


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.stdout is not None:
        child.stdout.close()
    try:
        if child.poll() is None:
            child.terminate()
            child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # The record of the copy lets it go on, and the caller has results to rescue.
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_KILL_SECONDS)
    except BaseException:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_KILL_SECONDS)
        raise
