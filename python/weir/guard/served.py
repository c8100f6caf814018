"""Slowdowns as the servers show them, where `weir interference serve` predicts for the store.

The types have the fields of `/v1/interference` that the guard reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.guard.forecast import AHEAD, PROBABLE
from weir.store.control import Request, ask_all
from weir.store.errors import StoreError

if TYPE_CHECKING:
    from weir.store.control import Server
    from weir.store.observations import Window

_AGE_MAX = 2
"""Older predictions, in windows, say nothing about the present one."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The predicted slowdown in one window."""

    ahead: int
    """0 for the window itself, 1 for the next one."""
    slowdown: str
    """Class of slowdown: `below 2`, `2 to 5`, `from 5`, or `not known`."""
    probability: float
    """Probability of the class."""


@dataclass(frozen=True, slots=True)
class JobPredictions:
    """The predictions of a job."""

    job: str
    """Name of the job."""
    horizons: tuple[Horizon, ...]
    """The window itself, and the next ones."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions of the last window that was predicted."""

    window: int
    """Number of the window; 0 where nobody predicts."""
    jobs: tuple[JobPredictions, ...]
    """The jobs."""


_PREDICTIONS = Request("GET", "/v1/interference", Predictions, "Shows predictions of slowdown.", is_private=True)


class Served:
    """Predictions that the servers of a store show."""

    def __init__(self, find: "Callable[[], Sequence[Server]]", token: str) -> None:
        """Take a store.

        Args:
            find: Finds the servers there are now.
            token: Token of the site's key.
        """
        self._find = find
        self._token = token

    def predict(self, number: int, _at_servers: "Sequence[Window]") -> dict[str, float]:
        """Ask for the slowdowns of the jobs of a window.

        Args:
            number: Number of the window.
            _at_servers: The window at each server, which the predictions know already.

        Returns:
            The slowdown at which the predicted class begins, by the name of the job; none where nobody predicts.
        """
        answers = ask_all(list(self._find()), lambda server: server.ask(_PREDICTIONS, token=self._token))
        told = [answer for answer in answers if not isinstance(answer, StoreError)]
        newest = max(told, key=lambda predictions: predictions.window, default=None)
        return {} if newest is None else slowdowns_of(newest, number)


def slowdowns_of(predictions: Predictions, number: int) -> dict[str, float]:
    """The slowdowns that predictions tell of a window.

    Args:
        predictions: The predictions.
        number: Number of the window.

    Returns:
        The slowdown at which the predicted class begins, by the name of the job: the greater one of the window and the
        next. A job whose class is not known, or improbable, is left out.
    """
    if predictions.window < number - _AGE_MAX:
        return {}
    slowdowns: dict[str, float] = {}
    for job in predictions.jobs:
        for horizon in job.horizons:
            edge = _edge(horizon.slowdown)
            if edge is not None and horizon.ahead <= AHEAD and horizon.probability >= PROBABLE:
                slowdowns[job.job] = max(slowdowns.get(job.job, 1.0), edge)
    return slowdowns


def _edge(name: str) -> float | None:
    """The slowdown at which a class begins."""
    words = name.split()
    if words[:1] == ["below"]:
        return 1.0
    try:
        return float(words[1] if words[:1] == ["from"] else words[0])
    except (IndexError, ValueError):
        return None
