"""A program that no training had: features that mean the same for any program, and calibration by a few quiet windows.

One workload after the other is left out, of the authors' windows and of a small data set of a store of Weir. The first
20 quiet windows of a run of the program (labelled below 1.1) are no part of any test; those that calibrate use them.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _harness import ROOT, announce
from _interference_authors import WINDOWS
from numpy.typing import NDArray
from weir.interference import quanterference
from weir.interference.estimators import AboveQuiet, Prepared, Trees, prepare
from weir.interference.evaluation import classes_of, mean_f1
from weir.interference.windows import CLIENT, Windows, read

OWN = ROOT / "tests/data/interference/windows.parquet"
CALIBRATING = 20
"""Quiet windows that calibrate a program."""
_QUIET = 1.1
_NEAREST = 5
"""Calibrating windows of the nearest demand that tell the time of a window."""
LEAST = 0.5
"""The limit for the authors' windows."""
BEST = "above quiet"
"""The estimator that is best on the authors' windows among those that stay as they are."""
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class _Data:
    prepared: Prepared
    classes: Numbers
    calibrating: Mapping[str, Numbers]
    """Places of the calibrating windows of each workload."""

    @property
    def workloads(self) -> NDArray[np.str_]:
        return self.prepared.windows.workloads

    def is_tested(self) -> NDArray[np.bool_]:
        tested = np.ones(len(self.classes), bool)
        tested[np.concatenate(list(self.calibrating.values()))] = False
        return tested


def measure(_directory: Path) -> dict[str, float | None]:
    """Evaluate on both data sets; without the authors' windows their figures are null."""
    figures: dict[str, float | None] = {"f1_unseen_workload_authors": None}
    files = sorted(WINDOWS.glob("*/*.json*"))
    if not files:
        print(f"no window of the authors is in {WINDOWS}", file=sys.stderr)
    sets = {"": [OWN]} | ({"_authors": files} if files else {})
    for ending, paths in sets.items():
        windows = read(paths) if paths == [OWN] else quanterference.read_windows(paths)
        data = _data(windows.labelled())
        found = {name: _left_out(data, features(data), make) for name, (features, make) in VARIANTS.items()}
        print(f"\n{'authors' if ending else 'own store'}: {len(data.classes)} windows")
        for name, each in found.items():
            print(f"{name:44} {np.mean(each):.3f}  {' '.join(f'{f1:.2f}' for f1 in each)}", flush=True)
        figures |= {
            f"f1_unseen_{re.sub('[^a-z]+', '_', name)}{ending}": float(np.mean(each)) for name, each in found.items()
        }
        if ending:
            reached = float(np.mean(found[BEST]))
            announce("an unseen program, authors", f"F1 {reached:.3f}", f"{LEAST:.2f}", reached / LEAST)
            figures["f1_unseen_workload_authors"] = reached
    return figures


def _data(windows: Windows) -> _Data:
    order = np.lexsort((windows.numbers, windows.runs))
    is_quiet = windows.slowdowns < _QUIET
    calibrating = {
        str(name): np.array([place for place in order if windows.workloads[place] == name and is_quiet[place]])[
            :CALIBRATING
        ]
        for name in np.unique(windows.workloads)
    }
    return _Data(prepare(windows), classes_of(windows, (2.0,)), calibrating)


def _left_out(data: _Data, features: Floats, make: "Callable[[], AboveQuiet | Trees]") -> list[float]:
    """F1 of each workload by a model of the others."""
    placed = Prepared(data.prepared.windows, features, features, features)
    found, tested = [], data.is_tested()
    for name in np.unique(data.workloads):
        training, test = data.workloads != name, (data.workloads == name) & tested
        if not data.classes[test].any():
            continue
        model = make()
        model.fit(placed.take(training), data.classes[training], 2)
        guessed = model.probabilities(placed.take(test)).argmax(1)
        found.append(mean_f1([(data.classes[test], guessed)], 2))
    return found


def _logarithms(values: Floats) -> Floats:
    made: Floats = np.sign(values) * np.log1p(np.abs(values))
    return made


def _by_workload(data: _Data, values: Floats, change: Callable[[Floats, Floats], Floats]) -> Floats:
    """Change the values of each workload; the second argument has those of its calibrating windows."""
    made = np.zeros_like(values)
    for name, places in data.calibrating.items():
        own = data.workloads == name
        made[own] = change(values[own], values[places])
    return made


def _standard(own: Floats, _calibrating: Floats) -> Floats:
    made: Floats = (own - own.mean(0)) / np.maximum(own.std(0), 1e-6)
    return made


def _ranks(own: Floats, _calibrating: Floats) -> Floats:
    made: Floats = own.argsort(0, kind="stable").argsort(0) / len(own)
    return made


def _over_quiet(own: Floats, calibrating: Floats) -> Floats:
    made: Floats = own - np.median(calibrating, 0)
    return made


def _pooled(data: _Data) -> Floats:
    return _logarithms(data.prepared.pooled)


def _relative(data: _Data) -> Floats:
    return data.prepared.relative


def _ratios(data: _Data) -> Floats:
    return np.nan_to_num(data.prepared.ratios)


def _above_calibrating(data: _Data) -> Floats:
    """The time of a window above that of calibrating windows of like demand, and how like they are."""
    windows = data.prepared.windows
    demand = np.log1p(windows.client.sum(1) / np.where(["bytes" in name for name in CLIENT], 1e3, 1.0))
    seconds = np.log(np.maximum(windows.io_seconds, 1e-9))
    made = np.zeros((len(seconds), 2))
    for name, places in data.calibrating.items():
        own = np.flatnonzero(data.workloads == name)
        scale = np.maximum(demand[own].std(0), 0.1)
        for place in own:
            distances = (((demand[places] - demand[place]) / scale) ** 2).sum(1)
            nearest = np.argsort(distances)[:_NEAREST]
            made[place] = seconds[place] - np.median(seconds[places[nearest]]), np.sqrt(distances[nearest].mean())
    return made


VARIANTS: "Mapping[str, tuple[Callable[[_Data], Floats], Callable[[], AboveQuiet | Trees]]]" = {
    "trees": (_pooled, Trees),
    "trees, standardised": (lambda data: _by_workload(data, _pooled(data), _standard), Trees),
    "trees, ranks": (lambda data: _by_workload(data, _pooled(data), _ranks), Trees),
    "ratio trees": (_ratios, Trees),
    BEST: (_relative, AboveQuiet),
    "above quiet and ranks of ratios": (
        lambda data: np.c_[_relative(data), _by_workload(data, _ratios(data), _ranks)],
        AboveQuiet,
    ),
    "calibrated: trees over quiet": (
        lambda data: np.c_[_by_workload(data, _pooled(data), _over_quiet), _above_calibrating(data)],
        Trees,
    ),
    "calibrated: above its 20 windows": (_above_calibrating, AboveQuiet),
    "calibrated: both kinds of above quiet": (
        lambda data: np.c_[_relative(data), _above_calibrating(data)],
        AboveQuiet,
    ),
}
"""Features, and the estimator that learns from them."""
