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

from weir.interference.client_rows import rows_of
from weir.interference.collector import Parts
from weir.interference.errors import InterferenceError

WINDOW_SECONDS_MIN = 0.1
WINDOW_SECONDS_MAX = 60.0
"""Limits of a window in shared memory."""
_SHARED_MEMORY = Path("/dev/shm")
_STORE = "observed"
_OPERATIONS = ("reads", "writes", "stats", "opens", "closes", "others")
_NAMES = {"1.0": "files", "0.metadata": "metadata"}
_PREFIX = "weir-observed-"
_MADE_BY = re.compile(rf"{_PREFIX}(?P<process>\d{{1,10}})-")
_JOIN_SECONDS_MAX = 60.0
_KEPT = 30
"""Windows that the shared memory surely holds: `weir_windows` has 32, and the open one and the next take two places."""
_HELD_SECONDS_MAX = 2.0
_HELD_WINDOWS_MAX = 8
"""A window is written this long after its end: a busy machine holds programs up between an operation and its count."""


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
    _begun: int = 0
    _last: int = 0
    _left_out: int = 0
    _written: dict[int, int] = field(default_factory=dict)
    """Operations by window, of the windows that were written and that the shared memory still holds."""
    _late: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Take the windows from now on: the program may be over before a busy machine begins to gather."""
        self._begun = self._last = int(time.time() / self.window_seconds) - 1

    def start(self) -> None:
        """Begin to gather."""
        # Windows go by while a busy machine loads the package that writes them.
        import pyarrow.parquet  # noqa: F401

        self._thread = threading.Thread(target=self._gather, name="weir-observed", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write the last windows, of which the open one ends with the program."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS_MAX)
            self._thread = None

    def _gather(self) -> None:
        held_seconds = min(_HELD_SECONDS_MAX, _HELD_WINDOWS_MAX * self.window_seconds)
        try:
            while not self._ended.wait(self.window_seconds / 2):
                now = time.time()
                self._tell_of_lost(now)
                self._look(now - held_seconds)
            # The second look is as of a time when the open window has ended: nobody counts in it any more. The reader
            # leaves out windows that are old at that time, so the first look takes them.
            now = time.time()
            self._tell_of_lost(now)
            self._look(now)
            self._look(now + 2 * self.window_seconds + 1)
        except (OSError, ValueError, InterferenceError) as error:
            self.tell(f"the windows since {self._last} are lost: {error}")
        if self._late > 0:
            self.tell(f"{self._late} operations are in no window: they were counted after their window was written")

    def _tell_of_lost(self, now_seconds: float) -> None:
        lost = int(now_seconds / self.window_seconds) - _KEPT - self._last - 1
        if lost > 0:
            self.tell(f"{lost} windows are lost: nobody looked at them for as long as they are kept")

    def _look(self, now_seconds: float) -> None:
        """Write the windows that had ended at a time, and count the operations that are too late for theirs."""
        from weir import _core

        found = _core.client_windows(
            self.folder,
            window_seconds=self.window_seconds,
            uid=os.geteuid(),
            store=_STORE,
            after=max(self._begun, self._last - _KEPT),
            now_seconds=now_seconds,
        )
        if found is None:
            # No program has counted yet, so the windows until then are empty.
            self._last = max(self._last, int(now_seconds / self.window_seconds) - 2)
            return
        lines, last, left_out = found
        if left_out > self._left_out:
            self.tell(f"{left_out - self._left_out} operations were not counted: they touched too many targets at once")
        self._left_out = left_out
        by_window: dict[int, list[Any]] = {}
        for line in lines:
            by_window.setdefault(line["window"], []).append(line)
        for number, of_window in sorted(by_window.items()):
            operations = sum(int(line[name]) for line in of_window for name in _OPERATIONS)
            if number <= self._last:
                self._late += max(0, operations - self._written.get(number, 0))
            else:
                self.parts.add_rows(number, rows_of(self.run, self.workload, number, of_window, server_of))
                self.windows += 1
            self._written[number] = operations
        self._last = max(self._last, last)
        self._written = {number: count for number, count in self._written.items() if number > self._last - _KEPT}


def server_of(device: str) -> str:
    """Name a device of the shared memory as windows do.

    Args:
        device: `0.N` for OST N, `0.metadata`, or `1.0` for files without a layout.

    Returns:
        The name, such as `OST0003`, `metadata` or `files`.
    """
    return _NAMES.get(device) or f"OST{int(device.partition('.')[2]):04x}"
