"""The augmentation-bandwidth plot: the part of the augmentation to read, by bandwidth (figure 7 of the paper)."""

from dataclasses import dataclass

from weir.adaptive.errors import AdaptiveError


@dataclass(frozen=True)
class Plot:
    """A function of the bandwidth: 0 up to `low`, 1 from `high` on, and `k` times the bandwidth plus `b` between them.

    Attributes:
        low: Bandwidth in bytes per second below which the storage is congested, and left alone.
        high: Bandwidth in bytes per second above which everything is read.
        k: Degree of augmentation for each byte per second; by default that of the line from (`low`, 0) to (`high`, 1).
        b: Degree at no bandwidth; by default that of the same line.
    """

    low: float
    high: float
    k: float | None = None
    b: float | None = None

    def __post_init__(self) -> None:
        """Check the plot.

        Raises:
            AdaptiveError: The thresholds are in the wrong order, or the line falls.
        """
        if not 0.0 <= self.low < self.high < float("inf"):
            raise AdaptiveError(
                f"a plot from {self.low:g} to {self.high:g} bytes per second has no rising part",
                hint="the lower threshold is at least 0 and below the higher one",
            )
        if self.k is not None and not 0.0 <= self.k < float("inf"):
            raise AdaptiveError(f"k = {self.k:g} is no slope", hint="more bandwidth means more augmentation: k >= 0")
        if self.b is not None and not abs(self.b) < float("inf"):
            raise AdaptiveError(f"b = {self.b:g} is no number")

    @property
    def slope(self) -> float:
        """Degree for each byte per second (k)."""
        return 1.0 / (self.high - self.low) if self.k is None else self.k

    @property
    def intercept(self) -> float:
        """Degree at no bandwidth (b). A slope alone gives the line that begins at (`low`, 0)."""
        return -self.slope * self.low if self.b is None else self.b

    def degree(self, bandwidth: float) -> float:
        """Evaluate the plot.

        Args:
            bandwidth: Bandwidth in bytes per second.

        Returns:
            Part of the augmentation to read, from 0 to 1.
        """
        if bandwidth <= self.low:
            return 0.0
        if bandwidth >= self.high:
            return 1.0
        return min(max(self.slope * bandwidth + self.intercept, 0.0), 1.0)
