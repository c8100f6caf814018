"""Classes of behaviour by K-means, in the features that predict times (LuxIO, section III-B, fifth step)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy
from numpy.typing import NDArray

from weir.provisioning.learning.models import calm

SAMPLE_MAX = 10_000
"""Runs by which the number of classes is found: the Davies-Bouldin index compares all of them."""
_STARTS = 4
"""Beginnings of K-means, of which the best counts."""
_NEAR_ELBOW = 2
"""Distance from the elbow within which the Davies-Bouldin index decides."""
_OPENED_MAX = 64
"""Most classes that are opened for runs that are far from all others."""
_FAR_MAX = 2000
"""Runs far from every class among which one is chosen for the middle of the next."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A number of classes, and the worth of K-means with it."""

    classes: int
    inertia: float
    """Sum of the squared distances of runs to their class' middle."""
    davies_bouldin: float
    """Mean over the classes of the likeness to the most similar other class: the less, the better apart."""


@dataclass(frozen=True)
class ClusterTask:
    """K-means with one number of classes."""

    key: str
    table: NDArray[Any]
    classes: int
    seed: int


def normalised(features: NDArray[Any]) -> NDArray[Any]:
    """Put features, whose counts are logarithms already, on scales from 0 to 1.

    Args:
        features: A row for each run.

    Returns:
        The scaled features, without those that are the same for all runs.
    """
    low, high = features.min(axis=0), features.max(axis=0)
    varies = high > low
    if not varies.any():
        return numpy.zeros((len(features), 1), dtype=features.dtype)
    scaled: NDArray[Any] = (features[:, varies] - low[varies]) / (high[varies] - low[varies])
    return scaled


def clustered(task: ClusterTask, is_wanted: Callable[[], bool]) -> Point:
    """Cluster runs and judge the clusters.

    Args:
        task: The runs and the number of classes.
        is_wanted: Whether the answer is still wanted.

    Returns:
        The number of classes with its worth.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import davies_bouldin_score

    with calm():
        found = KMeans(task.classes, n_init=_STARTS, random_state=task.seed).fit(task.table)
        index = float(davies_bouldin_score(task.table, found.labels_))
    return Point(classes=task.classes, inertia=float(found.inertia_), davies_bouldin=index)


def elbow(points: Sequence[Point]) -> int:
    """Find the elbow of the inertia: the number of classes that is furthest below the line between the ends.

    Args:
        points: Worths by rising number of classes.
    """
    first, last = points[0], points[-1]
    span, fall = max(last.classes - first.classes, 1), first.inertia - last.inertia

    def below(point: Point) -> float:
        line = first.inertia - fall * (point.classes - first.classes) / span
        return line - point.inertia

    return max(points, key=lambda point: (below(point), -point.classes)).classes


def chosen(points: Sequence[Point]) -> int:
    """Choose the number of classes: near the elbow, that of the least Davies-Bouldin index.

    Args:
        points: Worths by rising number of classes.
    """
    middle = elbow(points)
    near = [point for point in points if abs(point.classes - middle) <= _NEAR_ELBOW]
    return min(near, key=lambda point: (point.davies_bouldin, point.classes)).classes


def middles(table: NDArray[Any], classes: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cluster all runs.

    Args:
        table: Scaled features, a row for each run.
        classes: Number of classes.
        seed: Seed of the beginnings.

    Returns:
        The row of the run in the middle of each class, and the class of each run.
    """
    from sklearn.cluster import KMeans

    with calm():
        found = KMeans(classes, n_init=_STARTS, random_state=seed).fit(table)
    # One class after the other: a table of all distances would be as large as that of the features.
    rows = []
    for number, centre in enumerate(found.cluster_centers_):
        (own,) = numpy.nonzero(found.labels_ == number)
        if len(own):
            rows.append(int(own[numpy.argmin(((table[own] - centre) ** 2).sum(axis=1))]))
    return numpy.array(rows), found.labels_


def best_fitness(scaled: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find each run's best class by fitness, as `weir.provisioning.behaviour.classes.fitnesses` does.

    Args:
        scaled: The features of fitness, a row for each run.
        rows: Rows of the runs in the middles of classes.

    Returns:
        The place of each run's class in `rows`, and its fitness.
    """
    place = numpy.zeros(len(scaled), dtype=numpy.int64)
    best = numpy.full(len(scaled), -numpy.inf)
    for number, row in enumerate(rows):
        fitness = 1.0 - numpy.sqrt(((scaled - scaled[row]) ** 2).mean(axis=1))
        is_better = fitness > best
        place[is_better], best[is_better] = number, fitness[is_better]
    return place, best


def opened(scaled: NDArray[Any], rows: NDArray[Any], fitness_min: float) -> NDArray[Any]:
    """Open classes for runs that are too far from every class.

    The run with the most others near it becomes the middle of the next class.

    Args:
        scaled: The features of fitness, a row for each run.
        rows: Rows of the runs in the middles of classes.
        fitness_min: Runs whose best fitness is below are too far.

    Returns:
        Rows of the middles of the new classes.
    """
    _, best = best_fitness(scaled, rows)
    (far,) = numpy.nonzero(best < fitness_min)
    found: list[int] = []
    while len(far) and len(found) < _OPENED_MAX:
        among = far[:: max(len(far) // _FAR_MAX, 1)][:_FAR_MAX]
        near = [int((_fitness(scaled[far], scaled[row]) >= fitness_min).sum()) for row in among]
        row = int(among[int(numpy.argmax(near))])
        found.append(row)
        far = far[_fitness(scaled[far], scaled[row]) < fitness_min]
    return numpy.array(found, dtype=numpy.int64)


def _fitness(scaled: NDArray[Any], to: NDArray[Any]) -> NDArray[Any]:
    fitness: NDArray[Any] = 1.0 - numpy.sqrt(((scaled - to) ** 2).mean(axis=1))
    return fitness
