"""The execution of a plan: the points that the ledger lacks, on a pool, each written when it ends."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.simulation.algorithms import identities
from weir.simulation.errors import ScenarioError
from weir.simulation.sweeps.engine import engine_digest
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.evaluation import Answer, Task, evaluate
from weir.simulation.sweeps.ledger import FORMAT_VERSION, Header, Ledger, Record
from weir.simulation.sweeps.plan import Plan, Point, digest_of, workload_digest

if TYPE_CHECKING:
    from weir.simulation.documents import Document
    from weir.simulation.scenario import Scenario
    from weir.simulation.sweeps.pools import Pool

_REGULATING = frozenset(
    (
        *("policy", "scheduler", "share", "allocator", "layout", "lambda"),
        *("exchange_loss", "exchange_delay", "sample", "until", "faults", "mode"),
    )
)
"""Keys of a scenario that touch neither the machines nor the work."""


@dataclass(frozen=True)
class Checked:
    """A plan whose points are all scenarios."""

    plan: Plan
    points: tuple[Point, ...]
    header: Header
    """The header of its ledger."""
    scenarios: "Scenarios"
    """The maker of scenarios."""
    has_slowdowns: bool
    """Whether each job also runs alone."""


class Scenarios:
    """Scenarios of points. The work of points that differ in the store's settings alone is made once."""

    def __init__(self, base: "Document") -> None:
        """Keep no work yet.

        Args:
            base: The scenario that points change.
        """
        self._base = base
        self._known: dict[str, tuple[Scenario, str]] = {}

    def of(self, settings: Mapping[str, Any]) -> "tuple[Scenario, str]":
        """Make the scenario of a point.

        Args:
            settings: The value of each key that varies.

        Returns:
            The scenario, and the digest of its machines and work.

        Raises:
            ScenarioError: The point is no scenario.
        """
        from weir.simulation.scenario import scenario_of

        document = self._base.changed(settings)
        name = digest_of({key: value for key, value in settings.items() if key.partition(".")[0] not in _REGULATING})
        if name in self._known:
            like, digest = self._known[name]
            return scenario_of(document, like=like), digest
        scenario = scenario_of(document)
        self._known[name] = scenario, workload_digest(scenario)
        return self._known[name]


def check(plan: Plan, *, has_slowdowns: bool) -> Checked:
    """Check every point of a plan before the first one runs.

    Args:
        has_slowdowns: Whether each job also runs alone, for its slowdown.

    Returns:
        The plan with the digests of its points.

    Raises:
        SweepFileError: A point is no scenario, or there is none; the error names the file, the line and the key.
    """
    scenarios = Scenarios(plan.base)
    points = []
    works: dict[str, None] = {}
    for settings in plan.points():
        try:
            scenario, work = scenarios.of(settings)
        except ScenarioError as error:
            raise plan.fault(settings, error) from error
        works[work] = None
        decisive = [scenario.settings(), work, has_slowdowns, *identities(scenario)]
        points.append(Point(digest_of(decisive), settings))
    if not points:
        raise plan.error("leave_out leaves no point")
    parts = {f"the values of {key}": digest_of(values) for key, values in plan.axes.items()}
    parts["the machines or the work"] = digest_of(list(works))
    parts["the scenario's settings"] = digest_of([point.key for point in points])
    parts["the build of Weir"] = engine_digest()
    header = Header(plan.document.origin, digest_of([FORMAT_VERSION, parts]), parts, plan.axes)
    return Checked(plan, tuple(points), header, scenarios, has_slowdowns)


def execute(checked: Checked, ledger: Ledger, pool: "Pool", progress: Callable[[int, int], object]) -> None:
    """Run the points that the ledger lacks.

    Args:
        ledger: Its ledger, which gets each point when it ends.
        pool: The place where points run.
        progress: Called with the number of points that are done, and of all.

    Raises:
        SweepError: The pool fails, or one of its workers runs another build of Weir.
        KeyboardInterrupt: The user ended the sweep; the points that ended are in the ledger.
    """
    points = {point.key: point for point in checked.points}
    done = sum(key in ledger.records for key in points)
    progress(done, len(points))
    with closing(pool.answers(evaluate, _tasks(checked, ledger))) as answers:
        for task, answer in answers:
            _check_answer(task, answer)
            ledger.add(Record(task.key, points[task.key].settings, answer.figures, answer.refusal))
            done += 1
            progress(done, len(points))


def _tasks(checked: Checked, ledger: Ledger) -> Iterator[Task]:
    """The tasks that are left; each is made when the pool has room for it. Points of one key are one task."""
    from weir.simulation.runs import prepare

    begun = set(ledger.records)
    for point in checked.points:
        if point.key not in begun:
            begun.add(point.key)
            scenario, _ = checked.scenarios.of(point.settings)
            yield Task(point.key, prepare(scenario), checked.has_slowdowns)


def _check_answer(task: Task, answer: Answer) -> None:
    if answer.build != engine_digest():
        raise SweepError(
            f"a worker runs another build of Weir, so its figures of {task.key} do not count",
            hint="install the same Weir in the environment of all workers",
        )
    if answer.figures is None and answer.refusal is None:
        raise KeyboardInterrupt
