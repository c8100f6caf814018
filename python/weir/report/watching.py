"""The watch over a job while it runs, which keeps the history of its store meanwhile."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.history.database import Database
from weir.history.errors import HistoryError
from weir.history.reading import History
from weir.history.recorder import Recorder
from weir.store.errors import StoreError
from weir.store.observations import JobKey

if TYPE_CHECKING:
    from weir.store.control import Server

_BYTES_MAX = 256 << 20
"""Most bytes of the history: of a long job it grows coarser."""
_LATE_WINDOWS = 2.0
_LATE_SECONDS = 0.5
"""Time after the end of a job until the servers tell its last window: these windows and this time."""
_LAST_TURNS_MAX = 5
"""Most turns after the end of a job, until every server has told the job's last window."""
_JOIN_SECONDS_MAX = 60.0
"""Longest wait for the last turn of the watch."""


class Watch:
    """The watch over one job."""

    def __init__(self, find: "Callable[[], Sequence[Server]]", job: JobKey, warn: Callable[[str], None]) -> None:
        """Prepare a watch.

        Args:
            find: Finds the servers there are now.
            warn: Takes a line about each loss.
        """
        self.job = job
        self._find = find
        self._warn = warn
        self._folder = Path(tempfile.mkdtemp(prefix="weir-report-"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-report", daemon=True)

    def start(self) -> None:
        """Begin, once the job runs."""
        self._thread.start()

    def end(self) -> None:
        """Wait for the last windows of the job, and end."""
        self._over.set()
        self._thread.join(_JOIN_SECONDS_MAX)

    def history(self) -> History:
        """Open what was recorded.

        Raises:
            HistoryError: Nothing was.
        """
        return History(self._folder)

    def remove(self) -> None:
        """Remove what was recorded."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        try:
            database = Database(self._folder, bytes_max=_BYTES_MAX)
        except HistoryError as error:
            self._warn(error.message)
            return
        try:
            recorder = Recorder(self._find, database, self._warn)
            while not self._over.is_set():
                recorder.turn()
                self._over.wait(recorder.pause())
            _take_last(recorder, database)
        except (HistoryError, StoreError) as error:
            self._warn(f"the job is watched no longer: {error.message}")
        finally:
            database.close()


def _take_last(recorder: Recorder, database: Database) -> None:
    """Take the windows up to the end of the job, which is now."""
    ended = time.time() * 1000
    for _ in range(_LAST_TURNS_MAX):
        # The length of a window is known after the first turn, which may be this one.
        time.sleep(_LATE_WINDOWS * database.window / 1000 + _LATE_SECONDS)
        recorder.look_again()
        recorder.turn()
        known = database.reached().values()
        if known and min(known) >= ended // database.window:
            return
