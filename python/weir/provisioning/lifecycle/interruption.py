"""Signals that end a job early. The first one is heard; further ones do not disturb the rescue of its results."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedJob(BaseException):
    """A signal that came while no program ran."""


class Interruption:
    """The signals of this process, for the length of a block in its main thread."""

    def __init__(self, told: Callable[[str], None]) -> None:
        """Begin without a signal.

        Args:
            told: Called with words for the user, when a further signal is not followed.
        """
        self.number = 0
        self._told = told
        self._raises = True
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        """Hear the signals."""
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the signals to those who had them before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Only note a signal in a block, which looks at `number` itself.

        Yields:
            Nothing.
        """
        self._raises = False
        try:
            yield
        finally:
            self._raises = True

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._told("the job is ending already, and its results are kept")
            return
        self.number = number
        if self._raises:
            raise InterruptedJob
