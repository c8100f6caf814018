"""An end on SIGTERM or Ctrl-C at the next pause, never in the middle of a message or a file."""

import contextlib
import signal
import socket
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While it is entered, SIGTERM and SIGINT only make `descriptor` readable. For the main thread."""

    def __init__(self) -> None:
        """Nothing is changed before it is entered."""
        self._reader, self._writer = socket.socketpair()
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        """Take the signals over."""
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._tell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._reader.close()
        self._writer.close()

    @property
    def descriptor(self) -> int:
        """Readable once a signal came."""
        return self._reader.fileno()

    def _tell(self, number: int, frame: FrameType | None) -> None:
        # A full pipe has told already.
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b"\0")
