"""What every way of forecasting has: a name, and a number for a time."""

from abc import ABC, abstractmethod
from typing import ClassVar

from weir.prediction.bandwidth.history import Steps


class Method(ABC):
    """A way of forecasting; it may keep what it found between calls, which then are in the order of the steps."""

    name: ClassVar[str]

    @abstractmethod
    def predict(self, steps: Steps, time: float) -> float | None:
        """The bandwidth at `time`, which is after the steps; None where it knows too little of them."""
