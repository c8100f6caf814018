"""The accuracy of a prediction."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir.tracing.records import Creation

SIZE_TOLERANCE = 0.01
"""A predicted size is right within this part of the real size."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A prediction beside the real creations, compared by the names of the files."""

    right: int
    """Name exact and size within `SIZE_TOLERANCE`."""
    wrong_size: int
    """Name exact, size not."""
    missed: int
    """Created, and not predicted."""
    invented: int
    """Predicted, and not created."""

    @property
    def fraction(self) -> float:
        """Right files among all created or predicted files; 1 where nothing was created and nothing predicted."""
        union = self.right + self.wrong_size + self.missed + self.invented
        return self.right / union if union else 1.0


def accuracy(predicted: Iterable[Creation], came: Iterable[Creation]) -> Accuracy:
    """Compare a prediction with the real creations."""
    expected = {creation.path: creation.size_bytes for creation in predicted}
    actual = {creation.path: creation.size_bytes for creation in came}
    both = expected.keys() & actual.keys()
    right = sum(abs(expected[path] - actual[path]) <= SIZE_TOLERANCE * actual[path] for path in both)
    return Accuracy(right, len(both) - right, len(actual) - len(both), len(expected) - len(both))
