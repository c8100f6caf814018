"""What every way of forecasting has: a name, and a number for each time to come."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from weir.prediction.bandwidth.history import Steps

Prediction = Callable[[float], float]
"""The bandwidth at a time after the steps that were fitted. It never changes, and costs far less than the fit."""


class Method(ABC):
    """A way of forecasting; it may keep what it found between fits, which are in the order of the steps."""

    name: ClassVar[str]

    @abstractmethod
    def fit(self, steps: Steps) -> Prediction | None:
        """What `steps` say of the time after them; None where they are too few."""
