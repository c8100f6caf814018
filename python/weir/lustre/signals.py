"""An orderly stop: SIGTERM and Ctrl-C end a program at its next pause, never in the middle of a message or a file."""

import contextlib
import signal
import socket
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Catches SIGTERM and SIGINT within a block: a signal only makes `descriptor` readable. Only the main thread may
    use it.
    """

    def __init__(self) -> None:
        """Prepare; no signal is caught before the block begins."""
        self._reader, self._writer = socket.socketpair()
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        """Catch the signals."""
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._tell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the earlier handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._reader.close()
        self._writer.close()

    @property
    def descriptor(self) -> int:
        """A file descriptor that is readable once a signal came."""
        return self._reader.fileno()

    def _tell(self, number: int, frame: FrameType | None) -> None:
        # A full socket is readable already.
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b"\0")
