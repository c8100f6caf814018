"""Fits beside the program that reads: no step waits for what the forecasts learn from the one before."""

import threading
from collections import deque
from time import monotonic

from weir.prediction.bandwidth.forecast import Forecast, Forecaster, NothingObservedError

_PENDING_MAX = 192
"""Steps that are not learnt from yet; more of them would be forgotten anyway."""
FIT_WAIT_SECONDS = 0.004
"""A forecast that is wanted right after a step waits so long for what that step says: most fits take half of it."""
_PAUSE_SECONDS = 0.001
"""In which whoever began the thread goes on: else the interpreter gives the new thread its turn first."""
_REST = 4.0
"""Times as long as the last fit took, in which there is no other: a fifth of a processor is the most that fits take."""


class Background:
    """A forecaster that learns on a thread of its own, which ends when all is learnt. Threads may share it.

    Call `learn` once nothing waits any more: two threads of one interpreter take turns of milliseconds. A forecast is
    from the newest step that was learnt from, which is the last one unless steps follow each other within
    milliseconds; several of these are learnt from together. See `Forecaster`.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        """Learn with `forecaster`, which nobody else may use any longer."""
        self._forecaster = forecaster
        self._outlook = forecaster.outlook
        self._changed = threading.Condition()
        self._pending: deque[tuple[float, float | None]] = deque(maxlen=_PENDING_MAX)
        self._runs = False
        self._learning = False
        self._is_wanted = False
        self._rest_until = 0.0
        self._failure: Exception | None = None

    def observe(self, time: float, value: float | None) -> None:
        """See `Forecaster`; a step that is refused is told by the forecast that follows."""
        with self._changed:
            self._pending.append((time, value))

    def learn(self) -> None:
        """Learn from what was observed, in a moment."""
        with self._changed:
            self._begin()

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        self.settle(FIT_WAIT_SECONDS)
        with self._changed:
            failure, self._failure = self._failure, None
            outlook = self._outlook
        if failure is not None:
            raise failure
        if outlook is None:
            raise NothingObservedError
        return outlook.forecast(time)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until all that was observed is learnt, or so many seconds; whether it is."""
        with self._changed:
            if self._is_settled():
                return True
            self._is_wanted = True
            self._begin()
            self._changed.notify_all()
            if seconds is not None and self._rest_until - monotonic() > seconds:
                return False
            return self._changed.wait_for(self._is_settled, seconds)

    def _is_settled(self) -> bool:
        return not self._pending and not self._learning

    def _begin(self) -> None:
        if self._pending and not self._runs:
            self._runs = True
            # A daemon: nobody needs what is learnt from a program's last step.
            threading.Thread(target=self._learn, name="weir-forecast", daemon=True).start()

    def _learn(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted, _PAUSE_SECONDS)
        while True:
            with self._changed:
                while (rest := self._rest_until - monotonic()) > 0:
                    self._changed.wait(rest)
                if not self._pending:
                    self._runs = self._is_wanted = False
                    return
                steps = list(self._pending)
                self._pending.clear()
                self._learning = True
            begun = monotonic()
            failure: Exception | None = None
            try:
                self._forecaster.observe_all(steps)
            except Exception as error:
                # Told to whoever wants the next forecast: this thread has nobody to tell.
                failure = error
            with self._changed:
                self._outlook = self._forecaster.outlook
                self._failure = failure or self._failure
                self._learning = False
                self._rest_until = monotonic() + _REST * (monotonic() - begun)
                self._changed.notify_all()
