"""Estimators of the class of a window's slowdown, in one shape: baselines, learners, a comparison with quiet ones."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.interference import capacity, features
from weir.interference.network import KernelNetwork
from weir.interference.windows import Floats, Windows, chained
from weir.plugins import INTERFERENCE_MODEL, named

Classes = NDArray[np.int64]


@dataclass(frozen=True)
class Prepared:
    """Windows and their features."""

    windows: Windows
    pooled: Floats
    relative: Floats
    ratios: Floats

    def take(self, chosen: NDArray[Any]) -> "Prepared":
        """Choose windows.

        Args:
            chosen: A mask, or places.

        Returns:
            The chosen windows with their features.
        """
        return Prepared(self.windows.take(chosen), self.pooled[chosen], self.relative[chosen], self.ratios[chosen])

    def with_more(self, more: "Prepared") -> "Prepared":
        """Put other windows behind these.

        Args:
            more: Windows with features of their own: no workload here is compared with one there.

        Returns:
            The windows of both.
        """
        pairs = ((self.pooled, more.pooled), (self.relative, more.relative), (self.ratios, more.ratios))
        return Prepared(chained([self.windows, more.windows]), *(np.concatenate(pair) for pair in pairs))


def prepare(windows: Windows) -> Prepared:
    """Compute all features.

    Args:
        windows: The windows; those of a workload are compared among themselves.

    Returns:
        The windows with their features.
    """
    return Prepared(windows, *features.of_windows(windows, capacity.costs(windows)))


class Estimator(Protocol):
    """A model that learns classes from windows."""

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """Learn.

        Args:
            data: Windows with their features.
            classes: Class of each window.
            count: Number of classes.
        """

    def probabilities(self, data: Prepared) -> Floats:
        """Predict.

        Args:
            data: Windows with their features.

        Returns:
            Probabilities of the classes, shape (windows, classes).
        """


class Majority:
    """Always the most frequent class."""

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Count the classes."""
        self._shares = np.bincount(classes, minlength=count) / len(classes)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. The shares of the classes, for every window."""
        return np.tile(self._shares, (len(data.windows), 1))


class LastWindow:
    """The class of the run's last window, which is known in truth: a bound for whoever expects no change."""

    def __init__(self, bins: tuple[float, ...]) -> None:
        """Begin untrained.

        Args:
            bins: Slowdowns at which a class begins.
        """
        self._bins = bins

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Keep the shares for windows that are the first of their run."""
        self._count = count
        self._shares = np.bincount(classes, minlength=count) / len(classes)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Certainty of the last window's class."""
        windows = data.windows
        made = np.tile(self._shares, (len(windows), 1))
        order = np.lexsort((windows.numbers, windows.runs))
        for before, window in pairwise(order):
            if windows.runs[before] == windows.runs[window] and not np.isnan(windows.slowdowns[before]):
                made[window] = np.eye(self._count)[np.searchsorted(self._bins, windows.slowdowns[before], "right")]
        return made


@dataclass
class Trees:
    """Gradient boosting on one kind of features (LightGBM)."""

    seed: int = 0
    inputs: Literal["pooled", "ratios"] = "pooled"
    """Ratios mean the same for any job and server, and pooled features suit jobs of the training alone."""
    rounds: int = 200
    """Rounds of boosting, each of one tree for each class."""
    _booster: Any = field(default=None, repr=False)

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Boost."""
        import lightgbm

        settings = {
            "objective": "multiclass",
            "num_class": count,
            "num_leaves": 15,
            "learning_rate": 0.05,
            "min_data_in_leaf": 10,
            "feature_fraction": 0.5,
            "seed": self.seed,
            "num_threads": 1,
            "deterministic": True,
            "verbose": -1,
        }
        self._booster = lightgbm.train(
            settings, lightgbm.Dataset(self._chosen(data), classes), num_boost_round=self.rounds
        )

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Mean leaves."""
        made: Floats = self._booster.predict(self._chosen(data), num_threads=1)
        return made

    def _chosen(self, data: Prepared) -> Floats:
        return data.pooled if self.inputs == "pooled" else data.ratios

    def text(self) -> str:
        """The model in LightGBM's text form."""
        return str(self._booster.model_to_string())


@dataclass
class Forest:
    """Extremely randomised trees on pooled features (scikit-learn)."""

    seed: int = 0
    _forest: Any = field(default=None, repr=False)
    _count: int = 0

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Grow."""
        from sklearn.ensemble import ExtraTreesClassifier

        self._count = count
        self._forest = ExtraTreesClassifier(300, min_samples_leaf=2, class_weight="balanced", random_state=self.seed)
        self._forest.fit(data.pooled, classes)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Mean votes."""
        return _spread(self._forest.predict_proba(data.pooled), self._forest.classes_, self._count)


