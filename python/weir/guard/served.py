"""Slowdowns as the servers show them, where `weir interference serve` predicts for the store."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weir.guard.observations import Predicted
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError
from weir.store.observations import JobKey
from weir.store.predictions import likely_slowdown

if TYPE_CHECKING:
    from weir.store.observations import Window
    from weir.store.predictions import Predictions

_AGE_MAX = 2
"""Older predictions, in windows, say nothing about the present one."""


class Served:
    """Predictions that the servers of a store show."""

    def __init__(self, find: "Callable[[], Sequence[Server]]") -> None:
        """Take a store.

        Args:
            find: Finds the servers there are now.
        """
        self._find = find

    def predict(self, number: int, _at_servers: "Sequence[Window]") -> dict[JobKey, Predicted]:
        """Ask for the slowdowns of the jobs of a window.

        Args:
            _at_servers: The window at each server, which the predictions know already.

        Returns:
            The slowdown at which the predicted class begins, by job; none where nobody predicts.
        """
        answers = ask_all(list(self._find()), Server.interference)
        told = [answer for answer in answers if not isinstance(answer, StoreError)]
        newest = max(told, key=lambda predictions: predictions.window, default=None)
        return {} if newest is None else predicted_of(newest, number)


def predicted_of(predictions: "Predictions", number: int) -> dict[JobKey, Predicted]:
    """The slowdowns that predictions tell of a window.

    Returns:
        The slowdown at which the predicted class begins, by job: the greater one of the window and the next. A job
        whose class is not known, or improbable, is left out.
    """
    if predictions.window < number - _AGE_MAX:
        return {}
    found: dict[JobKey, Predicted] = {}
    for job in predictions.jobs:
        likely = likely_slowdown(job.horizons)
        if likely is not None:
            devices = tuple(driver.server for driver in job.driven_by if driver.server)
            found[JobKey(job.job, job.uid)] = Predicted(likely, devices)
    return found
