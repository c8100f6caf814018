"""Corrections of expected rates by the outcomes of earlier deployments.

Each run is compared with what the tables expect of its system for its job now, so outcomes stay of use when tables
change. Runs of the job itself count most. Other jobs with such calls tell what to expect of a class of devices before
the job has run there: each of them counts as one, however often it ran.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import msgspec

from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives.sslos import Guarantees, Sslo, SsloTable, System
from weir.provisioning.outcomes.estimates import COMMON_SPREAD, Estimate, MixedModel
from weir.provisioning.outcomes.outcome import KINDS, Kind, Outcome, measured_rate, silence
from weir.provisioning.planning.needs import REFERENCE_RATES, effective, rate, work
from weir.provisioning.planning.performance import Expectation, PerformanceModel, devices_of

WORK_TOLERANCE = 0.1
"""Runs of a job whose plan knew another amount of work, by more than this part, say nothing of the present plan's: a
newer log was given."""
Group = tuple[str, str]
"""Product and class of devices: such systems share a correction."""
Size = Literal["", "small", "medium", "large"]
"""Size of calls, by the bounds of Darshan's counters: jobs tell of others whose calls are alike."""
DeviceRates = tuple[float | None, float | None]
"""Bytes per second that one device reads and writes; None where nothing tells."""
_FIELDS: dict[Kind, str] = {
    "read": "read_bytes_per_second",
    "write": "write_bytes_per_second",
    "metadata": "metadata_operations_per_second",
}

_WORK: dict[Kind, tuple[str, ...]] = {
    "read": ("read_bytes", "read_operations"),
    "write": ("written_bytes", "write_operations"),
    "metadata": ("metadata_operations", "local_operations"),
}


class Learned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The results of earlier runs for a plan's storage: ratios of measured times to the times that the tables
    predict."""

    runs: int
    """Runs of the job on such storage that say something."""
    silent_runs: int = 0
    """Runs of the job on such storage that say nothing."""
    silent_reason: str = ""
    """The reason of the last of them."""
    low: float = 1.0
    high: float = 1.0
    """Ends of the interval in which four in five further runs lie."""
    ratio: float = 1.0
    """The ratio that the plan takes."""
    other_jobs: int = 0
    """Other jobs whose runs on such devices say something."""
    read_work: float = 1.0
    """Bytes that the job reads over those of its log, by its own runs."""
    write_work: float = 1.0


class Guaranteed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rate of an objective, by what jobs had from its devices here, in bytes or operations per second."""

    objective: str
    kind: Kind
    believed: float
    """The rate of the table."""
    rate: float
    low: float
    high: float
    """Ends of the interval in which the rates of four in five further jobs lie."""
    jobs: int


@dataclass(frozen=True)
class _Run:
    """The logarithm of measured over predicted time, of one kind of calls in one run."""

    job: str
    group: Group
    size: Size
    value: float


