"""A whole tuning: search on the training's workloads, then one judgement on those that were held out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.simulation.sweeps.evaluation import OBJECTIVES
from weir.simulation.sweeps.execution import Scenarios
from weir.simulation.tuning.cases import Cases
from weir.simulation.tuning.errors import TuningError
from weir.simulation.tuning.judgement import Judgement, judge
from weir.simulation.tuning.search import Problem, run_cases, search
from weir.simulation.tuning.space import space_of

if TYPE_CHECKING:
    from weir.simulation.documents import Document
    from weir.simulation.scenario import Scenario
    from weir.simulation.sweeps.pools import Pool
    from weir.simulation.tuning.space import Space

VERSION = 1
KIND = "weir-tuning"
STUDY_FILE = "trials.db"
DOCUMENT = "tuning.json"
_KNOWN_LAYOUTS: tuple[tuple[tuple[int | None, int], ...], ...] = (
    ((128 << 20, 1), (512 << 20, 3), (2 << 30, 8), (None, 16)),
    ((128 << 20, 1), (2 << 30, 12), (None, 32)),
    ((None, 1),),
    ((None, 4),),
    ((None, -1),),
)
"""Layouts that are tried first where the targets suffice: the paper's two configurations (Tarazu, table 8), one target,
four and all."""
_KNOWN_STRIPE_BYTES = 1 << 20


@dataclass(frozen=True)
class Options:
    """The choices of a tuning."""

    objective: str = "io_slowdown_mean"
    parts: tuple[str, ...] = ("layout",)
    """Searched parts of the settings."""
    policies: tuple[str, ...] = ()
    """Policies to choose from, beside the orders of the default's levels."""
    trials: int = 60
    seed: int = 0


@dataclass(frozen=True)
class Tuned:
    """A found setting and its judgement."""

    changes: dict[str, Any]
    """The setting, as changes of the scenario; empty where nothing was found that carries every workload."""
    default: dict[str, Any]
    """The settings of the scenario."""
    training_ratio: float | None
    """Geometric mean of the costs by those of the default on the training: optimistic, as the search chose by it."""
    judgement: Judgement | None
    """The setting on workloads that were held out."""
    advised: tuple[str, Judgement] | None
    """The layout of `weir layout advise` for the training's files, judged; None without a searched layout."""
    are_seeds_alike: bool
    """Whether all held-out workloads gave one figure under the default: then the interval says nothing."""

    def document(self) -> dict[str, Any]:
        """Describe the tuning.

        Returns:
            Values for JSON.
        """
        return {
            "kind": KIND,
            "version": VERSION,
            "found": self.changes or None,
            "default": self.default,
            "training_ratio": self.training_ratio,
            "held_out": None if self.judgement is None else self.judgement.document(),
            "advised": None
            if self.advised is None
            else {"layout": self.advised[0], "held_out": self.advised[1].document()},
            "are_seeds_alike": self.are_seeds_alike,
        }


def tune(
    base: "Document",
    cases: Cases,
    options: Options,
    folder: Path,
    *,
    pool: "Pool",
    progress: Callable[[int, int], object],
) -> Tuned:
    """Search a setting and judge it.

    Args:
        base: The scenario; its settings are the default.
        folder: Folder of the trials, which must be there.
        pool: The place where workloads run.
        progress: Called with the number of trials that are done, and of all.

    Returns:
        The setting and its judgement.

    Raises:
        TuningError: There is nothing to search, or the folder holds another search.
        ScenarioError: A workload is no scenario.
        KeyboardInterrupt: The user ended the search; a second one goes on.
    """
    scenarios = Scenarios(base)
    first, _ = scenarios.of(cases.training[0].changes)
    space = space_of(first, options.parts, policies=options.policies, shares=_shares(base))
    problem = Problem(scenarios, space, options.objective, options.seed)
    defaults = run_cases(problem, {}, cases.training, pool)
    best = search(
        problem,
        cases.training,
        defaults,
        file=folder / STUDY_FILE,
        trials=options.trials,
        starts=_starts(space),
        pool=pool,
        progress=progress,
    )
    changes = {} if best is None else space.changes(best.numbers)
    defaults = run_cases(problem, {}, cases.held_out, pool)
    if all(run.cost is None for run in defaults):
        raise TuningError(f"the default carries no held-out workload: {defaults[0].reason}")
    costs = {run.cost for run in defaults}
    return Tuned(
        changes=changes,
        default=first.settings(),
        training_ratio=None if best is None else math.exp(best.value),
        judgement=judge(cases.held_out, run_cases(problem, changes, cases.held_out, pool), defaults) if best else None,
        advised=_advised(problem, cases, defaults, pool) if "layout" in space.parts else None,
        are_seeds_alike=len(costs) == 1 and len(defaults) > 1,
    )


def objective_words(name: str) -> str:
    """Describe an objective.

    Returns:
        Its meaning, and which values are better.
    """
    each = OBJECTIVES[name]
    return f"{each.meaning}; {'more' if each.is_greater_better else 'less'} is better"


def _starts(space: "Space") -> list[dict[str, Any]]:
    """Points of the space that are tried first; without a searched layout the sampler begins at once."""
    if space.parts != ("layout",):
        return []
    found = [space.numbers_of_layout(components, _KNOWN_STRIPE_BYTES) for components in _KNOWN_LAYOUTS]
    return [numbers for numbers in found if numbers is not None]


def _advised(problem: Problem, cases: Cases, defaults: Sequence[Any], pool: "Pool") -> tuple[str, Judgement]:
    """The layout that a rule fits to the sizes of the training's files, without any run."""
    from weir.placement import tuning

    known = [problem.scenarios.of(case.changes)[0] for case in cases.training]
    speeds = [
        target["write"]["bytes_per_second"]
        for server in known[0].topology.document["servers"]
        for target in server["targets"]
    ]
    rule = tuning.tune(
        [size for scenario in known for size in _sizes(scenario)],
        targets=known[0].topology.targets,
        target_speed=int(sum(speeds) / len(speeds)),
    )
    runs = run_cases(problem, {"layout.components": rule.spelling}, cases.held_out, pool)
    return rule.spelling, judge(cases.held_out, runs, defaults)


def _sizes(scenario: "Scenario") -> list[int]:
    """Bytes of each file that the work of a scenario writes or reads."""
    import numpy

    steps, ends = scenario.workload.steps, scenario.workload.file_bytes.astype(numpy.uint64)
    numpy.maximum.at(ends, steps.file, steps.offset + steps.bytes)
    return [int(size) for size in ends if size]


def _shares(base: "Document") -> list[Any]:
    found: Any = base.table().value("share", [], "an array of tables", lambda value: value)
    return found if isinstance(found, list) else []
