"""The policies that choose between new storage and existing storage (LuxIO, section III-D).

`cost` gives a job the cheapest new storage that is offered, and `performance` the fastest; neither shares it later.
Callers offer to `cost` what is enough for the job. `interference` joins the existing deployment that slows the job down
least, within its threshold, and falls back to a `performance` that later jobs may share.
`utilization` takes the cheapest storage that is there within the job's time window, shared as densely as the thresholds
allow, and falls back to `interference`.

Semantics are constraints: no policy trades them, and neither are budgets or thresholds of slowdown.
"""

import math
from collections.abc import Callable, Container, Sequence

import msgspec

from weir.provisioning.deployments import Policy
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Semantics
from weir.provisioning.sharing.interference_factors import FactorTable, Neighbour, slowdown
from weir.provisioning.sharing.leases import SHARERS_MAX, Existing, has_ended
from weir.provisioning.sharing.prices import PriceList, check_budget, joining_price

FALLBACKS: dict[Policy, Policy | None] = {
    "utilization": "interference",
    "interference": "performance",
    "performance": None,
    "cost": None,
}
"""The policy that follows where one finds nothing."""
OWN: Container[Policy] = ("cost", "performance")
"""The policies of users who did not ask to share: their storage is their own."""
RATES = ("read_bytes_per_second", "write_bytes_per_second", "metadata_operations_per_second")
"""The rates of a guarantee, by which an existing deployment is compared with what a job asks for."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wishes of a job for its storage."""

    name: str
    """Name of the job."""
    policy: Policy = "cost"
    load: Neighbour
    size_bytes: int
    seconds: float
    """Time for which the job needs the storage."""
    guarantees: Guarantees = Guarantees()
    """Rates of the chosen service-level objective; None where the job asks for none."""
    semantics: Semantics = Semantics()
    slowdown_max: float = 1.5
    """Greatest slowdown that the user accepts from sharing."""
    window_seconds: float = 0.0
    """Time for which the user lets `cost` and `utilization` wait for cheaper storage."""
    budget: float | None = None
    """Most node-hours; None is no bound."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that could be made for the job."""

    name: str
    semantics: Semantics
    guarantees: Guarantees
    size_bytes: int
    io_seconds: float
    """Time of the job's I/O that the performance model expects."""
    starts_at: float = 0.0
    """Time in seconds at which its devices are free."""
    price: float = 0.0
    """Node-hours for the job's time, where later jobs may not share."""
    shared_price: float | None = None
    """Node-hours where later jobs may; None is as without."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The storage that a policy chose."""

    policy: Policy
    """The policy that found it: the one that was asked, or one of its fallbacks."""
    candidate: str = ""
    """Name of the chosen candidate; empty where the job joins an existing deployment."""
    joins: str = ""
    """Name of the existing deployment; empty where a new one is made."""
    shareable: bool
    slowdown: float = 1.0
    """Expected slowdown of the job."""
    starts_at: float
    price: float
    passed_over: tuple[str, ...] = ()
    """Reasons against the existing deployments that were not joined, in words."""


class _Joinable(msgspec.Struct, frozen=True, kw_only=True):
    """An existing deployment that the job may join."""

    existing: Existing
    slowdown: float
    starts_at: float
    price: float


