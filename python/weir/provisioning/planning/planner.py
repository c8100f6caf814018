"""The plan of a job's storage: identity, classes, objective, resources and configuration, one deployment."""

import hashlib
import re
from collections.abc import Sequence

import msgspec

from weir.amounts import rate_text, size_text
from weir.provisioning.behaviour.class_times import JobTime, job_times
from weir.provisioning.behaviour.classes import ClassTable, TimeName
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import Job
from weir.provisioning.jobs.wishes import Wishes, of_hints
from weir.provisioning.objectives.sslo_checks import check_table
from weir.provisioning.objectives.sslo_tables import simulated as simulated_sslos
from weir.provisioning.objectives.sslos import Sslo, SsloTable
from weir.provisioning.outcomes.history import with_demand, with_history
from weir.provisioning.outcomes.outcome import Outcome, job_key
from weir.provisioning.planning.candidates import Candidate, Pool, Task, candidates, pools
from weir.provisioning.planning.corrections import Corrections, Learned
from weir.provisioning.planning.learned_factors import learned_factors
from weir.provisioning.planning.mapping import Coverages, Mapping
from weir.provisioning.planning.needs import KINDS, IoWork, Kind, Needs, needs, rate
from weir.provisioning.planning.performance import PerformanceModel, devices_of
from weir.provisioning.planning.selection import Select, Selected, by_policy, default_prices, known_factors, wanted
from weir.provisioning.resources.model import Resources
from weir.provisioning.sharing.interference_factors import FactorTable
from weir.provisioning.sharing.leases import SHARERS_ROOM
from weir.provisioning.sharing.policies import OWN
from weir.provisioning.sharing.prices import PriceList

SIZE_FACTOR = 1.25
"""Size of a store whose job names none, over the bytes that the job reads and writes: files grow between runs."""
SIZE_MIN = 1 << 30
"""Least size of a store whose job names none."""

SECONDS_DEFAULT = 3600.0
"""Time for which a job holds its storage, where neither its script nor a past run tells."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The deployment of a job, and the way to it."""

    version: int = 1
    """Version of this document."""
    identity: Identity
    mapping: Mapping
    wishes: Wishes
    needs: Needs
    """The rates that the chosen deployment should reach for the job."""
    times: tuple[JobTime, ...] = ()
    """The times that the job's class predicts, where it does and the job is in one."""
    times_refused: dict[TimeName, str] = {}
    """The reasons why the class predicts the other times to no use."""
    selected: Selected
    alternatives: tuple[Candidate, ...]
    """The other candidates, the fastest first."""
    learned: Learned | None = None
    """The results of earlier runs on the chosen storage; None if there are none."""

    @property
    def deployment(self) -> Deployment:
        """The deployment."""
        return self.selected.candidate.deployment

    def _repr_html_(self) -> str:
        """The chosen storage and the other candidates as a table of HTML."""
        from weir.provisioning.planning.plan_table import plan_html

        return plan_html(self)


