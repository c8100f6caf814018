"""Slowdowns as a trained model predicts them, from the last windows of each job."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.guard.observations import Predicted
from weir.interference.collector import joined, owned_jobs_of
from weir.store.predictions import AHEAD, PROBABLE

if TYPE_CHECKING:
    from weir.store.observations import JobKey, Window

WINDOWS_MAX = 30
"""Windows of a job that are kept: its quiet ones are among them."""
_JOBS_MAX = 32
"""Jobs that are predicted, because predictions have to be made within a window. Of further ones the windows tell the
slowdown."""


class Forecast:
    """Predictions of a model for the jobs of a store, those of each user apart."""

    def __init__(self, model: Path) -> None:
        """Load a model.

        Args:
            model: File that `weir interference train` wrote.

        Raises:
            InterferenceError: The file is no model of this version.
        """
        from weir.interference import predictor

        self._model = predictor.load(model)
        self._rows: dict[JobKey, deque[list[dict[str, Any]]]] = {}

    def predict(self, number: int, at_servers: "Sequence[Window]") -> "dict[JobKey, Predicted]":
        """Predict the slowdowns of the jobs of a window.

        Args:
            at_servers: The window at each server.

        Returns:
            The slowdown at which the predicted class begins, by job: the greater one of this window and the next. A job
            that the model does not know is left out.
        """
        from weir.interference import predictor
        from weir.interference.windows import of_rows

        # Users may give their jobs one name, so a run has the number of the user, too.
        present = {f"{job.uid} {job.job}": job for job in owned_jobs_of(at_servers)}
        for run, job in present.items():
            rows = self._rows.pop(job, deque(maxlen=WINDOWS_MAX))
            rows.append(list(joined(number, at_servers, job.job, run, job.job, uid=job.uid).rows))
            self._rows[job] = rows
        while len(self._rows) > _JOBS_MAX:
            del self._rows[next(iter(self._rows))]
        data = [row for job in present.values() for rows in self._rows.get(job, ()) for row in rows]
        if not data:
            return {}
        edges = (1.0, *self._model.bins)
        predicted: dict[JobKey, Predicted] = {}
        for found in predictor.predict(self._model, of_rows(data)):
            if found.window != number or found.ahead > AHEAD or found.by == "not known":
                continue
            best = max(range(len(edges)), key=lambda place: found.probabilities[place])
            if found.probabilities[best] >= PROBABLE:
                job, devices = present[found.run], tuple(each.server for each in found.driven_by if each.server)
                before = predicted.get(job, Predicted(1.0))
                predicted[job] = Predicted(max(before.slowdown, edges[best]), (*before.driven_by, *devices))
        return predicted
