"""The choice among candidates and existing deployments: the policies of `policies.py`, with prices and interference."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from weir.provisioning.deployments import Policy
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, System
from weir.provisioning.planning.candidates import Candidate, Task, needs_beside, reached
from weir.provisioning.planning.mapping import ALIKE_TIMES
from weir.provisioning.planning.needs import effective, io_seconds
from weir.provisioning.planning.performance import PerformanceModel, devices_of
from weir.provisioning.planning.sharers_room import with_sharers_room
from weir.provisioning.resources.model import Resources, Running
from weir.provisioning.sharing import interference_factors, leases, policies, prices
from weir.provisioning.sharing.interference_factors import FactorTable, Neighbour
from weir.provisioning.sharing.leases import SHARERS_ROOM
from weir.provisioning.sharing.prices import COST_DEFAULT, COSTS, PriceList, Tier


class Rival(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The storage that another policy would have made."""

    policy: Policy
    system: System
    io_seconds: float
    wait_seconds: float
    price: float


class Selected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The chosen storage."""

    candidate: Candidate
    """Its deployment has its price and slowdown, and joins the existing one where that was chosen."""
    policy: Policy
    """The policy that found it: the one that was asked, or one of its fallbacks."""
    passed_over: tuple[str, ...] = ()
    """Reasons against the existing deployments that were not joined, in words."""
    rival: Rival | None = None
    """The storage of `cost` beside that of `performance`, and of `performance` beside any other; None where both are
    the same."""


Select = Callable[[Task, Sequence[Candidate], Resources, PerformanceModel], Selected]
"""A way to choose: it gets the candidates, of which there may be none, and the resources, and raises
`ProvisioningError` where it permits nothing."""


def by_policy(
    price_list: PriceList | None = None, factors: FactorTable | None = None, *, sharers_room: float = SHARERS_ROOM
) -> Select:
    """Choose by the policy of the job.

    Args:
        price_list: Prices of the administrator; None for `COSTS`. Counts of devices are taken from the resources.
        factors: Interference factors; None for those that come with Weir. Without any, no job joins another's storage.
        sharers_room: Room of new storage for jobs that join later, over the size of its own job.

    Returns:
        The way to choose.
    """
    given = price_list or default_prices()
    prices.check(given)
    known = factors or known_factors()

    last: list[tuple[Resources, PriceList]] = []

    def counted(resources: Resources) -> PriceList:
        # Many plans see the same resources.
        found = last[0] if last else None
        if found is None or found[0] is not resources:
            found = (resources, _counted(given, resources))
            last[:] = [found]
        return found[1]

    def select(task: Task, found: Sequence[Candidate], resources: Resources, model: PerformanceModel) -> Selected:
        selected = _select(task, found, resources, model, counted(resources), known)
        deployment = selected.candidate.deployment
        if not deployment.shareable or deployment.joins:
            return selected
        roomy = with_sharers_room(deployment, resources, sharers_room)
        return msgspec.structs.replace(
            selected, candidate=msgspec.structs.replace(selected.candidate, deployment=roomy)
        )

    return select


def default_prices() -> PriceList:
    """The prices where the administrator sets none."""
    return PriceList(
        tiers=tuple(Tier(device=device, cost=cost, total=0, free=0) for device, cost in COSTS.items()),
        default_cost=COST_DEFAULT,
    )


def known_factors() -> FactorTable:
    """The factors that come with Weir, or none: a table may be left out of a package."""
    try:
        return interference_factors.built_in()
    except FileNotFoundError:
        return FactorTable(source="", conditions="", factors=())


def _counted(price_list: PriceList, resources: Resources) -> PriceList:
    """The prices with the devices that the resources have."""
    total: dict[str, int] = {}
    free: dict[str, int] = {}
    for node in resources.nodes:
        for device in node.devices:
            total[device.kind] = total.get(device.kind, 0) + 1
            held = not node.usable or node.free_in_seconds > 0 or device.room == 0
            free[device.kind] = free.get(device.kind, 0) + (not held)
    tiers = tuple(
        # A class of which nothing is free has the price of its last device: who waits for it pays as much.
        Tier(device=tier.device, cost=tier.cost, total=total[tier.device], free=max(1, free[tier.device]))
        for tier in price_list.tiers
        if tier.device in total
    )
    return msgspec.structs.replace(price_list, tiers=tiers)


def _select(
    task: Task,
    found: Sequence[Candidate],
    resources: Resources,
    model: PerformanceModel,
    price_list: PriceList,
    factors: FactorTable,
) -> Selected:
    offers = {f"{place}": each for place, each in enumerate(found)}
    running = {each.deployment.name: each for each in resources.deployments if wanted(task, each)}

    def choose(among: Mapping[str, Candidate], policy: Policy) -> policies.Choice:
        return policies.choose(
            msgspec.structs.replace(_request(task), policy=policy),
            [_offer(name, each, task, price_list) for name, each in among.items()],
            [_existing(each, model) for each in running.values()],
            now=0.0,
            factors=factors,
            prices=price_list,
        )

    adequate = _adequate(task, offers)
    try:
        choice = choose(adequate, task.wishes.policy)
    except ProvisioningError:
        # A budget or window may rule the adequate ones out; less is better than nothing.
        choice = choose(adequate := offers, task.wishes.policy)
    rival = _rival(choice, lambda policy: choose(adequate, policy), offers)
    chosen = _joined(task, running[choice.joins], model) if choice.joins else offers[choice.candidate]
    deployment = msgspec.structs.replace(
        chosen.deployment,
        shareable=choice.shareable,
        slowdown=choice.slowdown,
        price=choice.price,
    )
    return Selected(
        candidate=msgspec.structs.replace(chosen, deployment=deployment, wait_seconds=choice.starts_at),
        policy=choice.policy,
        passed_over=choice.passed_over,
        rival=rival,
    )


def _rival(
    choice: policies.Choice, choose: Callable[[Policy], policies.Choice], offers: Mapping[str, Candidate]
) -> Rival | None:
    """The other end between the cheapest and the fastest new storage."""
    policy: Policy = "cost" if choice.policy == "performance" else "performance"
    try:
        other = choose(policy)
    except ProvisioningError:
        return None
    if other.candidate == choice.candidate:
        return None
    candidate = offers[other.candidate]
    return Rival(
        policy=policy,
        system=candidate.deployment.system,
        io_seconds=candidate.io_seconds,
        wait_seconds=other.starts_at,
        price=other.price,
    )


def _adequate(task: Task, offers: Mapping[str, Candidate]) -> dict[str, Candidate]:
    """The candidates that reach the needed speed, or come nearest: a policy weighs prices among these alone.

    Those that are there within the job's window are compared among themselves, and so are those that come later.
    """
    window = task.wishes.directives.window_seconds or 0.0
    able = {
        name: each
        for name, each in offers.items()
        if not policies.unmet(task.wishes.semantics, each.deployment.semantics)
    }
    best: dict[bool, float] = {}
    for each in able.values():
        late = each.wait_seconds > window
        best[late] = max(best.get(late, 0.0), each.reached)
    return {
        name: each for name, each in able.items() if each.reached * ALIKE_TIMES >= best[each.wait_seconds > window]
    } or dict(offers)


def wanted(task: Task, running: Running) -> bool:
    """Whether a job's user wants the devices of an existing deployment.

    Returns:
        Whether it has storage of its own, on devices of a class that the plan may use.
    """
    system = running.deployment.system
    return not running.deployment.joins and (not task.wishes.devices or system.device in task.wishes.devices)


def _request(task: Task) -> policies.Request:
    wishes = task.wishes
    return policies.Request(
        name=task.name,
        policy=wishes.policy,
        load=Neighbour(behaviour_class=task.behaviour_class, processes=task.identity.processes),
        size_bytes=task.size_bytes,
        seconds=task.seconds,
        guarantees=Guarantees(**msgspec.structs.asdict(needs_beside(task, task.sslo.sensitivities))),
        semantics=wishes.semantics,
        slowdown_max=wishes.slowdown_max,
        window_seconds=wishes.directives.window_seconds or 0.0,
        budget=wishes.directives.budget,
    )


def _offer(name: str, candidate: Candidate, task: Task, price_list: PriceList) -> policies.Candidate:
    deployment = candidate.deployment
    devices = {deployment.system.device: devices_of(deployment.system)}
    price, shared = (
        prices.deployment_price(devices, task.seconds, price_list, shareable=shareable) for shareable in (False, True)
    )
    return policies.Candidate(
        name=name,
        semantics=deployment.semantics,
        guarantees=deployment.expected,
        size_bytes=deployment.expected.capacity_bytes or deployment.size_bytes,
        io_seconds=candidate.io_seconds,
        starts_at=candidate.wait_seconds,
        price=price,
        shared_price=shared,
    )


def _existing(running: Running, model: PerformanceModel) -> leases.Existing:
    there = leases.existing(
        running.deployment, price_per_hour=running.price_per_hour, ready_at=running.ready_in_seconds
    )
    if there.guarantees.metadata_operations_per_second is None and devices_of(running.deployment.system) > 0:
        # Names have no pattern, so their rate is the same for each job.
        expected = model.expect(running.deployment.system)
        names = None if expected is None else expected.guarantees.metadata_operations_per_second
        rates = msgspec.structs.replace(there.guarantees, metadata_operations_per_second=names)
        there = msgspec.structs.replace(there, guarantees=rates)
    return msgspec.structs.replace(
        there,
        draining=running.draining,
        until=running.until_in_seconds,
        sharers=running.sharers,
        idle_since=None if running.idle_for_seconds is None else -running.idle_for_seconds,
    )


def _joined(task: Task, running: Running, model: PerformanceModel) -> Candidate:
    """The existing deployment as the job sees it."""
    there = running.deployment
    known = model.expect(there.system)
    expected = None if known is None else task.corrected(there.system, known)
    rates, needed = there.expected, task.needs
    part = reached(task, rates, Sensitivities())
    if expected is not None:
        needed = needs_beside(task, expected.sensitivities)
        rates = effective(task.identity, expected.guarantees, expected.sensitivities)
        part = reached(task, expected.guarantees, expected.sensitivities)
    return Candidate(
        deployment=msgspec.structs.replace(
            there,
            name=task.name,
            identity=task.identity.name,
            behaviour_class=task.behaviour_class,
            sslo=task.sslo.name,
            policy=task.wishes.policy,
            servers=(),
            joins=there.name,
            size_bytes=task.size_bytes,
            expected=rates,
            stage_in=task.wishes.directives.stage_in,
            stage_out=task.wishes.directives.stage_out,
        ),
        io_seconds=io_seconds(task.identity, rates),
        wait_seconds=running.ready_in_seconds,
        needs=needed,
        reached=part,
        basis=expected.basis if expected is not None else "measured",
    )