class Planner:
    """Plans of a site: the tables are evaluated once, and each plan only reads them."""

    def __init__(
        self,
        classes: ClassTable,
        sslos: SsloTable,
        measured: Sequence[Sslo] = (),
        simulated: Sequence[Sslo] | None = None,
    ) -> None:
        """Prepare the plans.

        Args:
            classes: Classes of behaviour.
            sslos: Objectives that jobs are mapped to.
            measured: Objectives from which the performance model is fitted; those of `sslos` without any.
            simulated: Objectives of simulated systems; None for those that come with Weir.

        Raises:
            ProvisioningError: A table is empty, or has a number that cannot be.
        """
        check_table(sslos)
        self._classes = {each.name: each for each in classes.classes}
        self._class_table, self._sslos = classes, sslos
        self._coverages = Coverages(classes.classes, sslos, new_class_fitness=classes.new_class_fitness)
        self._model = PerformanceModel(
            measured or sslos.sslos, simulated_sslos().sslos if simulated is None else simulated
        )
        self._select = by_policy()
        self._last_pools: tuple[Resources, Sequence[Pool]] | None = None

    def _pools(self, resources: Resources) -> Sequence[Pool]:
        """The pools of resources; those of the last ones are kept, because many plans see the same."""
        last = self._last_pools
        if last is None or last[0] is not resources:
            last = self._last_pools = (resources, pools(resources))
        return last[1]

    @property
    def model(self) -> PerformanceModel:
        """The performance model."""
        return self._model

    def map(
        self,
        identity: Identity,
        wishes: Wishes | None = None,
        *,
        job: Job | None = None,
        outcomes: Sequence[Outcome] = (),
    ) -> Mapping:
        """Choose the objective of a job.

        Args:
            wishes: The wishes; None for none.
            job: The job as its scheduler knows it.
            outcomes: Outcomes of earlier deployments, the latest last.

        Returns:
            The choice.
        """
        corrections = self._corrections(outcomes, _key(job, identity, outcomes), ())
        needed = identity if corrections is None else corrections.needed(identity)
        return self._mapped(needed, wishes or Wishes(), outcomes, corrections)

    def plan(
        self,
        identity: Identity,
        job: Job | None,
        resources: Resources,
        *,
        wishes: Wishes | None = None,
        select: Select | None = None,
        name: str = "",
        outcomes: Sequence[Outcome] = (),
    ) -> Plan:
        """Plan the storage of a job.

        Args:
            identity: The job's behaviour.
            job: The job as its scheduler knows it; its hints are wishes.
            wishes: The wishes; None for those of the job's hints.
            select: The way to choose; None for the job's policy with default prices and without interference factors.
            name: Name of the deployment; empty for one that is made of the job.
            outcomes: Outcomes of earlier deployments, the latest last.

        Raises:
            ProvisioningError: No deployment can serve the job; the error says which wish cannot be met.
        """
        wishes = wishes if wishes is not None else of_hints("the job", job.hints if job else {})
        found_pools = self._pools(resources)
        corrections = self._corrections(outcomes, _key(job, identity, outcomes), found_pools)
        logged = identity
        if corrections is not None:
            identity = corrections.needed(logged)
        mapping = self._mapped(identity, wishes, outcomes, corrections)
        task = Task(
            name=name or _name(logged, job),
            identity=identity,
            work=IoWork(identity),
            behaviour_class="" if mapping.is_default else _class(mapping, identity),
            sslo=mapping.sslo,
            needs=needs(identity),
            allowed_seconds=mapping.allowed_seconds,
            # A run may have done less than others will.
            size_bytes=wishes.directives.size_bytes or max(_size(identity), _size(logged)),
            seconds=(job.seconds if job else None) or identity.seconds or SECONDS_DEFAULT,
            wishes=wishes,
            corrections=corrections,
        )
        found = candidates(task, self._model, found_pools)
        sharing = wishes.policy not in OWN and any(wanted(task, each) for each in resources.deployments)
        if not found and not sharing:
            raise _no_candidate(task, resources)
        selected = (select or self._select)(task, _fast_enough(found, task), resources, self._model)
        place = _place(selected.candidate)
        # A class that this site's jobs opened has no times.
        own = None if mapping.is_new_class else self._classes.get(mapping.fitnesses[0].name)
        return Plan(
            identity=identity,
            times=() if own is None else job_times(identity, own),
            times_refused={} if own is None else dict(own.refused.items()),
            mapping=mapping,
            wishes=wishes,
            needs=selected.candidate.needs,
            selected=selected,
            alternatives=tuple(sorted((each for each in found if _place(each) != place), key=_speed)),
            learned=None if corrections is None else corrections.learned(selected.candidate.deployment.system, logged),
        )

    def selecting(
        self,
        outcomes: Sequence[Outcome],
        resources: Resources,
        *,
        now: float,
        price_list: PriceList | None = None,
        factors: FactorTable | None = None,
        sharers_room: float = SHARERS_ROOM,
    ) -> Select:
        """Choose by the policy of the job, with the demand and the interference that outcomes show.

        Args:
            outcomes: Outcomes of earlier deployments, the latest last.
            now: Time in seconds since 1970.
            price_list: As for `by_policy`.
            factors: As for `by_policy`.
            sharers_room: As for `by_policy`.

        Returns:
            The way to choose.
        """
        corrections = self._corrections(outcomes, "", self._pools(resources))
        if corrections is not None:
            price_list = with_demand(price_list or default_prices(), outcomes, now)
            factors = learned_factors(factors or known_factors(), outcomes, corrections)
        return by_policy(price_list, factors, sharers_room=sharers_room)

    def _corrections(self, outcomes: Sequence[Outcome], job: str, found: Sequence[Pool]) -> Corrections | None:
        if not outcomes:
            return None
        devices = {pool.kind: (pool.read_bytes_per_second, pool.write_bytes_per_second) for pool in reversed(found)}
        return Corrections(self._model, outcomes, job, devices)

    def _mapped(
        self, identity: Identity, wishes: Wishes, outcomes: Sequence[Outcome], corrections: Corrections | None
    ) -> Mapping:
        """The objective of a job, by the guarantees that were measured and the classes that were met."""
        if corrections is None:
            return self._coverages.map(identity, wishes.semantics)
        table = with_history(self._class_table, outcomes)
        objectives = corrections.objectives(self._sslos)
        found = Coverages(table.classes, objectives, new_class_fitness=table.new_class_fitness)
        return found.map(identity, wishes.semantics)


