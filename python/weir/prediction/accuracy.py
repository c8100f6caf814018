"""The accuracy of a prediction."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir.tracing.records import Creation

SIZE_TOLERANCE = 0.01
"""Part of the real size within which a predicted size is right."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A prediction beside the real creations, compared by the last names of the files."""

    right: int
    """Files with an exact name and a size within `SIZE_TOLERANCE`."""
    wrong_size: int
    """Files with an exact name and another size."""
    missed: int
    """Files that were created, and not predicted."""
    invented: int
    """Files that were predicted, and not created."""

    @property
    def fraction(self) -> float:
        """Right files among all created or predicted files; 1 where nothing was created and nothing predicted."""
        union = self.right + self.wrong_size + self.missed + self.invented
        return self.right / union if union else 1.0


def accuracy(predicted: Iterable[Creation], came: Iterable[Creation]) -> Accuracy:
    """Compare a prediction with the real creations.

    Returns:
        The counts of right, wrong, missed and invented files.
    """
    expected = {creation.name: creation.size_bytes for creation in predicted}
    actual = {creation.name: creation.size_bytes for creation in came}
    both = expected.keys() & actual.keys()
    right = sum(abs(expected[path] - actual[path]) <= SIZE_TOLERANCE * actual[path] for path in both)
    return Accuracy(right, len(both) - right, len(actual) - len(both), len(expected) - len(both))
