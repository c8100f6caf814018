"""Fits beside the reading program: no step waits until the forecasts have learnt from the step before."""

import threading
from collections import deque
from time import monotonic

from weir.prediction.bandwidth.forecast import Forecast, Forecaster, NothingObservedError

_PENDING_MAX = 192
"""Most steps that wait to be learnt; the forecasters would forget further steps in any case."""
FIT_WAIT_SECONDS = 0.004
"""Longest wait of a forecast for the fit of the step before it: most fits take half of this."""
_FIRST_FIT_WAIT_SECONDS = 1.0
"""Longest wait of a forecast for the first fit: a step without a forecast reads everything, which costs more."""
_PAUSE_SECONDS = 0.001
"""Pause in which the caller goes on: without it the interpreter gives the new thread its turn first."""
_REST = 4.0
"""Pause between fits, in times of the last fit: so fits take at most a fifth of a processor."""


class Background:
    """A forecaster that learns on a thread of its own, which ends when all steps are learnt. Threads may share it.

    Call `learn` when nothing waits: two threads of one interpreter take turns of milliseconds. A forecast uses the
    newest learnt step. This is the last step unless steps follow each other within milliseconds; several such steps
    are learnt together. See `Forecaster`.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        """Learn with a forecaster of one's own.

        Args:
            forecaster: The forecaster, which no one else may use from now on.
        """
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
        """See `Forecaster`; the next forecast raises the error of a refused step."""
        with self._changed:
            self._pending.append((time, value))

    def learn(self) -> None:
        """Learn the observed steps on the thread, after a moment."""
        with self._changed:
            self._begin()

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        self.settle(_FIRST_FIT_WAIT_SECONDS if self._outlook is None else FIT_WAIT_SECONDS)
        with self._changed:
            failure, self._failure = self._failure, None
            outlook = self._outlook
        if failure is not None:
            raise failure
        if outlook is None:
            raise NothingObservedError
        return outlook.forecast(time)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until all observed steps are learnt.

        Args:
            seconds: Longest wait; None waits without a limit.

        Returns:
            Whether all steps are learnt.
        """
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
            # A daemon: no forecast needs a program's last step.
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
                # The caller of the next forecast gets the error: this thread has no caller.
                failure = error
            with self._changed:
                self._outlook = self._forecaster.outlook
                self._failure = failure or self._failure
                self._learning = False
                self._rest_until = monotonic() + _REST * (monotonic() - begun)
                self._changed.notify_all()
