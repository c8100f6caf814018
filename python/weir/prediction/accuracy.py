"""How right a prediction was."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir.tracing.records import Creation

SIZE_TOLERANCE = 0.01
"""A size is right within this part of what it came to be."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A prediction beside what came, by the names of the files."""

    right: int
    """Name exact and size within `SIZE_TOLERANCE`."""
    wrong_size: int
    """Name exact, size not."""
    missed: int
    """Came and were not predicted."""
    invented: int
    """Were predicted and did not come."""

    @property
    def fraction(self) -> float:
        """Right ones among all that came or were predicted; 1 where nothing came and nothing was predicted."""
        union = self.right + self.wrong_size + self.missed + self.invented
        return self.right / union if union else 1.0


def accuracy(predicted: Iterable[Creation], came: Iterable[Creation]) -> Accuracy:
    """Hold a prediction against what came."""
    expected = {creation.path: creation.size_bytes for creation in predicted}
    actual = {creation.path: creation.size_bytes for creation in came}
    both = expected.keys() & actual.keys()
    right = sum(abs(expected[path] - actual[path]) <= SIZE_TOLERANCE * actual[path] for path in both)
    return Accuracy(right, len(both) - right, len(actual) - len(both), len(expected) - len(both))
