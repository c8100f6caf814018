"""Logistic regression of several classes, by gradient descent on standardised features."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS = 400
_RATE = 0.5
_PENALTY = 1e-3
"""Weight of the squared weights in the loss."""


class Windows(Protocol):
    """The field of `weir.plugins.interference_model.Windows` that is looked at."""

    @property
    def pooled(self) -> Floats: ...


class Softmax:
    """Logistic regression on what the servers and the job did; each class counts the same."""

    def __init__(self, seed: int) -> None:
        """It throws no dice."""

    def fit(self, windows: Windows, classes: NDArray[np.int64], count: int) -> None:
        features = np.nan_to_num(windows.pooled)
        self._mean, self._deviation = features.mean(0), np.maximum(features.std(0), 1e-9)
        inputs, wanted = self._inputs(windows), np.eye(count)[classes]
        # Classes that no window has get no weight.
        weights = (1 / np.maximum(wanted.sum(0), 1))[classes][:, None]
        self._weights = np.zeros((inputs.shape[1], count))
        for _ in range(_ROUNDS):
            slope = inputs.T @ (weights * (_softmax(inputs @ self._weights) - wanted)) / count
            self._weights -= _RATE * (slope + _PENALTY * self._weights)

    def probabilities(self, windows: Windows) -> Floats:
        return _softmax(self._inputs(windows) @ self._weights)

    def _inputs(self, windows: Windows) -> Floats:
        scaled = (np.nan_to_num(windows.pooled) - self._mean) / self._deviation
        return np.column_stack([np.clip(scaled, -10, 10), np.ones(len(scaled))])


def _softmax(scores: Floats) -> Floats:
    grown: Any = np.exp(scores - scores.max(1, keepdims=True))
    made: Floats = grown / grown.sum(1, keepdims=True)
    return made