class _Offers(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is to be had within the constraints."""

    candidates: Sequence[Candidate]
    joinable: Sequence[_Joinable]
    passed_over: tuple[str, ...]


def choose(
    request: Request,
    candidates: Sequence[Candidate],
    existing: Sequence[Existing],
    *,
    now: float,
    factors: FactorTable,
    prices: PriceList | None = None,
) -> Choice:
    """Choose a job's storage by its policy, and where that finds nothing by the policy's fallbacks.

    Args:
        candidates: Deployments that could be made, in any order.
        existing: Deployments that are there.
        now: Time in seconds.
        factors: Interference factors.
        prices: The prices, for the discount of sharing; None has the default discount.

    Raises:
        ProvisioningError: A number of the request cannot be, no storage keeps its semantics or has room, or the budget
            is below the least price.
    """
    _check(request)
    offers = _offers(request, candidates, existing, now, factors, prices or PriceList())
    policy: Policy | None = request.policy
    while policy is not None:
        found = _POLICIES[policy](request, offers, now)
        if found is not None:
            return found
        policy = FALLBACKS[policy]
    raise _refused(request, candidates, offers)


def unmet(wanted: Semantics, offered: Semantics) -> tuple[str, ...]:
    """Find the semantics that storage lacks.

    Args:
        wanted: Semantics that a job has to have.

    Returns:
        What is missing, in words; empty where nothing is.
    """
    missing = []
    if offered.replicas < wanted.replicas:
        missing.append(f"{wanted.replicas} copies of each byte")
    if wanted.encrypted and not offered.encrypted:
        missing.append("encryption at rest")
    # Files of HDF5 lie on any POSIX file system.
    holds = {offered.representation, "hdf5"} if offered.representation == "posix" else {offered.representation}
    if wanted.representation not in holds:
        missing.append(f"data as {wanted.representation}")
    if wanted.durable and not offered.durable:
        missing.append("bytes that outlive a server's process")
    return tuple(missing)


def sharing_slowdown(request: Request, deployment: Existing, factors: FactorTable) -> float:
    """Expect the slowdown of a job in an existing deployment, beside storage that has the rates that it asks for.

    Args:
        request: The job's request.
        factors: Interference factors.

    Returns:
        The slowdown by the other jobs, times that of a deployment with lower rates than the job asks for.
    """
    lacking = 1.0
    for name in RATES:
        asked, has = getattr(request.guarantees, name), getattr(deployment.guarantees, name)
        if asked:
            lacking = max(lacking, asked / has if has else math.inf)
    return lacking * slowdown(request.load, [each.load for each in deployment.sharers], factors)


def obstacle(request: Request, deployment: Existing, *, now: float, factors: FactorTable) -> str | None:
    """Find the first reason against joining an existing deployment.

    Args:
        request: The job's request.
        now: Time in seconds.
        factors: Interference factors.

    Returns:
        The reason in words, without the deployment's name; None where the job may join.
    """
    if not deployment.shareable or deployment.draining or has_ended(deployment, now):
        return "is not shared" if not deployment.shareable else "takes no more jobs"
    if missing := unmet(request.semantics, deployment.semantics):
        return f"lacks {', '.join(missing)}"
    if request.size_bytes > deployment.free_bytes:
        return (
            f"has room for {deployment.free_bytes} bytes beside its jobs, of {deployment.size_bytes} in all, and"
            f" {request.name} asks for {request.size_bytes}"
        )
    if len(deployment.sharers) >= SHARERS_MAX:
        return f"has {SHARERS_MAX} jobs"
    if deployment.until is not None and max(now, deployment.ready_at) + request.seconds > deployment.until:
        return "ends before the job would"
    own = sharing_slowdown(request, deployment, factors)
    if own > request.slowdown_max:
        return f"would slow the job down {own:.2f} times, and its threshold is {request.slowdown_max:g}"
    for each in deployment.sharers:
        others = [other.load for other in deployment.sharers if other is not each]
        suffered = slowdown(each.load, [*others, request.load], factors)
        if suffered > each.slowdown_max:
            return f"would slow {each.name} down {suffered:.2f} times, and its threshold is {each.slowdown_max:g}"
    return None


def _check(request: Request) -> None:
    if not request.slowdown_max >= 1:
        raise ProvisioningError(
            f"a slowdown of at most {request.slowdown_max:g} cannot be", hint="1 is no slowdown; give 1 or more"
        )
    if request.size_bytes < 1 or not 0 < request.seconds < math.inf or not request.window_seconds >= 0:
        raise ProvisioningError(
            f"{request.name} asks for {request.size_bytes} bytes for {request.seconds:g} s within "
            f"{request.window_seconds:g} s",
            hint="ask for at least a byte and a time above 0, within a window of 0 s or more",
        )


def _offers(
    request: Request,
    candidates: Sequence[Candidate],
    existing: Sequence[Existing],
    now: float,
    factors: FactorTable,
    prices: PriceList,
) -> _Offers:
    """Everything that meets semantics, size, thresholds and the nodes' time; the budget is weighed by the policies."""
    able = [
        each
        for each in candidates
        if not unmet(request.semantics, each.semantics)
        and each.size_bytes >= request.size_bytes
        and each.starts_at < math.inf
    ]
    joinable, passed_over = [], []
    for each in existing:
        reason = obstacle(request, each, now=now, factors=factors)
        if reason is not None:
            passed_over.append(f"{each.name} {reason}")
            continue
        alone = each.price_per_hour * request.seconds / 3600.0
        joinable.append(
            _Joinable(
                existing=each,
                slowdown=sharing_slowdown(request, each, factors),
                starts_at=max(now, each.ready_at),
                price=joining_price(alone, len(each.sharers), prices),
            )
        )
    return _Offers(candidates=able, joinable=joinable, passed_over=tuple(passed_over))


def _performance(request: Request, offers: _Offers, now: float) -> Choice | None:
    """The fastest new storage, whenever it is free."""
    # Only as a fallback may later jobs share the storage: the user of `performance` asked for none.
    shareable = request.policy not in OWN
    affordable = [each for each in offers.candidates if _is_affordable(request, _price(each, shareable=shareable))]
    if not affordable:
        return None
    best = min(
        affordable, key=lambda each: (each.io_seconds, _price(each, shareable=shareable), each.starts_at, each.name)
    )
    return _new(best, "performance", offers, now, shareable=shareable)


def _cost(request: Request, offers: _Offers, now: float) -> Choice | None:
    """The cheapest new storage within the window, or that which is free first."""
    affordable = [each for each in offers.candidates if _is_affordable(request, each.price)]
    latest = now + request.window_seconds
    best = min(
        affordable,
        key=lambda each: (max(each.starts_at, latest), each.price, each.io_seconds, each.name),
        default=None,
    )
    return None if best is None else _new(best, "cost", offers, now, shareable=False)


def _interference(request: Request, offers: _Offers, now: float) -> Choice | None:
    """The existing storage that slows the job down least."""
    affordable = [each for each in offers.joinable if _is_affordable(request, each.price)]
    if not affordable:
        return None
    best = min(affordable, key=lambda each: (each.slowdown, each.price, each.starts_at, each.existing.name))
    return _join(best, "interference", offers)


def _utilization(request: Request, offers: _Offers, now: float) -> Choice | None:
    """The cheapest storage within the window; of equally cheap storage the one that most jobs use."""
    latest = now + request.window_seconds
    choices = [
        (
            (each.price, -len(each.existing.sharers), each.slowdown, each.existing.name),
            _join(each, "utilization", offers),
        )
        for each in offers.joinable
        if each.starts_at <= latest and _is_affordable(request, each.price)
    ]
    choices += [
        (
            (_price(each, shareable=True), 0, each.io_seconds, each.name),
            _new(each, "utilization", offers, now, shareable=True),
        )
        for each in offers.candidates
        if each.starts_at <= latest and _is_affordable(request, _price(each, shareable=True))
    ]
    return min(choices, key=lambda each: each[0])[1] if choices else None


_POLICIES: dict[Policy, Callable[[Request, _Offers, float], Choice | None]] = {
    "cost": _cost,
    "performance": _performance,
    "interference": _interference,
    "utilization": _utilization,
}


def _price(candidate: Candidate, *, shareable: bool) -> float:
    return candidate.shared_price if shareable and candidate.shared_price is not None else candidate.price


def _is_affordable(request: Request, price: float) -> bool:
    # A candidate whose devices are all held has no price, and cannot be had.
    return price < math.inf and (request.budget is None or price <= request.budget)


def _new(candidate: Candidate, policy: Policy, offers: _Offers, now: float, *, shareable: bool) -> Choice:
    return Choice(
        policy=policy,
        candidate=candidate.name,
        shareable=shareable,
        starts_at=max(now, candidate.starts_at),
        price=_price(candidate, shareable=shareable),
        passed_over=offers.passed_over,
    )


def _join(joinable: _Joinable, policy: Policy, offers: _Offers) -> Choice:
    return Choice(
        policy=policy,
        joins=joinable.existing.name,
        shareable=True,
        slowdown=joinable.slowdown,
        starts_at=joinable.starts_at,
        price=joinable.price,
        passed_over=offers.passed_over,
    )


def _refused(request: Request, candidates: Sequence[Candidate], offers: _Offers) -> ProvisioningError:
    """The one reason why a request has no storage, the most basic one first."""
    shareable = request.policy not in OWN
    joinable = offers.joinable if shareable else ()
    reasons = _list(offers.passed_over) if shareable else ""
    if not candidates and not joinable:
        return ProvisioningError(
            f"the cluster has no storage for {request.name}{reasons}", hint="`weir plan resources` shows what is free"
        )
    if not offers.candidates and not joinable:
        return _unfitting(request, candidates, reasons)
    found = [_price(each, shareable=shareable) for each in offers.candidates] + [each.price for each in joinable]
    try:
        check_budget(found, request.budget)
    except ProvisioningError as error:
        return error
    raise AssertionError("a request that something affordable meets is not refused")


def _unfitting(request: Request, candidates: Sequence[Candidate], reasons: str) -> ProvisioningError:
    """The reason why no candidate fits, beside the reasons against existing deployments."""
    lacking = [unmet(request.semantics, each.semantics) for each in candidates]
    if all(lacking):
        fewest = min(lacking, key=lambda each: len(each))
        return ProvisioningError(
            f"no storage here has {', '.join(fewest)}{reasons}",
            hint="semantics are never traded: ask for less, or for another system",
        )
    most = max(each.size_bytes for each, missing in zip(candidates, lacking, strict=True) if not missing)
    if most < request.size_bytes:
        return ProvisioningError(
            f"{request.name} asks for {request.size_bytes} bytes, and the largest storage has {most}{reasons}",
            hint=f"ask for size={most} or less",
        )
    return ProvisioningError(
        f"no storage for {request.name} is free at any time{reasons}", hint="`weir plan resources` shows what is free"
    )


def _list(reasons: Sequence[str]) -> str:
    return f" ({'; '.join(reasons)})" if reasons else ""
