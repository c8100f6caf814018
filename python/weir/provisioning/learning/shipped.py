"""The times that the classes which come with Weir tell for a run: a prediction that needs no logs of the site."""

from typing import TYPE_CHECKING, Any

import numpy

from weir.provisioning.behaviour.classes import built_in_costs, scaled
from weir.provisioning.learning.features import TARGETS, WORK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weir.provisioning.learning.dataset import Dataset


class ShippedClasses:
    """The median cost of a unit of work in the nearest class that comes with Weir, times the run's own work."""

    def __init__(self, target: int) -> None:
        """Take the classes that tell a time.

        Args:
            target: Place of the predicted time in `TARGETS`.
        """
        self._target = target
        name = TARGETS[target]
        told = [(scaled(middle), costs[name]) for middle, costs in built_in_costs() if name in costs]
        self._middles = numpy.array([middle for middle, _ in told])
        self._costs = numpy.log([cost for _, cost in told])

    def fit(self, runs: "Dataset", seconds: "NDArray[Any]") -> "ShippedClasses":
        """Learn nothing: the classes are those of other sites.

        Returns:
            This model.
        """
        return self

    def predict(self, runs: "Dataset") -> "NDArray[Any]":
        """Predict times.

        Returns:
            Logarithms of seconds.
        """
        distances = numpy.stack([((runs.scaled - middle) ** 2).mean(axis=1) for middle in self._middles])
        work = runs.features[:, runs.names.index(WORK[self._target])]
        told: NDArray[Any] = self._costs[distances.argmin(axis=0)] + work
        return told
