"""Interference models: the class of a window's slowdown, learned from labelled windows."""

from typing import TYPE_CHECKING, Any, Protocol

from weir.plugins.errors import wrong_answer
from weir.plugins.plugin import Plugin

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Classes = NDArray[numpy.int64]

SUM_TOLERANCE = 1e-3
"""Distance from 1 up to which the probabilities of a window are scaled to it."""


class Windows(Protocol):
    """Windows of jobs with their features, as `weir.interference.estimators.Prepared` has them."""

    @property
    def pooled(self) -> "Floats":
        """What the servers and the job did in each window, shape (windows, features)."""

    @property
    def relative(self) -> "Floats":
        """The same beside the job's own quiet windows; NaN for a job with too few, shape (windows, features)."""

    @property
    def ratios(self) -> "Floats":
        """Ratios that mean the same for any job and server; may have NaN, shape (windows, features)."""

    @property
    def windows(self) -> Any:
        """The windows themselves: their workloads, runs, numbers and counters."""


class InterferenceModel(Protocol):
    """Learns classes of slowdown. Each training makes a new one, with `seed`."""

    def fit(self, windows: Windows, classes: "Classes", count: int) -> None:
        """Learn.

        Args:
            classes: Class of each window, 0 to count - 1: the greater, the more the job was slowed.
            count: Number of classes.
        """

    def probabilities(self, windows: Windows) -> "Floats":
        """Predict.

        Returns:
            Probabilities of the classes, which add up to 1 for each window, shape (windows, classes).
        """


class CheckedModel:
    """A model whose faults name it, and whose probabilities are some. See `InterferenceModel`."""

    def __init__(self, plugin: Plugin, seed: int = 0) -> None:
        """Make the model.

        Args:
            seed: Start of its dice.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.plugin = plugin
        self._made = plugin.make(seed)
        self._count = 0

    def fit(self, windows: Any, classes: "Classes", count: int) -> None:
        """See `InterferenceModel`.

        Raises:
            PluginError: The plug-in fails.
        """
        self._count = count
        self.plugin.call("fit", self._made.fit, windows, classes, count)

    def probabilities(self, windows: Any) -> "Floats":
        """See `InterferenceModel`.

        Raises:
            PluginError: The plug-in fails, or answers no probabilities of this shape.
        """
        import numpy

        found = self.plugin.call("probabilities", self._made.probabilities, windows)
        shape = (len(windows.pooled), self._count)
        try:
            made = numpy.asarray(found, dtype=numpy.float64)
        except (TypeError, ValueError):
            raise self._wrong(f"{type(found).__name__} is no array of numbers") from None
        if made.shape != shape:
            raise self._wrong(f"its shape is {made.shape}, and not (windows, classes) = {shape}")
        # A comparison with NaN is false.
        if not ((made >= 0) & (made <= 1 + SUM_TOLERANCE)).all():
            raise self._wrong("a probability is not from 0 to 1")
        sums = made.sum(1, keepdims=True)
        if not (numpy.abs(sums - 1) <= SUM_TOLERANCE).all():
            worst = float(sums[numpy.abs(sums - 1).argmax(), 0])
            raise self._wrong(f"the probabilities of a window add up to {worst:g}")
        scaled: Floats = made / sums
        return scaled

    def _wrong(self, message: str) -> Exception:
        return wrong_answer(self.plugin, "probabilities", message)
