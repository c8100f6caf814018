"""What runs had from their storage: kept, and learned from only where they say something."""

import math
import random
import sqlite3
import statistics
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import planned
import pytest
from seeds import seed
from weir.provisioning.behaviour.classes import built_in
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import Job
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, Sslo, SsloTable, System
from weir.provisioning.outcomes import archive, estimates
from weir.provisioning.outcomes.estimates import MixedModel
from weir.provisioning.outcomes.history import with_demand, with_history
from weir.provisioning.outcomes.outcome import Calls, Kind, Neighbouring, Outcome, job_key, measured_rate, silence_of
from weir.provisioning.planning.explanation import explanation
from weir.provisioning.planning.planner import Plan, Planner
from weir.provisioning.planning.selection import default_prices, known_factors
from weir.provisioning.resources.model import Device, Node, Resources
from weir.provisioning.sharing.demand import demands, requested, settled
from weir.provisioning.sharing.interference_factors import FactorTable
from weir.provisioning.sharing.prices import Demand, DemandPricing

JOB = Job(command=("simulate",), nodes=1, processes=4)
FAST, SLOW = "fast", "slow"
WRITTEN = 10**10


def objective(kind: str, write: float, **left: float) -> Sslo:
    return Sslo(
        name=f"objective-{kind}",
        system=System(device=kind, servers=1),
        guarantees=Guarantees(read_bytes_per_second=write, write_bytes_per_second=write),
        sensitivities=Sensitivities(**left),
    )


TABLE = SsloTable(source="test", sslos=(objective(FAST, 1e9), objective(SLOW, 5e8)))
RESOURCES = Resources(
    nodes=tuple(
        Node(name=kind, devices=(Device(path=f"/{kind}", kind=kind, capacity_bytes=10**13),)) for kind in (FAST, SLOW)
    )
)
IDENTITY = planned.writer(written_bytes=WRITTEN, processes=4, seconds=100.0)


def outcome(kind: str = FAST, *, rate: float = 1e9, written: int = WRITTEN, **changes: Any) -> Outcome:
    """A run that wrote at a rate."""
    made = Outcome(
        begun=1e9,
        job=job_key(JOB),
        behaviour_class="writers",
        sslo=f"objective-{kind}",
        system=System(device=kind, servers=1),
        planned=IDENTITY,
        done=msgspec.structs.replace(IDENTITY, written_bytes=written),
        predicted=Guarantees(write_bytes_per_second=1e9),
        calls={"write": Calls(operations=10**4, bytes=written, seconds=written / rate)},
        covered=1.0,
    )
    return msgspec.structs.replace(made, **changes)


def plan(*outcomes: Outcome, job: Job = JOB, identity: Identity = IDENTITY) -> Plan:
    return Planner(built_in(), TABLE, TABLE.sslos, ()).plan(identity, job, RESOURCES, outcomes=outcomes)


def device(made: Plan) -> str:
    return made.deployment.system.device


SILENT = {
    "a failed program": {"exit_code": 3},
    "a fault of the measurement": {"fault": "a server was started again meanwhile"},
    "no trace": {"calls": {}},
    "a trace of few of the bytes": {"covered": 0.4},
    "calls that took no time": {"calls": {"write": Calls(operations=1, bytes=10**6, seconds=0.01)}},
}


@pytest.mark.parametrize("changes", SILENT.values(), ids=SILENT)
def test_a_run_that_says_nothing_changes_no_plan(changes: dict[str, Any]) -> None:
    slow = outcome(rate=1e7, **changes)
    assert silence_of(slow, "write") and measured_rate(slow, "write") is None
    made, without = plan(*[slow] * 5), plan()
    assert msgspec.structs.replace(made, learned=None) == without
    assert made.learned is not None and (made.learned.runs, made.learned.silent_runs) == (0, 5)
    assert "5 runs here told nothing" in " ".join(explanation(made))
    # The same runs would have moved the plan.
    assert device(plan(outcome(rate=1e7))) == SLOW != device(without)


def test_a_run_beside_others_says_nothing_of_the_storage_alone() -> None:
    crowded = outcome(rate=1e7, neighbours=(Neighbouring(behaviour_class="readers", waited_seconds=900.0),))
    assert device(plan(crowded)) == FAST
    assert device(plan(outcome(rate=1e7, neighbours=(Neighbouring(behaviour_class="readers"),)))) == SLOW


