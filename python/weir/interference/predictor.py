"""A trained predictor: the class of slowdown of a window and of the next ones, in one file of JSON.

Windows of a workload that was in training go to the trees. Others go to trees on ratios, or to a comparison with the
job's own quiet windows: the training says which. A job with too few windows for both is "not known". Training is here;
`crates/interference` reads the file and predicts.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from weir.interference import features
from weir.interference.capacity import Costs, costs
from weir.interference.errors import InterferenceError
from weir.interference.estimators import AboveQuiet, Classes, Prepared, Trees, prepare
from weir.interference.evaluation import classes_of
from weir.interference.logistic import Logistic, calibration, numbers
from weir.interference.network import KernelNetwork
from weir.interference.splits import SPLITS
from weir.interference.unfamiliar import Choice, Mask, RatioTrees, choose, folds, ratio_trees
from weir.interference.windows import Floats, Windows
from weir.ways import write_whole

if TYPE_CHECKING:
    from weir._core import SlowdownPredictor

VERSION: Literal[3] = 3
"""Version of model files: those of another one are refused."""
HORIZONS = 4
"""Windows that are predicted: the current one and the next three."""
MODEL_BYTES_MAX = 1 << 27
"""A larger file is no model of ours."""
GENERAL = Path(__file__).with_name("general.json")
"""The general model that ships. `docs/reference/interference-data.md` says from which windows it is made."""
_WORKLOADS_SHOWN_MAX = 5
_TRAIN = "`weir interference train` makes one"
Basis = Literal["trees", "ratio trees", "above quiet", "not known"]


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dense layer of a network."""

    weights: list[list[float]]
    """The weights of each input, one for each output."""
    offsets: list[float]


class Kernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The paper's kernel-based network as numbers."""

    servers: int
    mean: list[float]
    deviation: list[float]
    layers: list[Layer]


class Horizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models for one window: the current one, or one of the next."""

    trees: str
    """LightGBM's text form."""
    calibration: Logistic
    """From the logarithms of the trees' probabilities to calibrated ones."""
    above_quiet: Logistic
    ratio_trees: RatioTrees | None = None
    """The trees of unfamiliar jobs, where the model sends these to them."""
    network: Kernel | None = None


class Predictor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trained predictor."""

    version: Literal[3] = VERSION
    """Version of this document."""
    bins: tuple[float, ...]
    """Slowdowns at which a class begins."""
    workloads: tuple[str, ...]
    """Workloads of the training."""
    windows: int
    """Windows of the training."""
    pooled: tuple[str, ...]
    """Names of the features that the trees read."""
    relative: tuple[str, ...]
    """Names of the features by which a job is compared with its own quiet windows."""
    ratios: tuple[str, ...]
    """Names of the features that the trees for unfamiliar jobs read."""
    costs: Costs
    """Device times of requests of the training's servers, from which ratios are made."""
    unfamiliar: Choice
    """The models for jobs that the training did not have."""
    horizons: tuple[Horizon, ...]


class Driver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature that speaks for a prediction."""

    feature: str
    server: str | None
    """Server that has most of it."""


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
    driven_by: tuple[Driver, ...]
    """Features that speak most for this class, the first most of all."""
    network: tuple[float, ...] | None = None
    """Probabilities by the paper's network, where the model has one for as many servers."""


