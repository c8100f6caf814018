"""The choice of features and hyper-parameters: recursive feature elimination, then Optuna.

Features are eliminated one by one down to the last, which gives them an order. So the number of features is one more
hyper-parameter, as in the paper. A trial's cost is the mean logarithm of two errors of the ensemble: with the programs
of held-out runs known, and with them unknown.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy
from numpy.typing import NDArray

from weir.provisioning.learning.archive import Archive
from weir.provisioning.learning.dataset import Dataset
from weir.provisioning.learning.features import WORK
from weir.provisioning.learning.models import (
    DEFAULTS,
    STACKED,
    Settings,
    calm,
    crossed,
    folds_of_known,
    folds_of_unknown,
)
from weir.provisioning.learning.steps import key_of, run_steps
from weir.simulation.sweeps.pools import Pool

ROWS_MAX = 2000
"""Runs of a trial."""
_AT_ONCE = 4
"""Trials that are chosen together, on any number of processors, so that their choice does not depend on it."""
_TREES = 40


class Ranking(msgspec.Struct, frozen=True):
    """Columns of features, the most important first."""

    columns: list[int]


class Cost(msgspec.Struct, frozen=True):
    """The cost of a trial."""

    cost: float
    errors: tuple[float, float]
    """Mean absolute percentage errors with known and with unknown programs."""


class Tuned(msgspec.Struct, frozen=True):
    """The outcome of a search."""

    ranking: list[int]
    settings: dict[str, int | float | str]
    default_errors: tuple[float, float]
    errors: tuple[float, float]


@dataclass(frozen=True)
class TuneTask:
    """A ranking of features, or one trial."""

    key: str
    runs: Dataset
    target: int
    ranking: tuple[int, ...]
    settings: Settings
    seed: int


def ranked(task: TuneTask, is_wanted: Callable[[], bool]) -> Ranking:
    """Eliminate features recursively.

    Args:
        is_wanted: Whether the answer is still wanted.

    Returns:
        The features, that which is eliminated last first.
    """
    from sklearn.feature_selection import RFE
    from xgboost import XGBRegressor

    (varying,) = numpy.nonzero(numpy.ptp(task.runs.features, axis=0) > 0)
    if not len(varying):
        return Ranking([0])
    estimator = XGBRegressor(n_estimators=_TREES, max_depth=4, learning_rate=0.2, random_state=task.seed, n_jobs=1)
    eliminated = RFE(estimator, n_features_to_select=1, step=1)
    work = task.runs.features[:, task.runs.names.index(WORK[task.target])]
    with calm():
        eliminated.fit(task.runs.features[:, varying], numpy.log(task.runs.seconds[:, task.target]) - work)
    order = numpy.argsort(eliminated.ranking_, kind="stable")
    return Ranking([int(column) for column in varying[order]])


def tried(task: TuneTask, is_wanted: Callable[[], bool]) -> Cost:
    """Find the cost of a trial.

    Args:
        task: The runs, the ranking and the settings.
        is_wanted: Whether the answer is still wanted.
    """
    seconds = task.runs.seconds[:, task.target]
    columns = chosen_columns(task.ranking, task.settings)
    errors = []
    for folds in (folds_of_known(task.runs, task.seed), folds_of_unknown(task.runs)):
        told = crossed(task.runs, task.target, columns, task.settings, task.seed, folds)
        if told:
            errors.append(float(numpy.mean(numpy.abs(numpy.exp(told[STACKED]) - seconds) / seconds)))
    cost = math.fsum(math.log(max(each, 1e-9)) for each in errors) / len(errors)
    return Cost(cost, (errors[0], errors[-1]))


def chosen_columns(ranking: tuple[int, ...] | list[int], settings: Settings) -> NDArray[Any]:
    """Take the features that the settings leave.

    Args:
        ranking: Columns, the most important first.
        settings: Hyper-parameters.

    Returns:
        The columns in their order in the table.
    """
    return numpy.sort(numpy.array(ranking[: settings["features"]]))


def search(
    archive: Archive,
    pool: Pool,
    runs: Dataset,
    target: int,
    *,
    trials: int,
    trees: int,
    seed: int,
    progress: Callable[[], object],
) -> Tuned:
    """Rank the features and search for hyper-parameters; finished trials are taken from the archive.

    Args:
        pool: The place where trials run.
        runs: The runs, at most `ROWS_MAX`, all with a time of the target.
        target: Place of the predicted time.
        trials: Number of trials; the first is that of the defaults.
        trees: Trees of the forest.
        progress: Called after the ranking and after each trial.

    Returns:
        The ranking, and the settings of the least cost.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    digest = runs.digest()
    task = TuneTask(key_of("ranking", digest, target, seed), runs, target, (), {}, seed)
    (ranking,) = run_steps(archive, pool, [task], ranked, Ranking, progress)
    columns = tuple(ranking.columns)
    defaults = {**DEFAULTS, "features": min(DEFAULTS["features"], len(columns))}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=2 * _AT_ONCE))
    study.enqueue_trial(defaults)
    costs: list[tuple[Cost, Settings]] = []
    while len(costs) < trials:
        asked = [study.ask(_space(len(columns))) for _ in range(min(_AT_ONCE, trials - len(costs)))]
        each_settings = [{**each.params, "trees": trees} for each in asked]
        tasks = [
            TuneTask(key_of("trial", digest, target, seed, settings), runs, target, columns, settings, seed)
            for settings in each_settings
        ]
        found = run_steps(archive, pool, tasks, tried, Cost, progress)
        for each, cost, settings in zip(asked, found, each_settings, strict=True):
            study.tell(each, cost.cost)
            costs.append((cost, settings))
    best, chosen = min(costs, key=lambda each: each[0].cost)
    return Tuned(list(columns), dict(chosen), costs[0][0].errors, best.errors)


def _space(columns: int) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    return {
        "features": IntDistribution(min(4, columns), columns),
        "lasso_alpha": FloatDistribution(1e-5, 0.1, log=True),
        "ridge_alpha": FloatDistribution(1e-3, 1e3, log=True),
        "adaboost_depth": IntDistribution(3, 12),
        "adaboost_rate": FloatDistribution(0.05, 1.0, log=True),
        "forest_leaf": IntDistribution(1, 20),
        "forest_features": FloatDistribution(0.2, 1.0),
        "xgboost_depth": IntDistribution(2, 9),
        "xgboost_rate": FloatDistribution(0.02, 0.3, log=True),
        "xgboost_subsample": FloatDistribution(0.5, 1.0),
        "meta_quantile": FloatDistribution(0.25, 0.5),
        "xgboost_objective": CategoricalDistribution(("reg:absoluteerror", "reg:squarederror")),
    }
