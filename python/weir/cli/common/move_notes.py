"""Notes of how far a mover is, for the control room."""

import os
import socket
import time
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from weir.store.home import Home
from weir.store.placement_journal import MOVE_SECONDS, MOVES, Move, note, shortened
from weir.ways import user_name


def _begun() -> Move:
    now = time.time()
    return Move(now, now, socket.gethostname(), os.getpid(), user_name(os.geteuid()), "", 0, 0, 0, 0, is_over=False)


@dataclass
class MoveNotes:
    """Notes of one mover, or of several in turn: at the begin, every `MOVE_SECONDS`, and at the end.

    Attributes:
        home: The home that keeps the notes.
        what: The kind of the move, as in `Move.what`; empty notes nothing.
    """

    home: Home
    what: str
    _now: Move = field(default_factory=_begun)
    _noted: float = float("-inf")

    def __enter__(self) -> "MoveNotes":
        """Begin."""
        self._now = replace(self._now, what=shortened(self.what), is_over=False)
        self._note()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the end."""
        self._now = replace(self._now, is_over=True)
        self._note()

    def take(self, event: dict[str, Any]) -> None:
        """Take an event of the mover."""
        now = self._now
        if event["event"] == "planned":
            self._now = replace(now, planned_bytes=now.moved_bytes + event["bytes"])
        elif event["event"] == "moved":
            moved = now.moved_bytes + event["bytes"]
            self._now = replace(now, moved_bytes=moved, moved_objects=now.moved_objects + 1)
        elif event["event"] == "left":
            self._now = replace(now, left_objects=now.left_objects + 1)
        if time.monotonic() - self._noted >= MOVE_SECONDS:
            self._note()

    def _note(self) -> None:
        self._noted = time.monotonic()
        if self.what:
            note(self.home, MOVES, replace(self._now, at=time.time()))
