"""The reference of native predictions: the same by LightGBM and numpy."""

from typing import Any

import lightgbm
import numpy as np
from weir.interference import features
from weir.interference.estimators import prepare
from weir.interference.predictor import Logistic, Predictor
from weir.interference.windows import Floats, Windows

TOLERANCE = 1e-9


def probabilities(predictor: Predictor, windows: Windows) -> tuple[list[list[str]], Floats]:
    """The basis of each window and horizon, and the probabilities, shape (windows, horizons, classes)."""
    data = prepare(windows)
    count = len(predictor.bins) + 1
    made = np.full((len(windows), len(predictor.horizons), count), 1 / count)
    is_trained = np.isin(windows.workloads, predictor.workloads)
    is_comparable = ~np.isnan(data.relative).any(1)
    for ahead, horizon in enumerate(predictor.horizons):
        raw = np.asarray(lightgbm.Booster(model_str=horizon.trees).predict(data.pooled, num_threads=1))
        calibrated = regression(horizon.calibration, np.log(np.clip(raw, 1e-6, 1.0)), count)
        quiet = regression(horizon.above_quiet, np.nan_to_num(data.relative), count)
        made[is_trained, ahead] = calibrated[is_trained]
        strange = ~is_trained & is_comparable
        made[strange, ahead] = quiet[strange]
    bases = np.where(is_trained, "trees", np.where(is_comparable, "above quiet", "not known"))
    return [[str(basis)] * len(predictor.horizons) for basis in bases], made


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

    names_of = (features.pooled, features.relative)
    for workload in np.unique(windows.workloads):
        own = windows.take(windows.workloads == workload)
        found = _core.window_features(own.present.shape[1], predictors.columns_of(own))
        for (names, rows), of in zip(found, names_of, strict=True):
            wanted = of(own)
            assert names == list(wanted)
            matrix = features.matrix(wanted)
            if rows:
                np.testing.assert_allclose(np.array(rows), matrix, rtol=1e-12, atol=1e-10)
            else:
                assert np.isnan(matrix).all()
    bases, expected = probabilities(predictor, windows)
    made = predictors.predict(predictor, windows)
    assert [each.by for each in made] == [basis for of_window in bases for basis in of_window]
    native: Any = np.array([each.probabilities for each in made]).reshape(expected.shape)
    np.testing.assert_allclose(native, expected, rtol=0, atol=TOLERANCE)
    assert np.array_equal([each.probability for each in made], native.max(2).ravel())