@dataclass
class AboveQuiet:
    """Logistic regression on relative features: the same for any job."""

    _scale: tuple[Floats, Floats] = field(default=(np.empty(0), np.empty(0)), repr=False)
    _model: Any = field(default=None, repr=False)
    _count: int = 0

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Each class of each workload has the same weight: neither the shares of the training nor a
        workload with many windows are a prejudice about others."""
        from sklearn.linear_model import LogisticRegression

        self._count = count
        known = ~np.isnan(data.relative).any(1)
        relative = data.relative[known]
        self._scale = (relative.mean(0), np.maximum(relative.std(0), 1e-9))
        self._model = LogisticRegression(C=0.1, max_iter=1000)
        weights = even_weights(data.windows.workloads[known], classes[known])
        self._model.fit(self._scaled(relative), classes[known], sample_weight=weights)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Logistic probabilities; all classes alike for a job with too few windows."""
        made = np.full((len(data.windows), self._count), 1 / self._count)
        known = ~np.isnan(data.relative).any(1)
        if known.any():
            found = self._model.predict_proba(self._scaled(data.relative[known]))
            made[known] = _spread(found, self._model.classes_, self._count)
        return made

    def _scaled(self, relative: Floats) -> Floats:
        scaled: Floats = (relative - self._scale[0]) / self._scale[1]
        return scaled

    def numbers(self) -> dict[str, Any]:
        """The model as numbers.

        Returns:
            Scales, weights and classes, for JSON.
        """
        return {
            "mean": self._scale[0].tolist(),
            "deviation": self._scale[1].tolist(),
            "weights": self._model.coef_.tolist(),
            "offsets": self._model.intercept_.tolist(),
            "classes": self._model.classes_.tolist(),
        }


@dataclass
class Network:
    """The paper's kernel-based network: one dense network for each server's vector, and a classifier of all outputs."""

    seed: int = 0
    _network: KernelNetwork | None = field(default=None, repr=False)

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Train."""
        self._network = KernelNetwork(count, self.seed)
        self._network.fit(data.windows, classes)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Outputs of the classifier."""
        assert self._network is not None
        return self._network.probabilities(data.windows)


class Gated:
    """Trees for windows like those of training, and a comparison with quiet windows for the others."""

    def __init__(self, seed: int = 0) -> None:
        """Begin with both, untrained.

        Args:
            seed: Seed of the trees.
        """
        self.trees = Trees(seed)
        self.above_quiet = AboveQuiet()

    def fit(self, data: Prepared, classes: Classes, count: int) -> None:
        """See `Estimator`. Fit both, and learn which workloads are known."""
        self.trees.fit(data, classes, count)
        self.above_quiet.fit(data, classes, count)
        self._known = np.unique(data.windows.workloads)

    def probabilities(self, data: Prepared) -> Floats:
        """See `Estimator`. Probabilities of the one or the other."""
        is_known = np.isin(data.windows.workloads, self._known)
        return np.where(is_known[:, None], self.trees.probabilities(data), self.above_quiet.probabilities(data))


def even_weights(workloads: NDArray[np.str_], classes: Classes) -> Floats:
    """Weigh windows so that each class counts the same, and within it each workload.

    Returns:
        Weights with a mean of 1, shape (windows,).
    """
    weights = np.zeros(len(classes))
    for number in np.unique(classes):
        of_class = classes == number
        _, group, counts = np.unique(workloads[of_class], return_inverse=True, return_counts=True)
        weights[of_class] = 1 / (counts[group] * len(counts))
    made: Floats = weights * len(weights) / weights.sum()
    return made


def _spread(found: Floats, classes: NDArray[Any], count: int) -> Floats:
    """Probabilities of the classes that training had, as those of all."""
    made = np.zeros((len(found), count))
    made[:, classes] = found
    return made


def estimator_named(name: str, bins: tuple[float, ...]) -> Estimator:
    """Make an estimator, untrained.

    Args:
        name: A name of `estimators`, or the name or place of a plug-in of the kind `interference model`.
        bins: Slowdowns at which a class begins.

    Raises:
        PluginError: There is no such estimator, or the plug-in cannot be loaded or made.
    """
    makers = estimators(bins)
    if name in makers:
        return makers[name]()
    from weir.plugins.interference_model import CheckedModel

    return CheckedModel(named(INTERFERENCE_MODEL, name, makers))


def estimators(bins: tuple[float, ...]) -> Mapping[str, Callable[[], Estimator]]:
    """All estimators by name; the first two are baselines.

    Args:
        bins: Slowdowns at which a class begins.

    Returns:
        Makers of estimators.
    """
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    return {
        "majority": Majority,
        "last window": lambda: LastWindow(bins),
        "network": Network,
        "forest": Forest,
        "trees": Trees,
        "ratio trees": lambda: Trees(inputs="ratios"),
        "above quiet": AboveQuiet,
        "gated": Gated,
    }
