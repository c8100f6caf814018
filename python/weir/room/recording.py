"""The recorder of the room, which keeps the history while no other recorder does."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.errors import WeirError
from weir.history.database import Database
from weir.history.errors import TakenHistoryError
from weir.history.judgements import Judgements
from weir.history.recorder import Recorder

if TYPE_CHECKING:
    from weir.store.control import Server

BYTES_MAX = 2 << 30
"""Most bytes of the history, as of `weir record`."""
_AGAIN_SECONDS = 10.0
"""Time until the next try where another recorder keeps the history, or no store is up."""
_JOIN_SECONDS_MAX = 30.0


class Recording:
    """A thread that records the store, and waits while another recorder does."""

    def __init__(
        self,
        find: "Callable[[], Sequence[Server]]",
        folder: Path,
        kept: int,
        warn: Callable[[str], None],
        judgements: Judgements,
    ) -> None:
        """Prepare the thread.

        Args:
            find: Finds the servers that there are now.
            folder: Folder of the history.
            kept: Age up to which the history is kept, in milliseconds.
            warn: Takes a line about each loss.
            judgements: Judgements of the store.
        """
        self._find = find
        self._folder = folder
        self._kept = kept
        self._warn = warn
        self._judgements = judgements
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._said = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End after the turn that is under way."""
        self._is_over.set()
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._record()
            except TakenHistoryError:
                self._said = ""
            except WeirError as error:
                # It is tried again and again, and told once.
                if error.message != self._said:
                    self._warn(error.message)
                self._said = error.message
            self._is_over.wait(_AGAIN_SECONDS)

    def _record(self) -> None:
        self._find()
        database = Database(self._folder, bytes_max=BYTES_MAX, kept=self._kept)
        try:
            recorder = Recorder(self._find, database, self._warn, judged=self._judgements.values)
            while not self._is_over.is_set():
                recorder.turn()
                self._is_over.wait(recorder.pause())
        finally:
            database.close()
