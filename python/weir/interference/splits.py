"""Splits of windows into training and test, from generous to honest.

Windows of one run are close copies of each other, so a random split overstates a model.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.interference.windows import Windows

TEST_FRACTION = 0.2
RANDOM_REPEATS = 3
Split = tuple[NDArray[Any], NDArray[Any]]


def _random(windows: Windows) -> Iterator[Split]:
    generator = np.random.default_rng(0)
    first = round((1 - TEST_FRACTION) * len(windows))
    for _ in range(RANDOM_REPEATS):
        order = generator.permutation(len(windows))
        yield order[:first], order[first:]


def _by_time(windows: Windows) -> Iterator[Split]:
    """The last windows of each run are kept aside."""
    is_test = np.zeros(len(windows), bool)
    for run in np.unique(windows.runs):
        of_run = np.flatnonzero(windows.runs == run)
        of_run = of_run[np.argsort(windows.numbers[of_run], kind="stable")]
        is_test[of_run[round((1 - TEST_FRACTION) * len(of_run)) :]] = True
    yield np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _by_run(windows: Windows) -> Iterator[Split]:
    """Every run is kept aside once, in five groups of runs."""
    runs = np.unique(windows.runs)
    group = {run: place % 5 for place, run in enumerate(runs)}
    groups = np.array([group[run] for run in windows.runs])
    for number in np.unique(groups):
        if (groups != number).any():
            yield np.flatnonzero(groups != number), np.flatnonzero(groups == number)


def _by_workload(windows: Windows) -> Iterator[Split]:
    """Every workload is kept aside once."""
    for workload in np.unique(windows.workloads):
        is_test = windows.workloads == workload
        if not is_test.all():
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)


SPLITS: Mapping[str, Callable[[Windows], Iterator[Split]]] = {
    "random": _random,
    "later in the run": _by_time,
    "other runs": _by_run,
    "other workloads": _by_workload,
}
"""Splits by name: places of the training windows and of the test windows."""