def train(
    windows: Windows,
    bins: tuple[float, ...] = (2.0,),
    seed: int = 0,
    *,
    with_network: bool = False,
    is_general: bool = False,
) -> Predictor:
    """Train a predictor.

    A general one is small and means the same on any devices: it knows no workload, and compares each job with its own
    quiet windows. A model file has trees for workloads of the training; in a general one no job is sent to them.

    Args:
        windows: Windows; those without a label help to know what is quiet.
        bins: Slowdowns at which a class begins.
        seed: Seed of the trees.
        with_network: Whether to train the paper's network, too.
        is_general: Whether the predictor is for jobs and devices of any kind.

    Raises:
        InterferenceError: As for `evaluation.classes_of`, or the workloads have too few windows to know what is quiet.
    """
    data = prepare(windows)
    if np.isnan(data.relative).any(1).all():
        missing = missing_windows(windows)
        nearest = min(missing, key=lambda workload: missing[workload], default="a workload")
        raise InterferenceError(
            f"no workload has the {features.WINDOWS_MIN} windows that tell what is quiet: {_missing_words(missing)}",
            hint=f"collect {missing.get(nearest, features.WINDOWS_MIN)} more windows of {nearest} at least",
        )
    parts = folds(data)
    chosen, classes = _labelled(data, 0, bins)
    choice = choose(data, parts, chosen, classes, len(bins) + 1, seed, is_general=is_general)
    trees_like = Trees(seed, rounds=1) if is_general else Trees(seed)
    horizons = [_horizon(data, ahead, bins, trees_like, with_network) for ahead in range(HORIZONS)]
    if choice.by == "ratio trees":
        trees = [
            ratio_trees(data, parts, *_labelled(data, ahead, bins), len(bins) + 1, seed) for ahead in range(HORIZONS)
        ]
        if None in trees:
            choice = msgspec.structs.replace(choice, by="above quiet")
        else:
            pairs = zip(horizons, trees, strict=True)
            horizons = [msgspec.structs.replace(horizon, ratio_trees=each) for horizon, each in pairs]
    known = tuple(np.unique(windows.labelled().workloads).tolist())
    pooled, relative, ratios = features.names()
    return Predictor(
        bins=bins,
        workloads=() if is_general else known,
        windows=len(windows.labelled()),
        pooled=pooled,
        relative=relative,
        ratios=ratios,
        costs=costs(windows),
        unfamiliar=choice,
        horizons=tuple(horizons),
    )


def missing_windows(windows: Windows) -> dict[str, int]:
    """Count the windows that workloads lack to be compared with their own quiet ones.

    Returns:
        The number by workload, of those that lack some.
    """
    names, counts = np.unique(windows.workloads, return_counts=True)
    lacking = zip(names.tolist(), (features.WINDOWS_MIN - counts).tolist(), strict=True)
    return {workload: number for workload, number in lacking if number > 0}


def _missing_words(missing: dict[str, int]) -> str:
    shown = [f"{workload} lacks {number}" for workload, number in missing.items()][:_WORKLOADS_SHOWN_MAX]
    more = len(missing) - len(shown)
    return ", ".join(shown) + (f", and {more} more workloads lack some" if more else "")


def _labelled(data: Prepared, ahead: int, bins: tuple[float, ...]) -> tuple[Mask, Classes]:
    """The windows that have a label a given number of windows later, and the classes of those labels."""
    labels = _labels_ahead(data.windows, ahead)
    has_label = ~np.isnan(labels)
    if not has_label.any():
        if not ahead:
            raise InterferenceError("no window has a label", hint="`weir interference collect` makes labelled windows")
        raise InterferenceError(
            f"no window has a label {ahead} windows later: no run has {ahead + 1} windows in a row up to one with a "
            "label",
            hint=f"collect longer runs: the next {HORIZONS - 1} windows are predicted, too",
        )
    return has_label, classes_of(replace(data.windows.take(has_label), slowdowns=labels[has_label]), bins)


