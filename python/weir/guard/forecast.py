"""Slowdowns as a trained model predicts them, from the last windows of each job."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.interference.collector import jobs_of, joined
from weir.store.predictions import AHEAD, PROBABLE

if TYPE_CHECKING:
    from weir.store.observations import Window

WINDOWS_MAX = 30
"""Windows of a job that are kept: its quiet ones are among them."""
_JOBS_MAX = 32
"""Jobs that are predicted, because predictions have to be made within a window. Of further ones the windows tell the
slowdown."""


class Forecast:
    """Predictions of a model for the jobs of a store."""

    def __init__(self, model: Path) -> None:
        """Load a model.

        Args:
            model: File that `weir interference train` wrote.

        Raises:
            InterferenceError: The file is no model of this version.
        """
        from weir.interference import predictor

        self._model = predictor.load(model)
        self._rows: dict[str, deque[list[dict[str, Any]]]] = {}

    def predict(self, number: int, at_servers: "Sequence[Window]") -> dict[str, float]:
        """Predict the slowdowns of the jobs of a window.

        Args:
            number: Number of the window.
            at_servers: The window at each server.

        Returns:
            The slowdown at which the predicted class begins, by the name of the job: the greater one of this window and
            the next. A job that the model does not know is left out.
        """
        from weir.interference import predictor
        from weir.interference.windows import of_rows

        present = jobs_of(at_servers)
        for job in present:
            rows = self._rows.pop(job, deque(maxlen=WINDOWS_MAX))
            rows.append(list(joined(number, at_servers, job, job, job).rows))
            self._rows[job] = rows
        while len(self._rows) > _JOBS_MAX:
            del self._rows[next(iter(self._rows))]
        data = [row for job in present for rows in self._rows.get(job, ()) for row in rows]
        if not data:
            return {}
        edges = (1.0, *self._model.bins)
        slowdowns: dict[str, float] = {}
        for found in predictor.predict(self._model, of_rows(data)):
            if found.window != number or found.ahead > AHEAD or found.by == "not known":
                continue
            best = max(range(len(edges)), key=lambda place: found.probabilities[place])
            if found.probabilities[best] >= PROBABLE:
                slowdowns[found.run] = max(slowdowns.get(found.run, 1.0), edges[best])
        return slowdowns
