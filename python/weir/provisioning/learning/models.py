"""Models of the time of a run's I/O: the paper's ensemble, its parts, and baselines.

Models learn the logarithm of the seconds for a byte, or for a metadata operation, and tell that of the seconds. The
ensemble is stacked: an XGBoost meta-learner combines Lasso, Ridge, AdaBoost, random forest and XGBoost. It has two
heads: one learned from parts that knew the run's program, and one from parts that did not, because the parts deserve
another trust there. A second ensemble also knows past runs of the same job.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from weir.provisioning.learning.dataset import Dataset
from weir.provisioning.learning.features import WORK
from weir.provisioning.learning.intervals import half_width, half_width_of_unknown
from weir.provisioning.learning.shipped import ShippedClasses

Settings = Mapping[str, Any]
"""Hyper-parameters by their names in `DEFAULTS`, and the number of `trees`."""
DEFAULTS: Settings = {
    "features": 24,
    "lasso_alpha": 1e-3,
    "ridge_alpha": 1.0,
    "adaboost_depth": 8,
    "adaboost_rate": 0.5,
    "forest_leaf": 2,
    "forest_features": 0.5,
    "xgboost_depth": 6,
    "xgboost_rate": 0.1,
    "xgboost_subsample": 0.8,
    "xgboost_objective": "reg:absoluteerror",
    "meta_quantile": 0.45,
}
"""The first settings that a search tries, beside `trees`. 24 features are left in the paper."""
PARTS = ("lasso", "ridge", "adaboost", "forest", "xgboost")
STACKED, WITH_HISTORY = "stacked", "stacked with history"
GROUP_MEAN = "group mean"
SAME_JOB = "same-job median"
SHIPPED = "shipped classes"
STACKS = {STACKED: PARTS, WITH_HISTORY: (*PARTS, SAME_JOB)}
"""The ensembles, and the models that each combines."""
MODELS = (*STACKS, *PARTS, GROUP_MEAN, SAME_JOB, SHIPPED)
"""All models; `xgboost` is gradient boosting alone, and the shipped classes need no runs."""
TREES = 60
"""Trees of the forest and of the meta-learner."""
_BOOSTING_TREES = 3
"""Trees of XGBoost for each of the forest."""
_ADABOOST_TREES = 0.5
"""Trees of AdaBoost for each of the forest."""
_FOLDS = 3
_BEYOND = math.log(10)
"""Distance beyond the learned times for a unit of work to which a prediction is bounded: lines go on for ever."""


def _regressors(settings: Settings, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import AdaBoostRegressor, RandomForestRegressor
    from sklearn.linear_model import Lasso, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor
    from xgboost import XGBRegressor

    return {
        "lasso": make_pipeline(StandardScaler(), Lasso(alpha=settings["lasso_alpha"], max_iter=5000)),
        "ridge": make_pipeline(StandardScaler(), Ridge(alpha=settings["ridge_alpha"])),
        "adaboost": AdaBoostRegressor(
            DecisionTreeRegressor(max_depth=settings["adaboost_depth"], random_state=seed),
            n_estimators=max(round(_ADABOOST_TREES * settings["trees"]), 1),
            learning_rate=settings["adaboost_rate"],
            random_state=seed,
        ),
        "forest": RandomForestRegressor(
            n_estimators=settings["trees"],
            min_samples_leaf=settings["forest_leaf"],
            max_features=settings["forest_features"],
            random_state=seed,
            n_jobs=1,
        ),
        "xgboost": XGBRegressor(
            n_estimators=_BOOSTING_TREES * settings["trees"],
            max_depth=settings["xgboost_depth"],
            learning_rate=settings["xgboost_rate"],
            subsample=settings["xgboost_subsample"],
            objective=settings["xgboost_objective"],
            random_state=seed,
            n_jobs=1,
        ),
    }


def _meta_learner(settings: Settings, seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(
        n_estimators=settings["trees"],
        max_depth=3,
        learning_rate=0.1,
        # The percentage error of too long a time has no bound, that of too short a one is below 1: its least is below
        # the median.
        objective="reg:quantileerror",
        quantile_alpha=settings["meta_quantile"],
        random_state=seed,
        n_jobs=1,
    )


class Baseline:
    """The mean or median of runs that are alike; where none is, of those that are less alike, at last of all."""

    def __init__(self, name: str) -> None:
        """Describe a baseline.

        Args:
            name: `GROUP_MEAN` or `SAME_JOB`.
        """
        self._is_mean = name == GROUP_MEAN
        self._levels = ("groups", "kinds") if self._is_mean else ("jobs", "groups", "kinds")
        self._known: list[dict[int, float]] = []
        self._of_all = 0.0

    def fit(self, runs: Dataset, seconds: NDArray[Any]) -> "Baseline":
        """Learn from runs.

        Args:
            seconds: Their times.

        Returns:
            This baseline.
        """

        def middle(values: NDArray[Any]) -> float:
            return float(numpy.log(numpy.mean(values) if self._is_mean else numpy.median(values)))

        self._of_all = middle(seconds)
        for level in self._levels:
            codes = getattr(runs, level)
            order = numpy.argsort(codes, kind="stable")
            values, starts = numpy.unique(codes[order], return_index=True)
            parts = numpy.split(seconds[order], starts[1:])
            self._known.append({int(code): middle(part) for code, part in zip(values, parts, strict=True)})
        return self

    def predict(self, runs: Dataset) -> NDArray[Any]:
        """Predict times.

        Returns:
            Logarithms of seconds.
        """
        found = numpy.full(len(runs), numpy.nan)
        for level, known in zip(self._levels, self._known, strict=True):
            told = numpy.array([known.get(int(code), numpy.nan) for code in getattr(runs, level)])
            found = numpy.where(numpy.isnan(found), told, found)
        return numpy.where(numpy.isnan(found), self._of_all, found)


@dataclass
class Fitted:
    """Models that were fitted on runs."""

    columns: NDArray[Any]
    """Columns of the features in use."""
    work: int
    """Column of the logarithm of the work."""
    bounds: tuple[float, float]
    """Least and greatest prediction for a unit of work."""
    parts: dict[str, Any]
    heads: dict[str, tuple[Any, Any]]
    """Meta-learners of each ensemble for known and for unknown programs."""
    baselines: "dict[str, Baseline | ShippedClasses]"
    programs: frozenset[int]
    """Numbers of the programs that are known."""
    widths: dict[str, tuple[float, float]]
    """Half widths of the intervals of each model, for known and for unknown programs."""
    errors: "dict[str, NDArray[Any]]"
    """Absolute errors of each model, in logarithms of seconds, on each run, predicted without it."""

    def predict(self, runs: Dataset) -> "dict[str, NDArray[Any]]":
        """Predict times by each model.

        Returns:
            Logarithms of seconds by the names of `MODELS`.
        """
        with calm():
            work = runs.features[:, self.work]
            told = {
                name: numpy.clip(part.predict(runs.features[:, self.columns]), *self.bounds)
                for name, part in self.parts.items()
            }
            told |= {name: each.predict(runs) - work for name, each in self.baselines.items()}
            for name, parts in STACKS.items():
                table = numpy.column_stack([told[part] for part in parts])
                known, unknown = (head.predict(table) for head in self.heads[name])
                told[name] = numpy.where(self.is_known(runs), known, unknown)
        return {name: each + work for name, each in told.items()}

    def is_known(self, runs: Dataset) -> NDArray[Any]:
        """Tell whether programs of runs were there when the models were fitted.

        Returns:
            A truth value for each run.
        """
        return numpy.isin(runs.programs, list(self.programs))

    def half_widths(self, runs: Dataset, model: str) -> NDArray[Any]:
        """Tell the half widths of a model's intervals.

        Args:
            model: Name of the model.

        Returns:
            Half widths, in logarithms of seconds.
        """
        return numpy.where(self.is_known(runs), *self.widths[model])


def fit(runs: Dataset, target: int, columns: NDArray[Any], settings: Settings, seed: int) -> Fitted:
    """Fit all models.

    Args:
        runs: The runs to learn from, all with a time of the target.
        target: Place of the predicted time in `TARGETS`.
        columns: Columns of the features in use.
        settings: Hyper-parameters.
        seed: Seed of what is drawn.

    Returns:
        The fitted models, with the widths of their intervals.
    """
    seconds, work = runs.seconds[:, target], _work(runs, target)
    logarithms = numpy.log(seconds)
    costs = logarithms - runs.features[:, work]
    known = crossed(runs, target, columns, settings, seed, folds_of_known(runs, seed))
    unknown = crossed(runs, target, columns, settings, seed, folds_of_unknown(runs)) or known
    with calm():
        heads = {
            name: tuple(
                _meta_learner(settings, seed).fit(
                    numpy.column_stack([each[part] - runs.features[:, work] for part in parts]), costs
                )
                for each in (known, unknown)
            )
            for name, parts in STACKS.items()
        }
        regressors = _regressors(settings, seed)
        parts = {name: each.fit(runs.features[:, columns], costs) for name, each in regressors.items()}
    errors = [{name: numpy.abs(each[name] - logarithms) for name in MODELS} for each in (known, unknown)]
    return Fitted(
        columns=columns,
        work=work,
        bounds=_bounds(costs),
        parts=parts,
        heads={name: (each[0], each[1]) for name, each in heads.items()},
        baselines={name: each.fit(runs, seconds) for name, each in _baselines(target).items()},
        programs=frozenset(int(each) for each in numpy.unique(runs.programs)),
        widths={
            name: (half_width(errors[0][name]), half_width_of_unknown(errors[1][name], runs.programs))
            for name in MODELS
        },
        errors=errors[0],
    )


def _baselines(target: int) -> "dict[str, Baseline | ShippedClasses]":
    return {GROUP_MEAN: Baseline(GROUP_MEAN), SAME_JOB: Baseline(SAME_JOB), SHIPPED: ShippedClasses(target)}


def _work(runs: Dataset, target: int) -> int:
    """The column of the work of a time."""
    return runs.names.index(WORK[target])


def _bounds(costs: NDArray[Any]) -> tuple[float, float]:
    return float(costs.min()) - _BEYOND, float(costs.max()) + _BEYOND


Folds = list[tuple[Any, Any]]


def folds_of_known(runs: Dataset, seed: int) -> Folds:
    """Part runs so that programs of held-out runs are mostly known: by months where there are enough, else at random.

    Args:
        seed: Seed of the draw.

    Returns:
        Rows to learn from and rows that are held out.
    """
    from sklearn.model_selection import GroupKFold, KFold

    if len(numpy.unique(runs.months)) >= _FOLDS:
        return list(GroupKFold(_FOLDS).split(runs.features, groups=runs.months))
    return list(KFold(_FOLDS, shuffle=True, random_state=seed).split(runs.features))


def folds_of_unknown(runs: Dataset) -> Folds:
    """Part runs so that the program of each held-out run is unknown.

    Returns:
        Rows to learn from and rows that are held out; nothing where all runs are of one program.
    """
    from sklearn.model_selection import GroupKFold

    programs = len(numpy.unique(runs.programs))
    if programs < 2:
        return []
    return list(GroupKFold(min(programs, _FOLDS + 1)).split(runs.features, groups=runs.programs))


def crossed(
    runs: Dataset, target: int, columns: NDArray[Any], settings: Settings, seed: int, folds: Folds
) -> "dict[str, NDArray[Any]]":
    """Predict each run by models that were fitted without it.

    Args:
        runs: The runs, all with a time of the target.
        target: Place of the predicted time in `TARGETS`.
        columns: Columns of the features in use.
        settings: Hyper-parameters.
        seed: Seed of what is drawn.
        folds: Rows to learn from and rows that are held out.

    Returns:
        Logarithms of seconds by the names of `MODELS`; nothing without folds.
    """
    from sklearn.model_selection import cross_val_predict

    if not folds:
        return {}
    seconds, work = runs.seconds[:, target], runs.features[:, _work(runs, target)]
    costs = numpy.log(seconds) - work
    table = runs.features[:, columns]
    found = {name: numpy.zeros(len(runs)) for name in MODELS}
    with calm():
        for learned, held_out in folds:
            bounds = _bounds(costs[learned])
            for name, regressor in _regressors(settings, seed).items():
                told = regressor.fit(table[learned], costs[learned]).predict(table[held_out])
                found[name][held_out] = numpy.clip(told, *bounds)
            for name, baseline in _baselines(target).items():
                told = baseline.fit(runs.rows(learned), seconds[learned]).predict(runs.rows(held_out))
                found[name][held_out] = told - work[held_out]
        for name, parts in STACKS.items():
            together = numpy.column_stack([found[part] for part in parts])
            found[name] = cross_val_predict(_meta_learner(settings, seed), together, costs, cv=folds)
    return {name: each + work for name, each in found.items()}


@contextmanager
def calm() -> Iterator[None]:
    """Compute in one thread, and silence the libraries' warnings of slow convergence, which errors of models tell.

    Sums over several threads end in other last digits, so the classes would depend on the machine.

    Yields:
        Nothing.
    """
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        yield
