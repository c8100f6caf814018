"""Windows of a program's operations on files outside a store, gathered on its node while the program runs.

The preload library counts in memory that the processes of the run share (`crates/preload`, `observation`); each window
is written when it has ended. The folder in memory is the user's own, and is removed with the run.
"""

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.interference.collector import Parts
from weir.interference.errors import InterferenceError
from weir.interference.windows import CLIENT, TIMES

WINDOW_SECONDS_MIN = 0.1
WINDOW_SECONDS_MAX = 60.0
"""Limits of a window in shared memory."""
_SHARED_MEMORY = Path("/dev/shm")
_STORE = "observed"
_NAMES = {"1.0": "files", "0.metadata": "metadata"}
_PREFIX = "weir-observed-"
_MADE_BY = re.compile(rf"{_PREFIX}(?P<process>\d{{1,10}})-")
_JOIN_SECONDS_MAX = 60.0
_KEPT = 30
"""Windows that the shared memory surely holds: `weir_windows` has 32, and the open one and the next take two places."""


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder in memory for the windows of a run; those of runs that were killed are removed.

    Yields:
        The folder, which only this user may enter.

    Raises:
        InterferenceError: The folder cannot be made.
    """
    place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    _remove_abandoned(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    except OSError as error:
        raise InterferenceError(f"cannot make a folder in {place}: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(place: Path) -> None:
    """Remove this user's folders whose process has ended."""
    for folder in place.glob(f"{_PREFIX}*"):
        found = _MADE_BY.match(folder.name)
        try:
            is_own = folder.lstat().st_uid == os.geteuid()
        except OSError:
            continue
        if found is not None and is_own and not Path("/proc", found["process"]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def variables(folder: Path, window_seconds: float) -> dict[str, str]:
    """The variables by which a program counts its operations.

    Args:
        folder: The shared folder.
        window_seconds: Length of a window.

    Returns:
        Variables by their names; the paths are those of WEIR_OBSERVE.
    """
    return {"WEIR_OBSERVATION": f"{round(window_seconds * 1000)}:{folder}"}


@dataclass
class Gatherer:
    """Gathers the windows of a run on a thread of its own.

    Attributes:
        folder: The shared folder.
        window_seconds: Length of a window.
        run: Name of the run.
        workload: Name of the program.
        parts: The Parquet files.
        tell: Takes a line about each loss.
    """

    folder: Path
    window_seconds: float
    run: str
    workload: str
    parts: Parts
    tell: Callable[[str], None]
    windows: int = 0
    """Windows that were written."""
    _last: int = 0
    _left_out: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to gather."""
        # Windows go by while a busy machine loads the package that writes them.
        import pyarrow.parquet  # noqa: F401

        # The windows before the run began are not asked for.
        self._last = int(time.time() / self.window_seconds) - 1
        self._thread = threading.Thread(target=self._gather, name="weir-observed", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write the last windows, of which the open one ends with the program."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS_MAX)
            self._thread = None

    def _gather(self) -> None:
        try:
            while not self._ended.wait(self.window_seconds / 2):
                self._look(time.time())
            # The second look is as of a time when the open window has ended: nobody counts in it any more. The reader
            # leaves out windows that are old at that time, so the first look takes them.
            now = time.time()
            self._look(now)
            self._look(now + 2 * self.window_seconds + 1, is_end=True)
        except (OSError, ValueError, InterferenceError) as error:
            self.tell(f"the windows since {self._last} are lost: {error}")

    def _look(self, now_seconds: float, *, is_end: bool = False) -> None:
        from weir import _core

        found = _core.client_windows(
            self.folder,
            window_seconds=self.window_seconds,
            uid=os.geteuid(),
            store=_STORE,
            after=self._last,
            now_seconds=now_seconds,
        )
        if found is None:
            return
        lost = int(now_seconds / self.window_seconds) - _KEPT - self._last - 1
        if lost > 0 and not is_end:
            self.tell(f"{lost} windows are lost: nobody looked at them for as long as they are kept")
        lines, self._last, left_out = found
        if left_out > self._left_out:
            self.tell(f"{left_out - self._left_out} operations were not counted: they touched too many targets at once")
        self._left_out = left_out
        by_window: dict[int, list[Any]] = {}
        for line in lines:
            by_window.setdefault(line["window"], []).append(line)
        for number, of_window in sorted(by_window.items()):
            self.parts.add_rows(number, self._rows(number, of_window))
            self.windows += 1

    def _rows(self, number: int, lines: list[Any]) -> list[dict[str, Any]]:
        seconds = sum(float(line[name]) for line in lines for name in TIMES)
        shared = {"run": self.run, "workload": self.workload, "window": number, "io_seconds": seconds, "slowdown": None}
        shared["counted_by"] = "client"
        merged: dict[str, dict[str, Any]] = {}
        for line in lines:
            server = server_of(line["device"])
            row = merged.setdefault(server, {**shared, "server": server, "is_metadata": server == "metadata"})
            for name in (*CLIENT, *TIMES):
                row[f"client_{name}"] = row.get(f"client_{name}", 0.0) + float(line[name])
        return [merged[server] for server in sorted(merged)]


def server_of(device: str) -> str:
    """Name a device of the shared memory as windows do.

    Args:
        device: `0.N` for OST N, `0.metadata`, or `1.0` for files without a layout.

    Returns:
        The name, such as `OST0003`, `metadata` or `files`.
    """
    return _NAMES.get(device) or f"OST{int(device.partition('.')[2]):04x}"
