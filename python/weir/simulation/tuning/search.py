"""The search: Optuna's TPE sampler over the space of settings, each trial a mean over the training's workloads.

A trial's value is the mean of the logarithms of each workload's objective by that of the default, so workloads of any
size count alike, and the default is 0. Trials follow each other and their workloads run beside each other. The sampler
of a trial is seeded by the number of trials before, so a search that was interrupted goes on as if it had not been.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.simulation.runs import prepare
from weir.simulation.sweeps.engine import engine_digest
from weir.simulation.sweeps.evaluation import OBJECTIVES, Answer, Task, evaluate
from weir.simulation.sweeps.execution import Scenarios
from weir.simulation.sweeps.plan import digest_of
from weir.simulation.tuning.cases import Case
from weir.simulation.tuning.errors import TuningError
from weir.simulation.tuning.space import Space

if TYPE_CHECKING:
    from optuna import Study

    from weir.simulation.sweeps.pools import Pool

STUDY = "weir-tune"
_PROBLEM = "problem"
_DRAWN_FIRST = 12
"""Trials that are drawn at random before the sampler learns from them."""
_COST_MIN = 1e-9
"""Cost of a run whose figure is 0: costs are compared by their logarithms."""
_SEED_STEP = 1_000_003
"""Distance of the seeds of searches whose seeds follow each other."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A search, but for its answer."""

    scenarios: Scenarios
    """The maker of scenarios: its base has the default settings."""
    space: Space
    objective: str
    """Name of the objective."""
    seed: int
    """Start of the sampler's dice."""

    def digest(self, training: Sequence[Case]) -> str:
        """Digest everything that decides the value of a trial.

        Args:
            training: The workloads of the training.

        Returns:
            SHA-256, in hexadecimal digits.
        """
        works = [self.scenarios.of(case.changes) for case in training]
        return digest_of(
            [
                [[work, scenario.settings()] for scenario, work in works],
                [self.objective, self.seed, engine_digest(), _DRAWN_FIRST],
                {name: repr(each) for name, each in self.space.distributions().items()},
            ]
        )


@dataclass(frozen=True)
class Run:
    """A workload under one setting."""

    cost: float | None
    """The objective, turned so that less is better; None where the setting does not carry the workload to its end."""
    figures: dict[str, Any] | None
    """All figures; None where the engine refused the setting."""
    reason: str = ""
    """Reason why there is no cost."""


@dataclass(frozen=True)
class Trial:
    """A tried setting."""

    numbers: dict[str, Any]
    """Its point in the space."""
    value: float
    """Mean logarithm of its costs by those of the default, over the training."""


def run_cases(problem: Problem, changes: Mapping[str, Any], cases: Sequence[Case], pool: "Pool") -> list[Run]:
    """Run workloads under one setting.

    Args:
        changes: The setting, as changes of the scenario.
        pool: The place where they run.

    Returns:
        A run for each workload.

    Raises:
        KeyboardInterrupt: The user ended the search.
    """
    has_slowdowns = OBJECTIVES[problem.objective].is_of_jobs_alone
    tasks = [
        Task(str(place), prepare(problem.scenarios.of({**case.changes, **changes})[0]), has_slowdowns)
        for place, case in enumerate(cases)
    ]
    runs: dict[str, Run] = {}
    with closing(pool.answers(evaluate, tasks)) as answers:
        for task, answer in answers:
            runs[task.key] = _run(problem.objective, answer)
    return [runs[task.key] for task in tasks]


def mean_log_ratio(runs: Sequence[Run], defaults: Sequence[Run]) -> float | None:
    """Compare a setting with the default over workloads.

    Args:
        runs: The workloads under the setting.
        defaults: The same workloads under the default.

    Returns:
        Mean logarithm of the ratios of costs; None where the setting does not carry a workload that the default does.
    """
    pairs = [(run.cost, default.cost) for run, default in zip(runs, defaults, strict=True) if default.cost is not None]
    if any(cost is None for cost, _ in pairs):
        return None
    return math.fsum(math.log(cost / default) for cost, default in pairs if cost is not None) / len(pairs)


