"""The kernel-based network of the interference paper (section III-C), trained by Adam.

One dense network reads the vector of each server; the outputs of all servers are joined and go through a classifier.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.interference.errors import InterferenceError
from weir.interference.windows import Floats, Windows

KERNEL = (32, 8)
"""Neurons of the two layers that read a server's vector."""
HIDDEN = 32
"""Neurons between the joined outputs and the classes."""
EPOCHS = 60
BATCH = 32
LEARNING_RATE = 2e-3
DECAY = 1e-4
"""Part of the weights that a step takes away."""
_BETAS = (0.9, 0.999)


@dataclass
class KernelNetwork:
    """The network, for the number of servers of its training."""

    classes: int
    seed: int = 0
    _weights: list[Floats] = field(default_factory=list, repr=False)
    _mean: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    _deviation: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    _servers: int = 0

    def fit(self, windows: Windows, classes: NDArray[np.int64]) -> None:
        """Train with classes of equal weight.

        Args:
            classes: Class of each.
        """
        raw = _vectors(windows)
        self._servers = raw.shape[1]
        self._mean, self._deviation = raw.mean((0, 1)), np.maximum(raw.std((0, 1)), 1e-9)
        inputs = self._scaled(windows)
        generator = np.random.default_rng(self.seed)
        sizes = ((inputs.shape[2], KERNEL[0]), KERNEL, (KERNEL[1] * self._servers, HIDDEN), (HIDDEN, self.classes))
        self._weights = []
        for before, after in sizes:
            self._weights += [generator.normal(0, np.sqrt(2 / before), (before, after)), np.zeros(after)]
        wanted = np.eye(self.classes)[classes]
        shares = np.bincount(classes, minlength=self.classes)
        costs = (len(classes) / np.maximum(shares, 1) / np.count_nonzero(shares))[classes]
        moments = [(np.zeros_like(each), np.zeros_like(each)) for each in self._weights]
        step = 0
        for _ in range(EPOCHS):
            order = generator.permutation(len(inputs))
            for first in range(0, len(order), BATCH):
                batch = order[first : first + BATCH]
                step += 1
                gradients = self._gradients(inputs[batch], wanted[batch], costs[batch])
                self._step(gradients, moments, step)

    def probabilities(self, windows: Windows) -> Floats:
        """Probabilities of the classes.

        Args:
            windows: Windows on as many servers as in training.

        Returns:
            Shape (windows, classes).

        Raises:
            InterferenceError: The number of servers is another one.
        """
        if windows.present.shape[1] != self._servers:
            raise InterferenceError(
                f"the network was trained with {self._servers} servers, and there are {windows.present.shape[1]}",
                hint="pooled trees take any number of servers",
            )
        return _softmax(self._forward(self._scaled(windows))[-1])

    def numbers(self) -> dict[str, Any]:
        """The network as numbers.

        Returns:
            Scales and layers, for JSON.
        """
        layers = zip(self._weights[::2], self._weights[1::2], strict=True)
        return {
            "servers": self._servers,
            "mean": self._mean.tolist(),
            "deviation": self._deviation.tolist(),
            "layers": [{"weights": weights.tolist(), "offsets": offsets.tolist()} for weights, offsets in layers],
        }

    def _scaled(self, windows: Windows) -> Floats:
        scaled: Floats = (_vectors(windows) - self._mean) / self._deviation
        return scaled

    def _forward(self, inputs: Floats) -> list[Floats]:
        """Outputs of each layer, the first the inputs, the last before the softmax."""
        first, first_offset, second, second_offset, third, third_offset, last, last_offset = self._weights
        one = np.maximum(inputs @ first + first_offset, 0)
        two = np.maximum(one @ second + second_offset, 0)
        joined = two.reshape(len(inputs), -1)
        three = np.maximum(joined @ third + third_offset, 0)
        return [inputs, one, two, joined, three, three @ last + last_offset]

    def _gradients(self, inputs: Floats, wanted: Floats, costs: Floats) -> list[Floats]:
        _, second, third, last = self._weights[0], self._weights[2], self._weights[4], self._weights[6]
        inputs, one, two, joined, three, out = self._forward(inputs)
        of_out = (_softmax(out) - wanted) * costs[:, None] / len(inputs)
        of_three = (of_out @ last.T) * (three > 0)
        of_two = (of_three @ third.T).reshape(two.shape) * (two > 0)
        of_one = (of_two @ second.T) * (one > 0)
        return [
            np.einsum("wsi,wso->io", inputs, of_one),
            of_one.sum((0, 1)),
            np.einsum("wsi,wso->io", one, of_two),
            of_two.sum((0, 1)),
            joined.T @ of_three,
            of_three.sum(0),
            three.T @ of_out,
            of_out.sum(0),
        ]

    def _step(self, gradients: list[Floats], moments: list[tuple[Floats, Floats]], step: int) -> None:
        for place, (weights, gradient) in enumerate(zip(self._weights, gradients, strict=True)):
            mean, square = moments[place]
            mean = _BETAS[0] * mean + (1 - _BETAS[0]) * gradient
            square = _BETAS[1] * square + (1 - _BETAS[1]) * gradient**2
            moments[place] = (mean, square)
            unbiased = mean / (1 - _BETAS[0] ** step), square / (1 - _BETAS[1] ** step)
            self._weights[place] = weights * (1 - DECAY) - LEARNING_RATE * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)


def _vectors(windows: Windows) -> Floats:
    """The vector of each server: the job's counts and rates there, and the counters, on a logarithmic scale."""
    rates = windows.client / np.maximum(windows.io_seconds, 1e-9)[:, None, None]
    joined = np.concatenate([windows.client, rates, windows.server], axis=2)
    vectors: Floats = np.log1p(np.maximum(joined, 0))
    return vectors


def _softmax(out: Floats) -> Floats:
    powers = np.exp(out - out.max(1, keepdims=True))
    made: Floats = powers / powers.sum(1, keepdims=True)
    return made
