"""The protocol of a forecasting method: a name, and a number for each future time."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from weir.prediction.bandwidth.history import Steps

Prediction = Callable[[float], float]
"""The bandwidth at a time after the fitted steps. A prediction never changes, and costs far less than the fit."""


class Method(ABC):
    """A forecasting method. It may keep results between fits, which come in the order of the steps."""

    name: str

    @abstractmethod
    def fit(self, steps: Steps) -> Prediction | None:
        """Fit steps.

        Args:
            steps: The last steps.

        Returns:
            The prediction for times after them; None where the steps are too few.
        """
