"""A trained predictor: the class of slowdown of a window and of the next ones, in one file of JSON.

Windows of a workload that was in training go to the trees. Others are compared with the job's own quiet windows, and a
job with too few windows for that is "not known".
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from weir.interference import features
from weir.interference.errors import InterferenceError
from weir.interference.estimators import AboveQuiet, Prepared, Trees, prepare
from weir.interference.evaluation import classes_of
from weir.interference.splits import SPLITS
from weir.interference.windows import Floats, Windows

HORIZONS = 4
"""Windows that are predicted: the current one and the next three."""
DRIVERS = 3
"""Features that a prediction names at most."""
MODEL_BYTES_MAX = 1 << 27
"""A larger file is no model of ours."""
Basis = Literal["trees", "above quiet", "not known"]


class Logistic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A logistic regression as numbers."""

    mean: list[float]
    deviation: list[float]
    weights: list[list[float]]
    offsets: list[float]
    classes: list[int]

    def probabilities(self, inputs: Floats, count: int) -> Floats:
        """Apply the regression.

        Args:
            inputs: Shape (windows, inputs).
            count: Number of classes.

        Returns:
            Shape (windows, count).
        """
        weights, offsets = self._full()
        out = self._scaled(inputs) @ weights.T + offsets
        powers = np.exp(out - out.max(1, keepdims=True))
        made = np.zeros((len(inputs), count))
        made[:, self.classes] = powers / powers.sum(1, keepdims=True)
        return made

    def parts(self, inputs: Floats, count: int) -> Floats:
        """Tell how much each input speaks for each class, beside the mean class.

        Args:
            inputs: Shape (windows, inputs).
            count: Number of classes.

        Returns:
            Shape (windows, count, inputs).
        """
        weights, _ = self._full()
        made = np.zeros((len(inputs), count, inputs.shape[1]))
        made[:, self.classes] = self._scaled(inputs)[:, None, :] * (weights - weights.mean(0))
        return made

    def _scaled(self, inputs: Floats) -> Floats:
        scaled: Floats = (inputs - np.asarray(self.mean)) / np.asarray(self.deviation)
        return scaled

    def _full(self) -> tuple[Floats, Floats]:
        """Weights and offsets of each class: with two, a regression has those of the second one alone."""
        weights, offsets = np.asarray(self.weights), np.asarray(self.offsets)
        if len(weights) == 1:
            return np.vstack([np.zeros_like(weights), weights]), np.concatenate([np.zeros(1), offsets])
        return weights, offsets


class Horizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models for one window: the current one, or one of the next."""

    trees: str
    """LightGBM's text form."""
    calibration: Logistic
    """From the logarithms of the trees' probabilities to calibrated ones."""
    above_quiet: Logistic


class Predictor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trained predictor."""

    version: Literal[1] = 1
    """Version of this document."""
    bins: tuple[float, ...]
    """Slowdowns at which a class begins."""
    workloads: tuple[str, ...]
    """Workloads of the training."""
    windows: int
    """Windows of the training."""
    horizons: tuple[Horizon, ...]


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The slowdown of a window."""

    run: str
    workload: str
    window: int
    """The window from which it is predicted."""
    ahead: int
    """0 for that window, 1 for the next one, and so on."""
    by: Basis
    slowdown: str
    """Class of slowdown, such as `below 2` or `2 to 5`; `not known` for a job with too few windows."""
    probability: float
    probabilities: tuple[float, ...]
    """Of each class."""
    driven_by: tuple[str, ...]
    """Features that speak most for this class, the first most of all."""


