"""Fits beside the program that reads: no step waits for what the forecasts learn from the one before."""

import threading
from collections import deque
from time import monotonic

from weir.prediction.bandwidth.forecast import Forecast, Forecaster, NothingObservedError

_PENDING_MAX = 4
"""Steps that are not learnt from yet; where they come faster than that, observing one waits."""
FIT_WAIT_SECONDS = 0.004
"""A forecast that is wanted right after a step waits so long for what that step says: most fits take half of it."""

_PAUSE_SECONDS = 0.001
"""In which whoever began the thread goes on: else the interpreter gives the new thread its turn first."""


class Background:
    """A forecaster that learns on a thread of its own, which ends when all is learnt. Threads may share it.

    Call `learn` once nothing waits any more: two threads of one interpreter take turns of milliseconds. A forecast is
    from the newest step that was learnt from, which is the last one unless steps follow each other within
    milliseconds. See `Forecaster`.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        """Learn with `forecaster`, which nobody else may use any longer."""
        self._forecaster = forecaster
        self._outlook = forecaster.outlook
        self._changed = threading.Condition()
        self._pending: deque[tuple[float, float | None]] = deque()
        self._runs = False
        self._is_wanted = False
        self._failure: Exception | None = None

    def observe(self, time: float, value: float | None) -> None:
        """See `Forecaster`; a step that is refused is told by the forecast that follows."""
        with self._changed:
            if len(self._pending) >= _PENDING_MAX:
                self._begin()
                self._changed.wait_for(lambda: len(self._pending) < _PENDING_MAX)
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
        until = None if seconds is None else monotonic() + seconds
        with self._changed:
            if not self._pending:
                return True
            self._is_wanted = True
            self._begin()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._pending, None if until is None else until - monotonic())

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
                if not self._pending:
                    self._runs = self._is_wanted = False
                    return
                time, value = self._pending[0]
            failure: Exception | None = None
            try:
                self._forecaster.observe(time, value)
            except Exception as error:
                # Told to whoever wants the next forecast: this thread has nobody to tell.
                failure = error
            with self._changed:
                self._outlook = self._forecaster.outlook
                self._failure = failure or self._failure
                self._pending.popleft()
                self._changed.notify_all()
