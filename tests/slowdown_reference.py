"""The reference of native predictions: the same by LightGBM and numpy."""

from typing import Any

import lightgbm
import numpy as np
import window_features
from weir.interference.features import columns_of
from weir.interference.logistic import Logistic, logarithms
from weir.interference.predictor import Predictor
from weir.interference.windows import Floats, Windows

TOLERANCE = 1e-9
ROUNDED = 2e-9
"""Ratios are rounded to nine digits, and two that differ in their last bit may be rounded apart."""


def probabilities(predictor: Predictor, windows: Windows) -> tuple[list[list[str]], Floats]:
    """The basis of each window and horizon, and the probabilities, shape (windows, horizons, classes)."""
    pooled, relative = (
        window_features.matrix(of(windows)) for of in (window_features.pooled, window_features.relative)
    )
    count = len(predictor.bins) + 1
    made = np.full((len(windows), len(predictor.horizons), count), 1 / count)
    is_trained = np.isin(windows.workloads, predictor.workloads)
    is_comparable = ~np.isnan(relative).any(1)
    ratios = window_features.matrix(window_features.ratios(windows, predictor.costs))
    for ahead, horizon in enumerate(predictor.horizons):
        calibrated = regression(horizon.calibration, logarithms(boosted(horizon.trees, pooled)), count)
        made[is_trained, ahead] = calibrated[is_trained]
        if predictor.unfamiliar.by == "ratio trees":
            assert horizon.ratio_trees is not None
            raw = boosted(horizon.ratio_trees.trees, ratios)
            unfamiliar = regression(horizon.ratio_trees.calibration, logarithms(raw), count)
        else:
            unfamiliar = regression(horizon.above_quiet, np.nan_to_num(relative), count)
        strange = ~is_trained & is_comparable
        made[strange, ahead] = unfamiliar[strange]
    bases = np.where(is_trained, "trees", np.where(is_comparable, predictor.unfamiliar.by, "not known"))
    return [[str(basis)] * len(predictor.horizons) for basis in bases], made


def boosted(trees: str, inputs: Floats) -> Floats:
    """Probabilities by LightGBM."""
    return np.asarray(lightgbm.Booster(model_str=trees).predict(inputs, num_threads=1))


def regression(logistic: Logistic, inputs: Floats, count: int) -> Floats:
    """Probabilities by a logistic regression."""
    weights, offsets = np.asarray(logistic.weights), np.asarray(logistic.offsets)
    if len(weights) == 1:
        weights, offsets = np.vstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], offsets])
    out = (inputs - np.asarray(logistic.mean)) / np.asarray(logistic.deviation) @ weights.T + offsets
    powers = np.exp(out - out.max(1, keepdims=True))
    made = np.zeros((len(inputs), count))
    made[:, logistic.classes] = powers / powers.sum(1, keepdims=True)
    return made


def assert_alike(predictor: Predictor, windows: Windows) -> None:
    """Hold native features and predictions against the reference, one by one."""
    from weir import _core
    from weir.interference import predictor as predictors

    def ratios(own: Windows) -> dict[str, Floats]:
        return window_features.ratios(own, predictor.costs)

    costs = (predictor.costs.targets, predictor.costs.metadata)
    names_of = ((window_features.pooled, 1e-10), (window_features.relative, 1e-10), (ratios, ROUNDED))
    for workload in np.unique(windows.workloads):
        own = windows.take(windows.workloads == workload)
        found = _core.window_features(own.present.shape[1], columns_of(own), costs)
        for (names, rows), (of, apart) in zip(found, names_of, strict=True):
            wanted = of(own)
            assert names == list(wanted)
            matrix = window_features.matrix(wanted)
            if rows:
                np.testing.assert_allclose(np.array(rows), matrix, rtol=1e-12, atol=apart)
            else:
                assert np.isnan(matrix[:, -1]).all()
    bases, expected = probabilities(predictor, windows)
    made = predictors.predict(predictor, windows)
    assert [each.by for each in made] == [basis for of_window in bases for basis in of_window]
    native: Any = np.array([each.probabilities for each in made]).reshape(expected.shape)
    np.testing.assert_allclose(native, expected, rtol=0, atol=TOLERANCE)
    assert np.array_equal([each.probability for each in made], native.max(2).ravel())