def train(windows: Windows, bins: tuple[float, ...] = (2.0,), seed: int = 0) -> Predictor:
    """Train a predictor.

    Args:
        windows: Windows; those without a label help to know what is quiet.
        bins: Slowdowns at which a class begins.
        seed: Seed of the trees.

    Returns:
        The predictor.

    Raises:
        InterferenceError: As for `evaluation.classes_of`, or the workloads have too few windows to know what is quiet.
    """
    data = prepare(windows)
    if np.isnan(data.relative).any(1).all():
        raise InterferenceError(
            f"no workload has {features.WINDOWS_MIN} windows", hint="collect more windows of each workload"
        )
    horizons = tuple(_horizon(data, ahead, bins, seed) for ahead in range(HORIZONS))
    known = tuple(np.unique(windows.labelled().workloads).tolist())
    return Predictor(bins=bins, workloads=known, windows=len(windows.labelled()), horizons=horizons)


def _horizon(data: Prepared, ahead: int, bins: tuple[float, ...], seed: int) -> Horizon:
    labels = _labels_ahead(data.windows, ahead)
    has_label = ~np.isnan(labels)
    if not has_label.any():
        raise InterferenceError(f"no window has a label {ahead} windows later")
    data = data.take(has_label)
    classes = classes_of(replace(data.windows, slowdowns=labels[has_label]), bins)
    count = len(bins) + 1
    trees, above_quiet = Trees(seed), AboveQuiet()
    trees.fit(data, classes, count)
    above_quiet.fit(data, classes, count)
    return Horizon(
        trees=trees.text(),
        calibration=_calibration(data, classes, count, seed),
        above_quiet=Logistic(**above_quiet.numbers()),
    )


def _labels_ahead(windows: Windows, ahead: int) -> Floats:
    """The label of the window that many places later in the run, NaN where there is none."""
    labels = np.full(len(windows), np.nan)
    place = {
        (run, number): index for index, (run, number) in enumerate(zip(windows.runs, windows.numbers, strict=True))
    }
    for index, (run, number) in enumerate(zip(windows.runs, windows.numbers, strict=True)):
        later = place.get((run, number + ahead))
        if later is not None:
            labels[index] = windows.slowdowns[later]
    return labels


def _calibration(data: Prepared, classes: np.ndarray, count: int, seed: int) -> Logistic:
    """Learn from windows of runs that the trees did not see; of one run alone, from its windows at random."""
    from sklearn.linear_model import LogisticRegression

    several = len(np.unique(data.windows.runs)) > 1
    inputs, wanted = [], []
    for training, test in SPLITS["other runs" if several else "random"](data.windows):
        if len(np.unique(classes[training])) == len(np.unique(classes)):
            trees = Trees(seed)
            trees.fit(data.take(training), classes[training], count)
            inputs.append(_logarithms(trees.probabilities(data.take(test))))
            wanted.append(classes[test])
    if not inputs or len(np.unique(np.concatenate(wanted))) < 2:
        raise InterferenceError("too few windows of each class to calibrate", hint="collect more runs")
    model = LogisticRegression(max_iter=1000).fit(np.concatenate(inputs), np.concatenate(wanted))
    return Logistic(
        mean=[0.0] * count,
        deviation=[1.0] * count,
        weights=model.coef_.tolist(),
        offsets=model.intercept_.tolist(),
        classes=model.classes_.tolist(),
    )


def _logarithms(probabilities: Floats) -> Floats:
    made: Floats = np.log(np.clip(probabilities, 1e-6, 1.0))
    return made


def predict(predictor: Predictor, windows: Windows) -> list[Prediction]:
    """Predict the slowdown of windows and of those after them.

    Args:
        predictor: The predictor.
        windows: The windows; each workload's are compared among themselves.

    Returns:
        `HORIZONS` predictions for each window, in the windows' order.

    Raises:
        InterferenceError: The predictor's trees cannot be read.
    """
    data = prepare(windows)
    of_horizons = [_Views.of(horizon, data, len(predictor.bins) + 1) for horizon in predictor.horizons]
    is_trained = [workload in predictor.workloads for workload in windows.workloads.tolist()]
    is_comparable = [not np.isnan(row).any() for row in data.relative]
    made = []
    for index in range(len(windows)):
        for ahead, views in enumerate(of_horizons):
            basis: Basis = "above quiet" if is_comparable[index] else "not known"
            if is_trained[index]:
                basis = "trees"
            probabilities, driven = views.look(index, basis)
            best = int(probabilities.argmax())
            made.append(
                Prediction(
                    run=str(windows.runs[index]),
                    workload=str(windows.workloads[index]),
                    window=int(windows.numbers[index]),
                    ahead=ahead,
                    by=basis,
                    slowdown=basis if basis == "not known" else class_names(predictor.bins)[best],
                    probability=float(probabilities[best]),
                    probabilities=tuple(probabilities.tolist()),
                    driven_by=driven,
                )
            )
    return made