def plan(
    identity: Identity,
    job: Job | None,
    resources: Resources,
    *,
    classes: ClassTable,
    sslos: SsloTable,
    wishes: Wishes | None = None,
    select: Select | None = None,
) -> Deployment:
    """Plan the storage of one job; a program with many jobs keeps a `Planner`.

    Args:
        identity: The job's behaviour.
        job: The job as its scheduler knows it; its hints are wishes.
        classes: Classes of behaviour.
        sslos: Objectives that jobs are mapped to.
        wishes: The wishes; None for those of the job's hints.
        select: The way to choose; None for the job's policy with default prices and without interference factors.

    Raises:
        ProvisioningError: No deployment can serve the job; the error says which wish cannot be met.
    """
    return Planner(classes, sslos).plan(identity, job, resources, wishes=wishes, select=select).deployment


def _class(mapping: Mapping, identity: Identity) -> str:
    """The class by which interference is foreseen: the nearest one, or the job's own."""
    return identity.name if mapping.is_new_class else mapping.fitnesses[0].name


def _speed(each: Candidate) -> tuple[float, float, int, str]:
    return each.io_seconds, each.wait_seconds, _devices(each), each.deployment.system.device


def _devices(each: Candidate) -> int:
    return devices_of(each.deployment.system)


def _place(each: Candidate) -> object:
    return each.deployment.servers, each.deployment.joins


def _name(identity: Identity, job: Job | None) -> str:
    """The program and a short digest: the same job has the same name."""
    content = msgspec.json.encode((identity, job))
    digest = hashlib.blake2b(content, digest_size=4).hexdigest()
    program = re.sub(r"[^A-Za-z0-9]+", "-", identity.program)[:32].strip("-")
    return f"{program or 'job'}-{digest}"


def _key(job: Job | None, identity: Identity, outcomes: Sequence[Outcome]) -> str:
    """Key of a job; without one, that of the last run which was planned from the same log."""
    if job is not None:
        return job_key(job)

    def record(each: Identity) -> object:
        return each.program, each.read_bytes, each.written_bytes, each.metadata_operations

    return next((each.job for each in reversed(outcomes) if record(each.planned) == record(identity)), "")


def _size(identity: Identity) -> int:
    return max(SIZE_MIN, int(SIZE_FACTOR * (identity.read_bytes + identity.written_bytes)))


def _fast_enough(found: Sequence[Candidate], task: Task) -> Sequence[Candidate]:
    """The candidates that reach the rates that the user asked for."""
    wishes = task.wishes
    asked: dict[Kind, float | None] = {
        "read": wishes.read_bytes_per_second,
        "write": wishes.write_bytes_per_second,
    }
    for kind in KINDS:
        least = asked.get(kind)
        if least is None:
            continue
        enough = [each for each in found if (rate(each.deployment.expected, kind) or 0.0) >= least * (1 - 1e-9)]
        if not found:
            break
        if not enough:
            best = max(found, key=lambda each: rate(each.deployment.expected, kind) or 0.0)
            system = best.deployment.system
            raise ProvisioningError(
                f"no deployment {kind}s {rate_text(least)}: the fastest reaches"
                f" {rate_text(rate(best.deployment.expected, kind) or 0.0)} by {system.servers} of {system.device}",
                hint=f"ask for a lower `{kind}`, or let the plan use more devices",
            )
        found = enough
    return found


def _no_candidate(task: Task, resources: Resources) -> ProvisioningError:
    """The reason why nothing can serve a job."""
    nodes = [node for node in resources.nodes if node.usable and node.devices]
    if not nodes:
        return ProvisioningError(
            "the resources have no usable node with a device",
            hint="name nodes with devices in the resource model, or use `local`",
        )
    kinds = task.wishes.devices
    if kinds and not set(kinds) & set(resources.kinds):
        return ProvisioningError(
            f"no usable node has a device of class {' or '.join(kinds)}",
            hint=f"the classes of the resources are {', '.join(resources.kinds)}",
        )
    room: dict[str, int] = {}
    for node in nodes:
        for device in node.devices:
            if not kinds or device.kind in kinds:
                room[device.kind] = room.get(device.kind, 0) + device.room
    kind = max(sorted(room), key=lambda each: room[each])
    if room[kind] >= task.size_bytes:
        return ProvisioningError(
            f"devices of class {kind} have room for {size_text(task.size_bytes)} together, and not in equal targets, or"
            " nothing is known of their rates",
            hint="give the devices' rates in the resource model, or ask for a smaller `size`",
        )
    return ProvisioningError(
        f"no class of devices has room for {size_text(task.size_bytes)}: {kind} has the most, {size_text(room[kind])}",
        hint="ask for a smaller `size`",
    )
