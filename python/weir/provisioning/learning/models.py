"""Models of the time of a run's I/O: the paper's ensemble, its parts, and baselines.

All models predict the logarithm of the seconds. The ensemble is stacked: an XGBoost meta-learner combines Lasso, Ridge,
AdaBoost, random forest and XGBoost. It has two heads: one learned from parts that knew the run's program, and one from
parts that did not, because the parts deserve another trust there.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.provisioning.learning.dataset import Dataset
from weir.provisioning.learning.intervals import half_width, half_width_of_unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

Settings = Mapping[str, Any]
"""Hyper-parameters by their names in `DEFAULTS`."""
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
}
"""The first settings that a search tries. 24 features are left in the paper."""
PARTS = ("lasso", "ridge", "adaboost", "forest", "xgboost")
STACKED = "stacked"
GROUP_MEAN = "group mean"
SAME_JOB = "same-job median"
MODELS = (STACKED, *PARTS, GROUP_MEAN, SAME_JOB)
"""All models; `xgboost` is gradient boosting alone."""
_TREES_OF_FOREST = 60
_TREES_OF_BOOSTING = 200
_TREES_OF_ADABOOST = 30
_TREES_OF_META = 60
_FOLDS = 3


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
            n_estimators=_TREES_OF_ADABOOST,
            learning_rate=settings["adaboost_rate"],
            random_state=seed,
        ),
        "forest": RandomForestRegressor(
            n_estimators=_TREES_OF_FOREST,
            min_samples_leaf=settings["forest_leaf"],
            max_features=settings["forest_features"],
            random_state=seed,
            n_jobs=1,
        ),
        "xgboost": XGBRegressor(
            n_estimators=_TREES_OF_BOOSTING,
            max_depth=settings["xgboost_depth"],
            learning_rate=settings["xgboost_rate"],
            subsample=settings["xgboost_subsample"],
            objective=settings["xgboost_objective"],
            random_state=seed,
            n_jobs=1,
        ),
    }


def _meta_learner(seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(
        n_estimators=_TREES_OF_META,
        max_depth=3,
        learning_rate=0.1,
        objective="reg:absoluteerror",
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

    def fit(self, runs: Dataset, seconds: "NDArray[Any]") -> "Baseline":
        """Learn from runs.

        Args:
            runs: The runs.
            seconds: Their times.

        Returns:
            This baseline.
        """
        import numpy

        def middle(values: "NDArray[Any]") -> float:
            return float(numpy.log(numpy.mean(values) if self._is_mean else numpy.median(values)))

        self._of_all = middle(seconds)
        for level in self._levels:
            codes = getattr(runs, level)
            order = numpy.argsort(codes, kind="stable")
            values, starts = numpy.unique(codes[order], return_index=True)
            parts = numpy.split(seconds[order], starts[1:])
            self._known.append({int(code): middle(part) for code, part in zip(values, parts, strict=True)})
        return self

    def predict(self, runs: Dataset) -> "NDArray[Any]":
        """Predict times.

        Args:
            runs: The runs.

        Returns:
            Logarithms of seconds.
        """
        import numpy

        found = numpy.full(len(runs), numpy.nan)
        for level, known in zip(self._levels, self._known, strict=True):
            told = numpy.array([known.get(int(code), numpy.nan) for code in getattr(runs, level)])
            found = numpy.where(numpy.isnan(found), told, found)
        return numpy.where(numpy.isnan(found), self._of_all, found)


@dataclass
class Fitted:
    """Models that were fitted on runs."""

    columns: "NDArray[Any]"
    """Columns of the features in use."""
    parts: dict[str, Any]
    heads: tuple[Any, Any]
    """Meta-learners of the ensemble for known and for unknown programs."""
    baselines: dict[str, Baseline]
    programs: frozenset[int]
    """Numbers of the programs that are known."""
    widths: dict[str, tuple[float, float]]
    """Half widths of the intervals of each model, for known and for unknown programs."""

    def predict(self, runs: Dataset) -> "dict[str, NDArray[Any]]":
        """Predict times by each model.

        Args:
            runs: The runs.

        Returns:
            Logarithms of seconds by the names of `MODELS`.
        """
        import numpy

        with quiet():
            told = {name: part.predict(runs.features[:, self.columns]) for name, part in self.parts.items()}
            table = numpy.column_stack([told[name] for name in PARTS])
            known, unknown = (head.predict(table) for head in self.heads)
        stacked = numpy.where(self.is_known(runs), known, unknown)
        return {STACKED: stacked, **told, **{name: each.predict(runs) for name, each in self.baselines.items()}}

    def is_known(self, runs: Dataset) -> "NDArray[Any]":
        """Tell whether programs of runs were there when the models were fitted.

        Args:
            runs: The runs.

        Returns:
            A truth value for each run.
        """
        import numpy

        return numpy.isin(runs.programs, list(self.programs))

    def half_widths(self, runs: Dataset, model: str) -> "NDArray[Any]":
        """Tell the half widths of a model's intervals.

        Args:
            runs: The runs.
            model: Name of the model.

        Returns:
            Half widths, in logarithms of seconds.
        """
        import numpy

        return numpy.where(self.is_known(runs), *self.widths[model])


def fit(runs: Dataset, seconds: "NDArray[Any]", columns: "NDArray[Any]", settings: Settings, seed: int) -> Fitted:
    """Fit all models.

    Args:
        runs: The runs to learn from.
        seconds: Their times, all above 0.
        columns: Columns of the features in use.
        settings: Hyper-parameters.
        seed: Seed of what is drawn.

    Returns:
        The fitted models, with the widths of their intervals.
    """
    import numpy

    logarithms = numpy.log(seconds)
    table = runs.features[:, columns]
    with quiet():
        known = crossed(runs, seconds, columns, settings, seed, folds_of_known(runs, seed))
        unknown = crossed(runs, seconds, columns, settings, seed, folds_of_unknown(runs)) or known
        heads = tuple(
            _meta_learner(seed).fit(numpy.column_stack([each[name] for name in PARTS]), logarithms)
            for each in (known, unknown)
        )
        parts = {name: each.fit(table, logarithms) for name, each in _regressors(settings, seed).items()}
    errors = [{name: numpy.abs(each[name] - logarithms) for name in MODELS} for each in (known, unknown)]
    widths = {
        name: (half_width(errors[0][name]), half_width_of_unknown(errors[1][name], runs.programs)) for name in MODELS
    }
    return Fitted(
        columns=columns,
        parts=parts,
        heads=(heads[0], heads[1]),
        baselines={name: Baseline(name).fit(runs, seconds) for name in (GROUP_MEAN, SAME_JOB)},
        programs=frozenset(int(each) for each in numpy.unique(runs.programs)),
        widths=widths,
    )


Folds = list[tuple[Any, Any]]


def folds_of_known(runs: Dataset, seed: int) -> Folds:
    """Part runs so that programs of held-out runs are mostly known: by months where there are enough, else at random.

    Args:
        runs: The runs.
        seed: Seed of the draw.

    Returns:
        Rows to learn from and rows that are held out.
    """
    import numpy
    from sklearn.model_selection import GroupKFold, KFold

    if len(numpy.unique(runs.months)) >= _FOLDS:
        return list(GroupKFold(_FOLDS).split(runs.features, groups=runs.months))
    return list(KFold(_FOLDS, shuffle=True, random_state=seed).split(runs.features))


def folds_of_unknown(runs: Dataset) -> Folds:
    """Part runs so that the program of each held-out run is unknown.

    Args:
        runs: The runs.

    Returns:
        Rows to learn from and rows that are held out; nothing where all runs are of one program.
    """
    import numpy
    from sklearn.model_selection import GroupKFold

    programs = len(numpy.unique(runs.programs))
    if programs < 2:
        return []
    return list(GroupKFold(min(programs, _FOLDS + 1)).split(runs.features, groups=runs.programs))


def crossed(
    runs: Dataset, seconds: "NDArray[Any]", columns: "NDArray[Any]", settings: Settings, seed: int, folds: Folds
) -> "dict[str, NDArray[Any]]":
    """Predict each run by models that were fitted without it.

    Args:
        runs: The runs.
        seconds: Their times, all above 0.
        columns: Columns of the features in use.
        settings: Hyper-parameters.
        seed: Seed of what is drawn.
        folds: Rows to learn from and rows that are held out.

    Returns:
        Logarithms of seconds by the names of `MODELS`; nothing without folds.
    """
    import numpy
    from sklearn.model_selection import cross_val_predict

    if not folds:
        return {}
    logarithms = numpy.log(seconds)
    table = runs.features[:, columns]
    found = {name: numpy.zeros(len(runs)) for name in MODELS}
    for learned, held_out in folds:
        for name, regressor in _regressors(settings, seed).items():
            found[name][held_out] = regressor.fit(table[learned], logarithms[learned]).predict(table[held_out])
        for name in (GROUP_MEAN, SAME_JOB):
            baseline = Baseline(name).fit(runs.rows(learned), seconds[learned])
            found[name][held_out] = baseline.predict(runs.rows(held_out))
    parts = numpy.column_stack([found[name] for name in PARTS])
    found[STACKED] = cross_val_predict(_meta_learner(seed), parts, logarithms, cv=folds)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' warnings of slow convergence: the errors of each model are measured.

    Yields:
        Nothing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