@dataclass(frozen=True)
class _Views:
    """Probabilities of all windows by both models, and the features' parts: shape (windows, classes, features)."""

    trees: Floats
    trees_parts: Floats
    quiet: Floats
    quiet_parts: Floats
    names: tuple[list[str], list[str]]

    @staticmethod
    def of(horizon: Horizon, data: Prepared, count: int) -> "_Views":
        import lightgbm

        try:
            booster = lightgbm.Booster(model_str=horizon.trees)
            raw = np.asarray(booster.predict(data.pooled, num_threads=1))
            parts = np.asarray(booster.predict(data.pooled, pred_contrib=True, num_threads=1))
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise InterferenceError(f"the model's trees cannot be read: {error}", hint="train it anew") from error
        # The last part of each class is its mean over the training.
        parts = parts.reshape(len(raw), count, -1)[:, :, :-1]
        relative = np.nan_to_num(data.relative)
        names = list(features.pooled(data.windows)), list(features.relative(data.windows))
        quiet = horizon.above_quiet
        trees = horizon.calibration.probabilities(_logarithms(raw), count)
        return _Views(trees, parts, quiet.probabilities(relative, count), quiet.parts(relative, count), names)

    def look(self, index: int, basis: Basis) -> tuple[Floats, tuple[str, ...]]:
        """Probabilities of a window, and the features that speak for the likeliest class."""
        if basis == "not known":
            count = self.trees.shape[1]
            return np.full(count, 1 / count), ()
        by_trees = basis == "trees"
        probabilities = (self.trees if by_trees else self.quiet)[index]
        parts = (self.trees_parts if by_trees else self.quiet_parts)[index, int(probabilities.argmax())]
        names = self.names[0 if by_trees else 1]
        strongest = np.argsort(-parts)[:DRIVERS]
        return probabilities, tuple(names[place] for place in strongest if parts[place] > 0)


def class_names(bins: tuple[float, ...]) -> list[str]:
    """Name the classes.

    Args:
        bins: Slowdowns at which a class begins.

    Returns:
        Such as `below 2`, `2 to 5`, `from 5`.
    """
    middle = [f"{low:g} to {high:g}" for low, high in pairwise(bins)]
    return [f"below {bins[0]:g}", *middle, f"from {bins[-1]:g}"]


def save(predictor: Predictor, path: Path) -> None:
    """Write a predictor.

    Args:
        predictor: The predictor.
        path: The file, which is replaced.
    """
    path.write_bytes(msgspec.json.encode(predictor))


def load(path: Path) -> Predictor:
    """Read a predictor.

    Args:
        path: The file.

    Returns:
        The predictor.

    Raises:
        InterferenceError: The file is no predictor of this version.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MODEL_BYTES_MAX + 1)
    except OSError as error:
        raise InterferenceError(f"{path}: {error.strerror}") from error
    try:
        if len(content) > MODEL_BYTES_MAX:
            raise ValueError(f"it has more than {MODEL_BYTES_MAX} bytes")
        return msgspec.json.decode(content, type=Predictor)
    except (msgspec.DecodeError, ValueError) as error:
        raise InterferenceError(
            f"{path} is no predictor of version 1: {error}", hint="`weir interference train` makes one"
        ) from error