def test_tables_that_are_right_stay_so_under_noise() -> None:
    dice = random.Random(seed())
    runs: list[Outcome] = []
    for _ in range(20):
        made = plan(*runs)
        assert device(made) == FAST
        runs.append(outcome(rate=1e9 / dice.lognormvariate(0.1, 0.2)))
    assert made.learned is not None and made.learned.low < 1.1 < made.learned.high


def test_a_plan_that_was_wrong_makes_the_next_one_better() -> None:
    """What the first kind of devices lacks is learned in a run; the second is worse than told, too, yet the better."""
    rates = {FAST: 1e8, SLOW: 3e8}
    runs: list[Outcome] = []
    chosen = []
    for _ in range(6):
        kind = device(plan(*runs))
        chosen.append(kind)
        runs.append(outcome(kind, rate=rates[kind]))
    assert chosen == [FAST, *[SLOW] * 5]
    made = plan(*runs)
    assert made.learned is not None and made.learned.runs == 5
    assert made.selected.candidate.io_seconds == pytest.approx(WRITTEN / 3e8, rel=0.05)


def test_a_plan_tells_what_was_measured() -> None:
    dice = random.Random(seed())
    words = " ".join(explanation(plan(*(outcome(rate=1e9 / dice.lognormvariate(0, 0.1)) for _ in range(14)))))
    assert "Measured 14 times here, 0." in words and " of what was predicted by the tables; the plan takes" in words
    once = " ".join(explanation(plan(outcome())))
    assert "Measured once here" in once
    assert "Measured" not in " ".join(explanation(plan()))


def test_a_log_alone_finds_the_runs_that_were_planned_from_it() -> None:
    planner = Planner(built_in(), TABLE, TABLE.sslos, ())
    found = planner.plan(IDENTITY, None, RESOURCES, outcomes=[outcome()]).learned
    assert found is not None and found.runs == 1
    newer = msgspec.structs.replace(IDENTITY, written_bytes=WRITTEN + 1)
    other = planner.plan(newer, None, RESOURCES, outcomes=[outcome()]).learned
    assert other is not None and (other.runs, other.other_jobs) == (0, 1)


def test_other_jobs_tell_what_to_expect_each_as_one() -> None:
    many = [outcome(rate=7e8, job="another")] * 30
    made = plan(*many)
    assert made.learned is not None and (made.learned.runs, made.learned.other_jobs) == (0, 1)
    assert "This job was not measured here; by 1 other job on fast" in " ".join(explanation(made))
    # Another job counts as one, however often it ran, and several count for more.
    one, several = plan(*many[:1]).learned, plan(*(outcome(rate=7e8, job=f"job-{each}") for each in range(8))).learned
    assert one is not None and one.ratio == pytest.approx(made.learned.ratio)
    assert several is not None and one.ratio < several.ratio < 1 / 0.7
    # Small calls of other jobs tell nothing of large ones.
    small = msgspec.structs.replace(IDENTITY, small_fraction=1.0, large_fraction=0.0)
    told = plan(outcome(rate=1e7, job="another", planned=small)).learned
    assert told is not None and told.ratio == 1.0


