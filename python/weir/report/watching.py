"""The watch over a job while it runs: the history of its store meanwhile, and what was predicted of it."""

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.history.database import Database
from weir.history.errors import HistoryError
from weir.history.reading import History
from weir.history.recorder import Recorder
from weir.report.facts import Predicted
from weir.store.errors import StoreError
from weir.store.observations import JobKey
from weir.store.predictions import likely_slowdown

if TYPE_CHECKING:
    from weir.store.control import Server
    from weir.store.predictions import JobPrediction

_BYTES_MAX = 256 << 20
"""Most bytes of the history: of a long job it grows coarser."""
_SLOWED = 2.0
"""Slowdown from which a predicted window counts."""
_LATE_WINDOWS = 2.0
_LATE_SECONDS = 0.5
"""Time after the end of a job until the servers tell its last window: these windows and this time."""
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
        self._counts: Counter[str] = Counter()
        self._responsible: Counter[str] = Counter()
        self._worst = 0.0
        self._basis = ""
        self._window = 0

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

    def predicted(self) -> Predicted | None:
        """What was predicted of the job; None where nobody predicted."""
        if not self._counts["windows"]:
            return None
        responsible = next(iter(self._responsible.most_common(1)), ("", 0))[0]
        return Predicted(
            self._counts["windows"], self._counts["slowed"], max(self._worst, 1.0), self._basis, responsible
        )

    def _run(self) -> None:
        try:
            database = Database(self._folder, bytes_max=_BYTES_MAX)
        except HistoryError as error:
            self._warn(error.message)
            return
        try:
            recorder = Recorder(self._find, database, self._warn)
            is_over = False
            while not is_over:
                is_over = self._over.is_set()
                if is_over:
                    window = database.window / 1000
                    time.sleep(_LATE_WINDOWS * window + _LATE_SECONDS)
                    recorder.look_again()
                recorder.turn()
                self._look_at_predictions()
                self._over.wait(0 if is_over else recorder.pause())
        except (HistoryError, StoreError) as error:
            self._warn(f"the job is watched no longer: {error.message}")
        finally:
            database.close()

    def _look_at_predictions(self) -> None:
        """Take the predictions of the first server that has some of the last window."""
        for server in self._find():
            try:
                told = server.interference()
            except StoreError:
                continue
            if told.window <= self._window:
                continue
            self._window = told.window
            for job in told.jobs:
                if (job.job, job.uid) == self.job:
                    self._take(job)
            return

    def _take(self, job: "JobPrediction") -> None:
        slowdown = likely_slowdown(job.horizons[:1])
        if slowdown is None:
            return
        self._counts["windows"] += 1
        self._counts["slowed"] += slowdown >= _SLOWED
        if slowdown > self._worst:
            self._worst, self._basis = slowdown, job.basis
        if slowdown >= _SLOWED and job.responsible:
            self._responsible[f"{job.responsible[0].job} of {job.responsible[0].user}"] += 1