def search(
    problem: Problem,
    training: Sequence[Case],
    defaults: Sequence[Run],
    *,
    file: Path,
    trials: int,
    starts: Sequence[Mapping[str, Any]],
    pool: "Pool",
    progress: Callable[[int, int], object],
) -> Trial | None:
    """Search for the best setting, and keep each trial in a file at once.

    Args:
        defaults: The workloads under the default.
        file: SQLite file of the trials; a search of the same problem goes on in it.
        trials: Number of trials in the end, those in the file included.
        starts: Points of the space that are tried first.
        pool: The place where workloads run.
        progress: Called with the number of trials that are done, and of all.

    Returns:
        The best trial; None where no setting carries every workload.

    Raises:
        TuningError: The file is of another problem, or the default carries no workload.
        KeyboardInterrupt: The user ended the search; the trials that ended are in the file.
    """
    import optuna
    from optuna.trial import TrialState, create_trial

    if all(run.cost is None for run in defaults):
        reason = next((run.reason for run in defaults), "there is none")
        raise TuningError(f"the default carries no workload of the training: {reason}", hint="see `weir simulate run`")
    study = _study(problem.digest(training), file)
    space = problem.space.distributions()
    while (done := len(_finished(study))) < trials:
        progress(done, trials)
        if done < len(starts):
            numbers = dict(starts[done])
        else:
            study.sampler = optuna.samplers.TPESampler(
                seed=(problem.seed * _SEED_STEP + done) % 2**32, n_startup_trials=_DRAWN_FIRST
            )
            # The point's trial is closed before the workloads run, so an interruption leaves no trial open.
            asked = study.ask(space)
            numbers = asked.params
            study.tell(asked, state=TrialState.FAIL)
        runs = run_cases(problem, problem.space.changes(numbers), training, pool)
        value = mean_log_ratio(runs, defaults)
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        study.add_trial(create_trial(state=state, value=value, params=numbers, distributions=space))
    progress(trials, trials)
    best = [trial for trial in _finished(study)[:trials] if trial.state == TrialState.COMPLETE]
    if not best:
        return None
    # The earliest of equal trials wins.
    winner = min(best, key=lambda trial: (trial.value, trial.number))
    return Trial(dict(winner.params), float(winner.value or 0.0))


def _finished(study: "Study") -> list[Any]:
    from optuna.trial import TrialState

    finished: list[Any] = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    return finished


def _study(problem: str, file: Path) -> "Study":
    import optuna
    from sqlalchemy.exc import DatabaseError

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(
            storage=f"sqlite:///{file.absolute()}", study_name=STUDY, direction="minimize", load_if_exists=True
        )
    except (DatabaseError, optuna.exceptions.StorageInternalError) as error:
        raise TuningError(f"{file} cannot be used for the trials: {error}", hint="choose another `folder`") from error
    there = study.user_attrs.get(_PROBLEM)
    if there is None:
        study.set_user_attr(_PROBLEM, problem)
    elif there != problem:
        raise TuningError(
            f"{file} holds trials of another search: its workloads, settings, objective, seed or build of Weir differ",
            hint="choose another `folder`, or remove the file",
        )
    return study


def _run(objective: str, answer: Answer) -> Run:
    if answer.figures is None:
        if answer.refusal is None:
            raise KeyboardInterrupt
        return Run(None, None, answer.refusal)
    figures = answer.figures
    value = figures[objective]
    if not figures["is_complete"]:
        return Run(None, figures, "the jobs did not end")
    if figures["refused_files"]:
        return Run(None, figures, f"{figures['refused_files']} files could not be made")
    is_greater_better = OBJECTIVES[objective].is_greater_better
    if value is None or (is_greater_better and not value):
        return Run(None, figures, f"it has no {objective}")
    return Run(1 / value if is_greater_better else max(value, _COST_MIN), figures)