def test_the_work_of_a_job_is_that_of_its_runs_until_a_newer_log_comes() -> None:
    runs = [outcome(written=5 * WRITTEN)] * 3
    made = plan(*runs)
    assert made.learned is not None and made.learned.write_work == pytest.approx(5, rel=0.1)
    assert made.selected.candidate.io_seconds == pytest.approx(5 * WRITTEN / 1e9, rel=0.2)
    assert made.deployment.size_bytes == pytest.approx(5 * 1.25 * WRITTEN, rel=0.1)
    # The store never shrinks for a run that did little.
    assert plan(*[outcome(written=WRITTEN // 5)] * 3).deployment.size_bytes == plan().deployment.size_bytes
    newer = msgspec.structs.replace(IDENTITY, written_bytes=5 * WRITTEN)
    again = plan(*runs, identity=newer)
    assert again.learned is not None and again.learned.write_work == 1.0


def test_a_rate_that_no_table_has_is_learned() -> None:
    identity = msgspec.structs.replace(IDENTITY, metadata_operations=10_000, seconds=1e5)
    before = plan(identity=identity)
    assert before.deployment.expected.metadata_operations_per_second is None
    assert device(before) == FAST
    run = outcome(planned=identity, done=identity)
    run = msgspec.structs.replace(run, calls={**run.calls, "metadata": Calls(operations=10_000, seconds=100.0)})
    # The other kind was never measured, so it is tried.
    assert device(plan(run, identity=identity)) == SLOW
    alone = Resources(nodes=RESOURCES.nodes[:1])
    made = Planner(built_in(), TABLE, TABLE.sslos, ()).plan(identity, JOB, alone, outcomes=(run,))
    found = made.deployment.expected.metadata_operations_per_second
    # One run moves the estimate from the rate that stands for none most of the way to its own.
    assert found is not None and 100 < found < 200


def test_guarantees_classes_and_demand_follow_the_runs() -> None:
    from weir.provisioning.planning.corrections import Corrections
    from weir.provisioning.planning.performance import PerformanceModel

    runs = [outcome(rate=2e8, job=f"job-{number}") for number in range(20)]
    found = Corrections(PerformanceModel(TABLE.sslos), runs, "", {}).objectives(TABLE).sslos
    assert found[0].guarantees.write_bytes_per_second == pytest.approx(2e8, rel=0.2)
    assert found[0].guarantees.read_bytes_per_second == 1e9
    (told,) = Corrections(PerformanceModel(TABLE.sslos), runs, "", {}).guarantees(TABLE)
    assert (told.objective, told.kind, told.jobs) == ("objective-fast", "write", 20)
    assert told.low < told.rate < told.high and told.believed == 1e9
    table = with_history(built_in(), runs)
    assert table.jobs == 337_010 + 20 and len(table.classes) == len(built_in().classes) + 1
    assert with_history(built_in(), [outcome(exit_code=1)]) == built_in()
    hours = [msgspec.structs.replace(each, begun=1e9 + 1800.0 * place) for place, each in enumerate(runs)]
    priced = with_demand(default_prices(), [*hours, outcome(SLOW, owned=False)], 1e9 + 1800 * 20)
    assert priced.demands.keys() == {FAST} and priced.demands[FAST].level == 19
    kept = msgspec.structs.replace(default_prices(), demands={FAST: Demand(level=-3.0)})
    assert with_demand(kept, hours, 1e9).demands == kept.demands


def test_demand_rises_and_falls_by_intervals() -> None:
    pricing = DemandPricing(rise_seconds=10, fall_seconds=100, demand_max=3)
    found = demands([(0, "a"), (5, "a"), (12, "a"), (14, "a"), (15, "a"), (500, "b")], 15, pricing)
    assert (found["a"].level, found["b"].level) == (3, 0)
    assert settled(found["a"], 214.9, pricing).level == 2
    assert settled(settled(found["a"], 120, pricing), 215, pricing).level == 1
    assert settled(found["a"], 1e6, pricing).level == -3
    assert requested(found["a"], 1000, pricing).level == -3
    assert settled(Demand(), 5, pricing) == Demand()


def test_factors_follow_runs_beside_others_where_the_job_ran_alone_too() -> None:
    planner = Planner(built_in(), TABLE, TABLE.sslos, ())
    table = FactorTable(source="t", conditions="t", factors=known_factors().factors[:1])
    beside = (Neighbouring(behaviour_class="readers", waited_seconds=90.0),)
    alone, crowded = [outcome(rate=5e8)] * 6, [outcome(rate=1e8, neighbours=beside)] * 6
    corrections = planner._corrections([*alone, *crowded], "", planner._pools(RESOURCES))
    assert corrections is not None
    from weir.provisioning.planning.learned_factors import learned_factors

    found = learned_factors(table, [*alone, *crowded], corrections)
    (factor,) = [each for each in found.factors if each.one == "writers"]
    assert factor.other == "readers" and factor.runs == 6
    assert factor.slowdown == pytest.approx(5, rel=0.2)
    assert factor.slowdown_max is not None and factor.slowdown_max > factor.slowdown
    only = planner._corrections(crowded, "", planner._pools(RESOURCES))
    assert only is not None and learned_factors(table, crowded, only) == table
    unknown = [msgspec.structs.replace(each, neighbours=(Neighbouring(behaviour_class=""),)) for each in crowded]
    assert learned_factors(table, [*alone, *unknown], corrections) == table


def test_the_mixed_model_is_the_normal_one_conditioned_on_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the covariances written out: a common part, a part of each group, and noise."""
    monkeypatch.setattr(estimates, "OUTLIER", math.inf)
    dice = random.Random(seed())
    for _ in range(50):
        groups = {name: [dice.gauss(0.5, 1) for _ in range(dice.randrange(5))] for name in "abc"}
        model = MixedModel(groups, prior=lambda name: {"a": 0.3, "b": -1.0}.get(name, 0.0))
        names = [name for name, values in groups.items() for _ in values]
        values = np.array([value for found in groups.values() for value in found])
        means = np.array([{"a": 0.3, "b": -1.0}.get(name, 0.0) for name in names])
        same = np.array([[one == other for other in names] for one in names], dtype=float).reshape(
            len(names), len(names)
        )
        covariance = estimates.COMMON_SPREAD**2 + estimates.OWN_SPREAD**2 * same + model._noise * np.eye(len(names))
        for name in "abc":
            own = np.array([each == name for each in names], dtype=float)
            shared = estimates.COMMON_SPREAD**2 + estimates.OWN_SPREAD**2 * own
            expected = {"a": 0.3, "b": -1.0}.get(name, 0.0)
            if len(names):
                expected += float(shared @ np.linalg.solve(covariance, values - means))
            assert math.log(model.of(name).ratio) == pytest.approx(expected, abs=1e-9)
            whole = estimates.COMMON_SPREAD**2 + estimates.OWN_SPREAD**2
            left = whole - float(shared @ np.linalg.solve(covariance, shared)) if len(names) else whole
            assert model._moments(name).variance == pytest.approx(left, abs=1e-9)


def test_an_outlier_moves_few_runs_no_farther_than_its_bound() -> None:
    usual = [0.0, 0.05, -0.05, 0.1]
    far, farther = (MixedModel({"a": [*usual, out]}).of("a") for out in (3.0, 300.0))
    assert far.ratio < MixedModel({"a": [*usual, 0.5]}).of("a").ratio * 1.05
    # The noise is what it was.
    assert farther.high > far.high > MixedModel({"a": usual}).of("a").high


@pytest.mark.parametrize("runs", [1, 2, 5, 15])
def test_intervals_hold_four_in_five_further_runs(runs: int) -> None:
    dice = random.Random(seed())
    inside = []
    for _ in range(4000):
        common, own = dice.gauss(0, estimates.COMMON_SPREAD), dice.gauss(0, estimates.OWN_SPREAD)
        # The noise of real jobs differs, and its prior is an inverse gamma distribution.
        shape = estimates.NOISE_WORTH / 2
        noise = math.sqrt(shape * estimates.NOISE_SPREAD**2 / dice.gammavariate(shape, 1))
        model = MixedModel({"a": [common + own + dice.gauss(0, noise) for _ in range(runs)]})
        found = model.of("a")
        inside.append(found.low <= math.exp(common + own + dice.gauss(0, noise)) <= found.high)
    # Four standard deviations, and what plugging the noise in costs.
    assert statistics.fmean(inside) == pytest.approx(estimates.LEVEL, abs=0.05)


def test_an_archive_keeps_the_latest_and_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "RUNS_MAX", 3)
    monkeypatch.setattr(archive, "OUTCOMES_MAX", 5)
    file = tmp_path / "jobs" / archive.FILE
    assert archive.read(file) == ()
    made = [outcome(begun=float(number), job=f"job-{number % 2}") for number in range(9)]
    for each in made:
        archive.keep(file, each)
    assert archive.read(file) == tuple(made[4:])
    assert file.stat().st_mode & 0o777 == 0o600
    assert archive.forget(file, "job-0") == 3 and {each.job for each in archive.read(file)} == {"job-1"}
    assert archive.forget(file) == 2 and archive.read(file) == ()
    with pytest.raises(ProvisioningError, match="are kept"):
        archive.keep(file, outcome(fault="x" * archive.OUTCOME_BYTES_MAX))


def test_an_archive_that_is_none_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / archive.FILE
    file.write_bytes(b"no database at all" * 100)
    for use in (lambda: archive.read(file), lambda: archive.keep(file, outcome()), lambda: archive.forget(file)):
        with pytest.raises(ProvisioningError, match="cannot be used"):
            use()
    file.unlink()
    archive.keep(file, outcome())
    with sqlite3.connect(file) as base:
        base.execute("UPDATE outcomes SET document = '{\"version\": 9}'")
    with pytest.raises(ProvisioningError, match="cannot be used"):
        archive.read(file)
    with sqlite3.connect(file) as base:
        base.execute("PRAGMA user_version = 9")
    with pytest.raises(ProvisioningError, match="version 9"):
        archive.read(file)


def test_the_kinds_of_calls_are_those_of_needs() -> None:
    from weir.provisioning.outcomes import outcome as outcomes
    from weir.provisioning.planning import needs

    assert outcomes.KINDS == needs.KINDS
    kinds: set[Kind] = {"read", "write", "metadata"}
    assert kinds == set(outcomes.KINDS)