class Corrections:
    """The corrections for the plans of one job."""

    def __init__(
        self, model: PerformanceModel, outcomes: Sequence[Outcome], job: str, devices: Mapping[str, DeviceRates]
    ) -> None:
        """Compare outcomes with the tables.

        Args:
            outcomes: Outcomes of this job and of others, the latest last.
            job: Key of the job.
            devices: Rates of one device of each class, as the site's resources have them.
        """
        self._job, self._model = job, model
        self._outcomes, self._devices = outcomes, devices
        self._estimates: dict[tuple[Kind, Size, Group], Estimate] = {}
        self._others: dict[str, Corrections] = {}
        self._runs = {kind: [run for each in outcomes for run in self._run(each, kind)] for kind in KINDS}
        self._models: dict[tuple[Kind, Size], MixedModel[Group]] = {}

    def _run(self, outcome: Outcome, kind: Kind) -> "Sequence[_Run]":
        measured = measured_rate(outcome, kind)
        if measured is None or not outcome.is_alone:
            return ()
        expected = self._expect(outcome.system)
        rates = Guarantees()
        if expected is not None:
            rates = effective(outcome.planned, expected.guarantees, expected.sensitivities)
        predicted = rate(rates, kind) or _reference(kind, outcome.system)
        value = math.log(predicted / measured)
        return (_Run(outcome.job, group_of(outcome.system), _size(outcome.planned, kind), value),)

    def _expect(self, system: System) -> Expectation | None:
        """The rates that the tables expect."""
        read, write = self._devices.get(system.device, (None, None))
        return self._model.expect(system, device_read_bytes_per_second=read, device_write_bytes_per_second=write)

    def _fitted(self, kind: Kind, size: Size) -> MixedModel[Group]:
        """The model of the job's runs, whose prior is the model of other jobs with such calls."""
        key = (kind, size)
        if key not in self._models:
            pool = MixedModel(
                _means(run for run in self._runs[kind] if run.job != self._job and run.size == size),
                noise=COMMON_SPREAD,
            )
            own: dict[Group, list[float]] = {}
            for run in self._runs[kind]:
                if run.job == self._job:
                    own.setdefault(run.group, []).append(run.value)
            self._models[key] = MixedModel(own, prior=lambda group: math.log(pool.of(group).ratio))
        return self._models[key]

    def estimate(self, kind: Kind, system: System, identity: Identity) -> Estimate:
        """Estimate the time of one kind of calls over that which the tables predict.

        Args:
            identity: The job whose calls they are.
        """
        key = (kind, _size(identity, kind), group_of(system))
        if key not in self._estimates:
            self._estimates[key] = self._fitted(kind, key[1]).of(key[2])
        return self._estimates[key]

    def corrected(self, system: System, expected: Expectation, identity: Identity) -> Expectation:
        """Correct the expected rates of a system for a job.

        A kind of calls for which no table has a rate has that of the job's own runs, and without any stays unknown.
        """
        changes: dict[str, float] = {}
        for kind in KINDS:
            if not self._runs[kind]:
                continue
            found = self.estimate(kind, system, identity)
            base = rate(expected.guarantees, kind)
            if base is None and found.runs:
                base = _reference(kind, system)
            if base is not None:
                changes[_FIELDS[kind]] = base / found.ratio
        if not changes:
            return expected
        return msgspec.structs.replace(expected, guarantees=msgspec.structs.replace(expected.guarantees, **changes))

    def alone(self, outcome: Outcome) -> Guarantees:
        """The rates that the job of an outcome has alone on such storage, by its own runs.

        Returns:
            The rates; None for kinds of calls that no run of the job alone tells of.
        """
        expected = self._expect(outcome.system)
        if expected is None:
            return Guarantees()
        own = self if outcome.job == self._job else self._of_job(outcome.job)
        before = effective(outcome.planned, expected.guarantees, expected.sensitivities)
        found = Guarantees()
        for kind in KINDS:
            estimate = own.estimate(kind, outcome.system, outcome.planned)
            if estimate.runs:
                reached = (rate(before, kind) or _reference(kind, outcome.system)) / estimate.ratio
                found = msgspec.structs.replace(found, **{_FIELDS[kind]: reached})
        return found

    def _of_job(self, job: str) -> "Corrections":
        """The corrections for another job."""
        if job not in self._others:
            self._others[job] = Corrections(self._model, self._outcomes, job, self._devices)
        return self._others[job]

    def needed(self, identity: Identity) -> Identity:
        """Correct the work of a job by that of its own runs.

        Returns:
            The identity with the bytes and calls that its runs did; the same one where none of them tells.
        """
        changes: dict[str, int] = {}
        for kind, names in _WORK.items():
            factor = self._work(identity, kind)
            if factor is not None:
                changes |= {name: round(getattr(identity, name) * factor) for name in names}
        return msgspec.structs.replace(identity, **changes) if changes else identity

    def _work(self, identity: Identity, kind: Kind) -> float | None:
        """The median of the job's work over that of its log; None where no run tells."""
        planned, found = work(identity, kind), []
        for each in self._outcomes:
            if each.job != self._job or silence(each) or not planned:
                continue
            done, known = work(each.done, kind), work(each.planned, kind)
            if done > 0 and abs(known / planned - 1.0) <= WORK_TOLERANCE:
                found.append(math.log(done / planned))
        return MixedModel({kind: found}).of(kind).ratio if found else None

    def guarantees(self, table: SsloTable) -> tuple[Guaranteed, ...]:
        """Correct the guarantees of objectives by the runs of all jobs whose calls are large.

        Returns:
            The rates of objectives on whose devices some run tells.
        """
        pools = {
            kind: MixedModel(_means(run for run in self._runs[kind] if run.size in ("", "large")), noise=COMMON_SPREAD)
            for kind in KINDS
        }
        found = []
        for each in table.sslos:
            for kind, pool in pools.items():
                told, base = pool.of(group_of(each.system)), rate(each.guarantees, kind)
                if base is not None and told.runs:
                    found.append(
                        Guaranteed(
                            objective=each.name,
                            kind=kind,
                            believed=base,
                            rate=base / told.ratio,
                            low=base / told.high,
                            high=base / told.low,
                            jobs=told.runs,
                        )
                    )
        return tuple(found)

    def objectives(self, table: SsloTable) -> SsloTable:
        """Put measured guarantees in the place of those of a table.

        Returns:
            The table; an objective on whose devices no run tells stays as it is.
        """
        changes: dict[str, dict[str, float]] = {}
        for told in self.guarantees(table):
            changes.setdefault(told.objective, {})[_FIELDS[told.kind]] = told.rate

        def corrected(each: Sslo) -> Sslo:
            rates = msgspec.structs.replace(each.guarantees, **changes[each.name])
            return msgspec.structs.replace(each, guarantees=rates)

        sslos = tuple(corrected(each) if each.name in changes else each for each in table.sslos)
        return msgspec.structs.replace(table, sslos=sslos)

    def learned(self, system: System, identity: Identity) -> Learned | None:
        """Sum up what is known of a job on a system, over all kinds of its calls.

        Returns:
            The sum; None where no run tells anything of it.
        """
        group = group_of(system)
        own = [each for each in self._outcomes if each.job == self._job and group_of(each.system) == group]
        silent = [reason for each in own if (reason := _silence(each))]
        others = {run.job for kind in KINDS for run in self._runs[kind] if run.group == group} - {self._job}
        expected = self._expect(system)
        if expected is None or not (own or others):
            return None
        before = effective(identity, expected.guarantees, expected.sensitivities)
        totals = dict.fromkeys(("ratio", "low", "high"), 0.0)
        base = 0.0
        for kind in KINDS:
            amount = work(identity, kind)
            if not amount:
                continue
            found = self.estimate(kind, system, identity)
            seconds = amount / (rate(before, kind) or _reference(kind, system))
            base += seconds
            for name in totals:
                totals[name] += seconds * getattr(found, name)
        parts = {name: total / base if base else 1.0 for name, total in totals.items()}
        return Learned(
            runs=len(own) - len(silent),
            silent_runs=len(silent),
            silent_reason=silent[-1] if silent else "",
            other_jobs=len(others),
            read_work=self._work(identity, "read") or 1.0,
            write_work=self._work(identity, "write") or 1.0,
            **parts,
        )


def group_of(system: System) -> Group:
    """The group of a system."""
    return system.kind, system.device


def _means(runs: Iterable[_Run]) -> dict[Group, list[float]]:
    """The mean of each job in each group."""
    jobs: dict[tuple[Group, str], list[float]] = {}
    for run in runs:
        jobs.setdefault((run.group, run.job), []).append(run.value)
    found: dict[Group, list[float]] = {}
    for (group, _), values in jobs.items():
        found.setdefault(group, []).append(fmean(values))
    return found


def _size(identity: Identity, kind: Kind) -> Size:
    """The size of most of a job's calls; operations on names have none."""
    if kind == "metadata":
        return ""
    medium = 1.0 - identity.small_fraction - identity.large_fraction
    parts: dict[Size, float] = {"small": identity.small_fraction, "medium": medium, "large": identity.large_fraction}
    return max(parts, key=lambda each: parts[each])


def _reference(kind: Kind, system: System) -> float:
    """A rate beside which a measured one is written down where no table has any."""
    return REFERENCE_RATES[kind] * devices_of(system)


def _silence(outcome: Outcome) -> str:
    return silence(outcome) or ("" if outcome.is_alone else "other jobs used the store meanwhile")
