"""The time of a native prediction of one window of eight servers, beside LightGBM's own Python predict in the same run.

The model is trained on windows of a simple model of servers, with 200 rounds of trees for three classes and four
horizons, as `weir interference train` makes it. Native times are those of `weir._core` from numpy's columns to classes,
probabilities and drivers of the window and of the three after it; LightGBM gets the features for nothing and answers
the probabilities of its trees alone. Native and rival predictions take turns.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import windows as synthetic  # It stands in tests/.

SERVERS = 8
HISTORY = 300
"""Windows with which an unfamiliar job is compared: as many as `weir interference serve` keeps."""
ROUNDS = 200
LIMIT_MS = 1.0


def measure(directory: Path) -> Mapping[str, float | None]:
    """Time predictions.

    Args:
        directory: A fresh directory, which is not used.

    Returns:
        Medians: `predict_ms` for a job of the training with one window, `predict_unfamiliar_ms` for another job with
        its history, and `predict_lightgbm_ms` of the rival.
    """
    import lightgbm
    from weir.interference import capacity, features, predictor
    from weir.interference.windows import Windows

    synthetic.TARGETS = SERVERS - 1
    trained = synthetic.made(1)
    made = predictor.train(trained, (2.0, 5.0))
    model = predictor.native(made)
    boosters = [lightgbm.Booster(model_str=horizon.trees) for horizon in made.horizons]
    every = synthetic.made(2, ("writer",), windows=HISTORY // 2)
    one: Windows = every.take(np.array([7]))
    pooled, _, _ = features.of_windows(one, capacity.costs(one))

    def native() -> object:
        return predictor.predictions(model, "writer", one)

    def unfamiliar() -> object:
        return predictor.predictions(model, "stranger", every, len(every) - 1)

    def rival() -> object:
        return [booster.predict(pooled, num_threads=1) for booster in boosters]

    ways: dict[str, Callable[[], object]] = {
        "predict_ms": native,
        "predict_unfamiliar_ms": unfamiliar,
        "predict_lightgbm_ms": rival,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - began) * 1e3)
    found: dict[str, float | None] = {name: median(each) for name, each in times.items()}
    assert one.present.shape[1] == SERVERS
    print(
        f"one window of {SERVERS} servers, four horizons: native {found['predict_ms']:.3f} ms "
        f"(limit {LIMIT_MS:g} ms), LightGBM's predict {found['predict_lightgbm_ms']:.3f} ms; "
        f"an unfamiliar job with {len(every)} windows: native {found['predict_unfamiliar_ms']:.3f} ms"
    )
    return found


if __name__ == "__main__":
    measure(Path())