def _horizon(data: Prepared, ahead: int, bins: tuple[float, ...], trees_like: Trees, with_network: bool) -> Horizon:
    has_label, classes = _labelled(data, ahead, bins)
    data = data.take(has_label)
    count = len(bins) + 1
    trees, above_quiet = replace(trees_like), AboveQuiet()
    trees.fit(data, classes, count)
    above_quiet.fit(data, classes, count)
    network = None
    if with_network:
        trained = KernelNetwork(count, trees_like.seed)
        trained.fit(data.windows, classes)
        network = msgspec.convert(trained.numbers(), Kernel)
    return Horizon(
        trees=trees.text(),
        calibration=_calibration(data, classes, count, trees_like),
        above_quiet=Logistic(**above_quiet.numbers()),
        network=network,
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


def _calibration(data: Prepared, classes: np.ndarray, count: int, trees_like: Trees) -> Logistic:
    """Learn from windows of runs that the trees did not see; of one run alone, from its windows at random."""
    several = len(np.unique(data.windows.runs)) > 1
    found = []
    for training, test in SPLITS["other runs" if several else "random"](data.windows):
        if len(np.unique(classes[training])) == len(np.unique(classes)):
            trees = replace(trees_like)
            trees.fit(data.take(training), classes[training], count)
            found.append((trees.probabilities(data.take(test)), classes[test]))
    model = calibration(found)
    if model is None:
        have = ", ".join(
            f"class {place} has {(classes == place).sum()} windows in "
            f"{len(np.unique(data.windows.runs[classes == place]))} runs"
            for place in range(count)
        )
        raise InterferenceError(
            f"too few windows of each class of slowdown to calibrate: {have}",
            hint="collect more runs, so that each class has windows in two at least",
        )
    return numbers(model, count)


def native(predictor: Predictor) -> "SlowdownPredictor":
    """The predictor as the control plane runs it.

    Raises:
        InterferenceError: A part of the predictor is harmed, or it uses features that are not known here.
    """
    from weir import _core

    try:
        return _core.SlowdownPredictor(msgspec.json.encode(predictor))
    except ValueError as error:
        raise InterferenceError(f"the model cannot be used: {error}", hint=_TRAIN) from error


def predict(predictor: Predictor, windows: Windows) -> list[Prediction]:
    """Predict the slowdown of windows and of those after them.

    Args:
        windows: The windows; each workload's are compared among themselves.

    Returns:
        `HORIZONS` predictions for each window, in the windows' order.

    Raises:
        InterferenceError: As for `native`.
    """
    model = native(predictor)
    made: list[list[Prediction]] = [[] for _ in range(len(windows))]
    for workload in np.unique(windows.workloads).tolist():
        places = np.flatnonzero(windows.workloads == workload)
        of_workload = windows.take(places)
        for prediction in predictions(model, workload, of_workload):
            place = places[prediction[0]]
            made[place].append(_shown(predictor.bins, of_workload, prediction))
    return [each for of_window in made for each in of_window]


def predictions(
    model: "SlowdownPredictor", workload: str, windows: Windows, first: int = 0
) -> "list[tuple[int, int, Basis, int, list[float], list[tuple[str, int | None]], list[float] | None]]":
    """Predict natively.

    Args:
        model: The native predictor.
        workload: Name of the workload.
        windows: Windows of the workload alone, which are compared with each other.
        first: The first window that is asked for.

    Returns:
        Place of the window, windows ahead, basis, place of the class, probabilities, features with the places of
        servers, and probabilities by the network.

    Raises:
        InterferenceError: A count is too large.
    """
    try:
        return model.predict(workload, windows.present.shape[1], features.columns_of(windows), first=first)
    except ValueError as error:
        raise InterferenceError(f"windows of {workload}: {error}", hint="collect or import the windows anew") from error


def _shown(
    bins: tuple[float, ...],
    windows: Windows,
    prediction: tuple[int, int, Basis, int, list[float], list[tuple[str, int | None]], list[float] | None],
) -> Prediction:
    place, ahead, basis, best, probabilities, driven, network = prediction
    return Prediction(
        run=str(windows.runs[place]),
        workload=str(windows.workloads[place]),
        window=int(windows.numbers[place]),
        ahead=ahead,
        by=basis,
        slowdown=basis if basis == "not known" else class_names(bins)[best],
        probability=probabilities[best],
        probabilities=tuple(probabilities),
        driven_by=tuple(
            Driver(feature, None if server is None else str(windows.servers[place, server]))
            for feature, server in driven
        ),
        network=None if network is None else tuple(network),
    )


def class_names(bins: tuple[float, ...]) -> list[str]:
    """Name the classes.

    Args:
        bins: Slowdowns at which a class begins.

    Returns:
        Such as `below 2`, `2 to 5`, `from 5`.
    """
    middle = [f"{low:g} to {high:g}" for low, high in pairwise(bins)]
    return [f"below {bins[0]:g}", *middle, f"from {bins[-1]:g}"]


class _Versioned(msgspec.Struct):
    """The version of any model file."""

    version: int


def save(predictor: Predictor, path: Path) -> None:
    """Write a predictor.

    Args:
        path: The file, which is replaced.
    """
    write_whole(path, msgspec.json.encode(predictor), mode=None)


def load(path: Path) -> Predictor:
    """Read a predictor.

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
        version = msgspec.json.decode(content, type=_Versioned).version
        if version != VERSION:
            raise ValueError(f"it is of version {version}")
        return msgspec.json.decode(content, type=Predictor)
    except (msgspec.DecodeError, ValueError, RecursionError, MemoryError) as error:
        raise InterferenceError(f"{path} is no predictor of version {VERSION}: {error}", hint=_TRAIN) from error
