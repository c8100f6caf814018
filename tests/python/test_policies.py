"""Sharing policies, leases and prices: the laws that hold for all requests, and the words of refusals."""

import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest
import schemas
from hypothesis import given
from hypothesis import strategies as st
from interference import CLASSES, TABLE
from sharing_over_time import demand_at, joined, left, requested
from weir.provisioning.deployments import Deployment, Policy
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Semantics, System
from weir.provisioning.sharing import policies
from weir.provisioning.sharing.interference_factors import (
    Neighbour,
    pair_slowdown,
    read_table,
    slowdown,
    written,
)
from weir.provisioning.sharing.leases import Existing, Sharer, ends_at, existing, has_ended
from weir.provisioning.sharing.policies import Candidate, Choice, Request, choose, unmet
from weir.provisioning.sharing.prices import (
    Demand,
    DemandPricing,
    PriceList,
    Tier,
    availability_price,
    check,
    check_budget,
    demand_factor,
    deployment_price,
    joining_price,
    read_prices,
)

NOW = 1000.0
SEMANTICS = st.builds(
    Semantics,
    replicas=st.integers(1, 3),
    encrypted=st.booleans(),
    representation=st.sampled_from(("posix", "object", "hdf5")),
    durable=st.booleans(),
)
RATES = st.none() | st.floats(1e6, 1e9)
GUARANTEES = st.builds(
    Guarantees, read_bytes_per_second=RATES, write_bytes_per_second=RATES, metadata_operations_per_second=RATES
)
LOADS = st.builds(
    Neighbour,
    behaviour_class=st.sampled_from(CLASSES),
    processes=st.integers(1, 64),
    nodes=st.lists(st.sampled_from(("a", "b", "c")), max_size=2, unique=True).map(tuple),
)
PLAIN = Semantics()
THRESHOLDS = st.just(math.inf) | st.floats(1, 8)


@st.composite
def existings(draw: Any) -> Existing:
    sharers = tuple(
        Sharer(
            name=f"job{number}",
            load=draw(LOADS),
            slowdown_max=draw(THRESHOLDS),
            size_bytes=draw(st.integers(0, 50)),
        )
        for number in range(draw(st.integers(0, 4)))
    )
    return Existing(
        name=draw(st.sampled_from(("one", "two", "three"))),
        shareable=draw(st.sampled_from((True, True, False))),
        draining=draw(st.sampled_from((False, False, True))),
        semantics=draw(st.just(PLAIN) | SEMANTICS),
        guarantees=draw(GUARANTEES),
        size_bytes=draw(st.integers(1, 300)),
        lease_seconds=draw(st.floats(0, 2000)),
        ready_at=draw(st.sampled_from((0.0, NOW + 60))),
        until=draw(st.none() | st.floats(NOW - 10, NOW + 9000)),
        price_per_hour=draw(st.floats(0, 10)),
        sharers=sharers,
        idle_since=None if sharers else draw(st.none() | st.floats(0, NOW)),
    )


CANDIDATES = st.builds(
    Candidate,
    name=st.sampled_from(("small", "medium", "large")),
    semantics=st.just(PLAIN) | SEMANTICS,
    guarantees=GUARANTEES,
    size_bytes=st.integers(1, 300),
    io_seconds=st.floats(1, 1e4),
    starts_at=st.sampled_from((0.0, NOW + 30, NOW + 4000, math.inf)),
    price=st.floats(0, 20) | st.just(math.inf),
)
REQUESTS = st.builds(
    Request,
    name=st.just("mine"),
    policy=st.sampled_from(tuple(policies.FALLBACKS)),
    load=LOADS,
    size_bytes=st.integers(1, 150),
    seconds=st.floats(1, 7200),
    guarantees=GUARANTEES,
    semantics=st.just(PLAIN) | SEMANTICS,
    slowdown_max=st.floats(1, 8),
    window_seconds=st.sampled_from((0.0, 60.0, 1e5)),
    budget=st.none() | st.floats(0, 20),
)


def uniquely_named(items: list[Any]) -> list[Any]:
    return [msgspec.structs.replace(each, name=f"{each.name}-{number}") for number, each in enumerate(items)]


def chosen(request: Request, candidates: list[Candidate], there: list[Existing]) -> Choice | ProvisioningError:
    try:
        return choose(request, candidates, there, now=NOW, factors=TABLE)
    except ProvisioningError as error:
        return error


@given(REQUESTS, st.lists(CANDIDATES, max_size=4), st.lists(existings(), max_size=4))
def test_a_choice_keeps_every_constraint(request: Request, candidates: list[Candidate], there: list[Existing]) -> None:
    """Never over a threshold, never an unmet semantic, never above the budget, never without room; and it ends."""
    candidates, there = uniquely_named(candidates), uniquely_named(there)
    found = chosen(request, candidates, there)
    if isinstance(found, ProvisioningError):
        # A refusal is right: new storage that fits would have been the last fallback of every policy.
        shared = request.policy not in policies.OWN
        assert not any(
            not unmet(request.semantics, each.semantics)
            and each.size_bytes >= request.size_bytes
            and each.starts_at < math.inf
            and each.price <= (request.budget if request.budget is not None else 1e300)
            for each in candidates
        )
        if shared and request.budget is None:
            assert all(policies.obstacle(request, each, now=NOW, factors=TABLE) for each in there)
        return
    assert bool(found.candidate) != bool(found.joins)
    assert found.slowdown <= request.slowdown_max
    assert request.budget is None or found.price <= request.budget
    assert NOW <= found.starts_at < math.inf
    if found.candidate:
        (new,) = (each for each in candidates if each.name == found.candidate)
        assert not unmet(request.semantics, new.semantics)
        assert new.size_bytes >= request.size_bytes
        assert found.shareable == (request.policy not in policies.OWN)
    else:
        assert request.policy not in policies.OWN
        (old,) = (each for each in there if each.name == found.joins)
        assert not unmet(request.semantics, old.semantics)
        after = joined(old, Sharer(name="mine", load=request.load, size_bytes=request.size_bytes), NOW)
        assert sum(each.size_bytes for each in after.sharers) <= old.size_bytes
        assert old.until is None or found.starts_at + request.seconds <= old.until
        for each in after.sharers:
            others = [other.load for other in after.sharers if other is not each]
            assert slowdown(each.load, others, TABLE) <= (
                request.slowdown_max if each.name == "mine" else each.slowdown_max
            )


@given(REQUESTS, st.lists(CANDIDATES, max_size=4), st.lists(existings(), max_size=4))
def test_each_policy_takes_its_best(request: Request, candidates: list[Candidate], there: list[Existing]) -> None:
    candidates, there = uniquely_named(candidates), uniquely_named(there)
    found = chosen(request, candidates, there)
    if isinstance(found, ProvisioningError):
        return
    budget = math.inf if request.budget is None else request.budget
    able = [
        each
        for each in candidates
        if not unmet(request.semantics, each.semantics)
        and each.size_bytes >= request.size_bytes
        and each.price <= budget
        and each.price < math.inf
        and each.starts_at < math.inf
    ]
    joinable = {
        each.name: (
            policies.sharing_slowdown(request, each, TABLE),
            joining_price(each.price_per_hour * request.seconds / 3600, len(each.sharers), PriceList()),
            max(NOW, each.ready_at),
        )
        for each in there
        if policies.obstacle(request, each, now=NOW, factors=TABLE) is None
    }
    joinable = {name: each for name, each in joinable.items() if each[1] <= budget}
    latest = NOW + request.window_seconds
    if found.policy == "performance":
        assert request.policy == "performance" or not joinable
        (new,) = (each for each in candidates if each.name == found.candidate)
        assert new.io_seconds == min(each.io_seconds for each in able)
    elif found.policy == "interference":
        assert joinable[found.joins][0] == min(each[0] for each in joinable.values())
        if request.policy == "utilization":
            assert not any(each.starts_at <= latest for each in able)
            assert not any(each[2] <= latest for each in joinable.values())
    elif found.policy == "cost":
        soonest = max(latest, min(each.starts_at for each in able))
        assert found.starts_at <= soonest
        assert found.price == min(each.price for each in able if each.starts_at <= soonest)
    else:
        assert found.starts_at <= latest
        cheapest = [each.price for each in able if each.starts_at <= latest]
        cheapest += [each[1] for each in joinable.values() if each[2] <= latest]
        assert found.price == min(cheapest)


def test_the_fallbacks_end() -> None:
    assert policies.FALLBACKS.keys() == policies._POLICIES.keys()
    for policy in policies.FALLBACKS:
        seen: list[Policy | None] = [policy]
        while (last := seen[-1]) is not None:
            seen.append(policies.FALLBACKS[last])
            assert len(seen) == len(set(seen))


def request(**changes: Any) -> Request:
    load = Neighbour(behaviour_class="calm", processes=1, nodes=("a",))
    asked = Request(name="mine", load=load, size_bytes=100, seconds=3600.0, policy="interference", slowdown_max=2.5)
    return msgspec.structs.replace(asked, **changes)


def shared(*classes: str, **changes: Any) -> Existing:
    sharers = tuple(
        Sharer(name=f"job{number}", load=Neighbour(behaviour_class=each, nodes=("b",)))
        for number, each in enumerate(classes)
    )
    there = Existing(
        name="store",
        shareable=True,
        semantics=PLAIN,
        guarantees=Guarantees(),
        size_bytes=1000,
        lease_seconds=600.0,
        price_per_hour=4.0,
        sharers=sharers,
    )
    return msgspec.structs.replace(there, **changes)


def candidate(**changes: Any) -> Candidate:
    new = Candidate(name="new", semantics=PLAIN, guarantees=Guarantees(), size_bytes=1000, io_seconds=60.0, price=6.0)
    return msgspec.structs.replace(new, **changes)


def test_interference_joins_the_quietest_store() -> None:
    there = [shared("loud", name="noisy"), shared("calm", name="quiet"), shared("calm", "calm", name="busy")]
    found = choose(request(), [candidate()], there, now=NOW, factors=TABLE)
    assert (found.joins, found.policy) == ("quiet", "interference")
    assert found.slowdown == pytest.approx(1.06)


def test_utilization_shares_more_densely() -> None:
    there = [shared("calm", name="quiet"), shared("calm", "calm", name="busy")]
    found = choose(request(policy="utilization"), [candidate()], there, now=NOW, factors=TABLE)
    # A third of four node-hours, less a quarter for sharing.
    assert found.joins == "busy"
    assert found.price == pytest.approx(1.0)


def test_utilization_waits_for_no_longer_than_its_window() -> None:
    late = candidate(name="late", starts_at=NOW + 100, price=0.5)
    busy = shared("loud", ready_at=NOW + 500)
    asked = request(policy="utilization", window_seconds=60.0)
    assert choose(asked, [late], [busy], now=NOW, factors=TABLE).policy == "interference"
    found = choose(msgspec.structs.replace(asked, window_seconds=100.0), [late], [busy], now=NOW, factors=TABLE)
    assert (found.policy, found.candidate, found.starts_at) == ("utilization", "late", NOW + 100)


def test_performance_is_never_shared_unless_as_a_fallback() -> None:
    alone = choose(request(policy="performance"), [candidate()], [shared()], now=NOW, factors=TABLE)
    assert (alone.candidate, alone.shareable) == ("new", False)
    fallback = choose(
        request(slowdown_max=1.0), [candidate(shared_price=4.5)], [shared("calm")], now=NOW, factors=TABLE
    )
    assert (fallback.candidate, fallback.shareable, fallback.policy) == ("new", True, "performance")
    assert fallback.price == 4.5
    assert fallback.passed_over == ("store would slow the job down 1.06 times, and its threshold is 1",)


def test_a_sharer_s_own_threshold_holds_for_later_ones() -> None:
    load = Neighbour(behaviour_class="calm", nodes=("b",))
    there = shared(sharers=(Sharer(name="ada", load=load, slowdown_max=1.2),))
    newcomer = request(load=Neighbour(behaviour_class="loud", nodes=("a",)))
    found = choose(newcomer, [candidate()], [there], now=NOW, factors=TABLE)
    assert found.candidate == "new"
    assert found.passed_over == ("store would slow ada down 1.61 times, and its threshold is 1.2",)


def test_a_slower_store_counts_as_a_slowdown() -> None:
    asked = request(guarantees=Guarantees(write_bytes_per_second=300e6), slowdown_max=2.0)
    half = shared(guarantees=Guarantees(write_bytes_per_second=200e6))
    assert choose(asked, [candidate()], [half], now=NOW, factors=TABLE).slowdown == pytest.approx(1.5)
    unmeasured = shared(guarantees=Guarantees())
    assert choose(asked, [candidate()], [unmeasured], now=NOW, factors=TABLE).candidate == "new"


@pytest.mark.parametrize(
    ("asked", "candidates", "there", "words"),
    [
        (request(), [], [], "the cluster has no storage for mine"),
        (
            request(semantics=Semantics(replicas=3, encrypted=True)),
            [candidate()],
            [],
            "3 copies of each byte, encryption",
        ),
        (
            request(semantics=Semantics(representation="object")),
            [candidate()],
            [shared()],
            "no storage here has data as o",
        ),
        (
            request(),
            [candidate(semantics=Semantics(durable=False))],
            [],
            "no storage here has bytes that outlive a server's process",
        ),
        (request(size_bytes=5000), [candidate()], [], "asks for 5000 bytes, and the largest storage has 1000"),
        (request(budget=2.0), [candidate()], [], "the budget of 2 node-hours is below the least price, 6"),
        (request(budget=2.0), [candidate()], [shared("calm")], None),
        (request(budget=0.5), [candidate()], [shared("calm")], "below the least price, 1.5"),
        (request(budget=-1.0), [candidate()], [], "a budget of -1 node-hours is none"),
        (request(), [candidate(price=math.inf)], [], "all devices are held"),
        (request(), [candidate(starts_at=math.inf)], [], "no storage for mine is free at any time"),
        (request(slowdown_max=0.5), [candidate()], [], "a slowdown of at most 0.5 cannot be"),
        (request(slowdown_max=math.nan), [candidate()], [], "a slowdown of at most nan cannot be"),
        (request(seconds=0.0), [candidate()], [], "asks for 100 bytes for 0 s"),
        (request(policy="performance"), [candidate(semantics=Semantics(durable=False))], [shared()], "no storage here"),
    ],
)
def test_a_refusal_names_its_reason(
    asked: Request, candidates: list[Candidate], there: list[Existing], words: str | None
) -> None:
    if words is None:
        choose(asked, candidates, there, now=NOW, factors=TABLE)
        return
    with pytest.raises(ProvisioningError) as error:
        choose(asked, candidates, there, now=NOW, factors=TABLE)
    assert words in str(error.value)
    assert error.value.hint


def test_files_of_hdf5_lie_on_posix() -> None:
    assert unmet(Semantics(representation="hdf5"), Semantics(representation="posix")) == ()
    assert unmet(Semantics(representation="posix"), Semantics(representation="hdf5")) == ("data as posix",)


@given(
    existings(), st.lists(st.tuples(st.sampled_from(("in", "out")), st.integers(0, 5), st.floats(0, 500)), max_size=20)
)
def test_a_store_outlives_its_last_sharer_by_its_lease(store: Existing, steps: list[tuple[str, int, float]]) -> None:
    """Against a model that knows the names of the jobs and the time of the last departure."""
    store = msgspec.structs.replace(
        store, sharers=(), idle_since=None, until=None, draining=False, shareable=True, size_bytes=1 << 40
    )
    names: set[str] = set()
    now, emptied = NOW, None
    for way, number, wait in steps:
        now += wait
        ended = emptied is not None and not names and now >= emptied + store.lease_seconds
        assert has_ended(store, now) == ended
        if ended:
            with pytest.raises(ProvisioningError, match="takes no more jobs"):
                joined(store, Sharer(name="late", load=Neighbour(behaviour_class="calm")), now)
            return
        name = f"job{number}"
        if way == "out":
            store = left(store, name, now)
            if name in names:
                names.remove(name)
                emptied = now
        elif name in names:
            with pytest.raises(ProvisioningError, match="uses"):
                joined(store, Sharer(name=name, load=Neighbour(behaviour_class="calm")), now)
        else:
            store = joined(store, Sharer(name=name, load=Neighbour(behaviour_class="calm")), now)
            names.add(name)
        assert {each.name for each in store.sharers} == names
        if names:
            assert ends_at(store) is None


def test_a_store_that_is_not_shared_ends_with_its_job() -> None:
    job = Sharer(name="job", load=Neighbour(behaviour_class="calm"))
    store = joined(shared(shareable=False), job, NOW)
    with pytest.raises(ProvisioningError, match="is not shared"):
        joined(store, msgspec.structs.replace(job, name="other"), NOW)
    assert ends_at(left(store, "job", NOW + 5)) == NOW + 5


def deployment(**changes: Any) -> Deployment:
    made = Deployment(
        name="store",
        identity="x",
        behaviour_class="calm",
        sslo="fast",
        policy="interference",
        system=System(device="nvme", servers=1),
        servers=(),
        shareable=True,
        lease_seconds=60.0,
        size_bytes=10,
        expected=Guarantees(read_bytes_per_second=1e9),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_deployment_is_seen_as_it_was_planned() -> None:
    seen = existing(deployment(), price_per_hour=2.0)
    assert (seen.name, seen.shareable, seen.lease_seconds, seen.free_bytes) == ("store", True, 60.0, 10)
    assert seen.guarantees.read_bytes_per_second == 1e9
    with pytest.raises(ProvisioningError, match="has no storage of its own"):
        existing(deployment(joins="other"))


def test_the_nearest_scale_and_the_worse_placement_count() -> None:
    def beside(processes: int, *nodes: str) -> float:
        other = Neighbour(behaviour_class="loud", processes=processes, nodes=nodes)
        return pair_slowdown(Neighbour(behaviour_class="calm", nodes=("a",)), other, TABLE)

    assert beside(1, "a") == pytest.approx(2.11)
    assert beside(1, "b") == pytest.approx(1.61)
    assert beside(64, "b") == pytest.approx(1.76)
    assert beside(1) == pytest.approx(2.11)
    stranger = Neighbour(behaviour_class="strange", nodes=("a",))
    worst = max(each.slowdown for each in TABLE.factors)
    assert pair_slowdown(stranger, stranger, TABLE) == worst


@given(LOADS, st.lists(LOADS, max_size=5), LOADS)
def test_more_neighbours_never_help(one: Neighbour, others: list[Neighbour], further: Neighbour) -> None:
    assert 1.0 <= slowdown(one, others, TABLE) <= slowdown(one, [*others, further], TABLE)


def test_a_table_is_read_as_it_was_written() -> None:
    assert read_table(written(TABLE).encode(), "the table") == TABLE
    with pytest.raises(ProvisioningError, match="has no factor"):
        read_table(written(msgspec.structs.replace(TABLE, factors=())).encode(), "the table")


@given(st.data())
def test_a_table_is_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(msgspec.json.encode(TABLE))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + 1] = data.draw(st.binary(max_size=3))
    try:
        table = read_table(bytes(text), "the table")
    except ProvisioningError as error:
        assert "the table" in str(error) and error.hint
    else:
        assert all(each.slowdown >= 1 for each in table.factors)


def test_tables_and_prices_keep_to_their_schemas() -> None:
    for name, document in (("interference", TABLE), ("prices", PriceList(tiers=(TIER,), demands={"nvme": Demand()}))):
        jsonschema.validate(json.loads(msgspec.json.encode(document)), schemas.schema(name))
        assert msgspec.json.decode(msgspec.json.encode(document), type=schemas.DOCUMENTS[name]) == document


TIER = Tier(device="nvme", cost=0.5, total=16, free=8)
PRICING = st.builds(
    DemandPricing,
    factor_min=st.floats(0, 1),
    factor_max=st.floats(1, 10),
    growth=st.floats(0.01, 5),
    rise_seconds=st.floats(1, 1e4),
    fall_seconds=st.floats(1, 1e4),
)


@given(PRICING, st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_demand_prices_are_bounded_and_never_fall_with_demand(
    pricing: DemandPricing, level: float, more: float
) -> None:
    factor = demand_factor(level, pricing)
    assert pricing.factor_min <= factor <= pricing.factor_max
    assert demand_factor(level + more, pricing) >= factor
    middle = (pricing.factor_min + pricing.factor_max) / 2
    assert demand_factor(0.0, pricing) == pytest.approx(middle)


@given(PRICING, st.lists(st.floats(0, 1e5), min_size=1, max_size=30))
def test_demand_rises_with_requests_and_falls_without(pricing: DemandPricing, waits: list[float]) -> None:
    demand, now = Demand(), 0.0
    for wait in waits:
        now += wait
        before = demand
        demand = requested(demand, now, pricing)
        idle = demand_at(before, now, pricing)
        assert idle.level <= before.level
        assert demand.level - idle.level == pytest.approx(min(1.0, pricing.demand_max - idle.level)) or (
            demand.level == idle.level
            and (before.requested_at is None or now - before.requested_at > pricing.rise_seconds)
        )
        assert abs(demand.level) <= pricing.demand_max
    # Time in two pieces is the same time.
    later = now + pricing.fall_seconds * 7.5
    halfway = demand_at(demand, now + pricing.fall_seconds * 2.5, pricing)
    assert demand_at(halfway, later, pricing).level == pytest.approx(demand_at(demand, later, pricing).level)


@given(st.floats(0.01, 100), st.integers(1, 1000), st.data())
def test_scarce_devices_cost_more(cost: float, total: int, data: st.DataObject) -> None:
    free = data.draw(st.integers(1, total))
    fewer = data.draw(st.integers(0, free))
    tier = Tier(device="nvme", cost=cost, total=total, free=free)
    assert availability_price(tier) >= cost * (1 - 1e-12)
    assert availability_price(msgspec.structs.replace(tier, free=fewer)) >= availability_price(tier)


@given(st.integers(1, 64), st.floats(1, 1e6), st.integers(0, 20), st.floats(0, 0.99))
def test_sharing_is_never_dearer(devices: int, seconds: float, sharers: int, discount: float) -> None:
    prices = PriceList(tiers=(Tier(device="nvme", cost=0.5, total=100, free=70),), sharing_discount=discount)
    alone = deployment_price({"nvme": devices}, seconds, prices, shareable=False)
    assert deployment_price({"nvme": devices}, seconds, prices, shareable=True) <= alone
    assert joining_price(alone, sharers + 1, prices) <= joining_price(alone, sharers, prices) <= alone


def test_a_price_by_hand() -> None:
    prices = PriceList(tiers=(TIER,))
    # Half of the tier is free, and without demand the factor is the middle of 0.5 and 2.
    assert deployment_price({"nvme": 4}, 1800.0, prices, shareable=False) == pytest.approx(4 * 0.5 * 2 * 1.25 / 2)
    assert deployment_price({"ram": 4}, 1800.0, prices, shareable=False) == 0.0


@given(st.lists(st.floats(1e-9, 1e9), min_size=1), st.floats(0, 1e9))
def test_an_impossible_budget_names_a_possible_one(offers: list[float], budget: float) -> None:
    try:
        check_budget(offers, budget)
    except ProvisioningError as error:
        least = float(str(error).rsplit(" ", 1)[1])
        assert budget < min(offers) <= least
        assert least == pytest.approx(min(offers), rel=2e-3)
        check_budget(offers, least)
    else:
        assert min(offers) <= budget


@given(st.data())
def test_a_list_of_prices_is_read_or_refused(data: st.DataObject) -> None:
    whole = msgspec.json.encode(PriceList(tiers=(TIER,), demands={"nvme": Demand(level=3.0, requested_at=5.0)}))
    assert read_prices(whole, "the list").tiers == (TIER,)
    text = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + 1] = data.draw(st.binary(max_size=3))
    try:
        check(read_prices(bytes(text), "the list"))
    except ProvisioningError as error:
        assert "the list" in str(error) and error.hint


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        (PriceList(default_cost=-1.0), "a cost is negative"),
        (PriceList(tiers=(Tier(device="ssd", cost=math.nan, total=1, free=1),)), "a cost is negative or no number"),
        (PriceList(tiers=(Tier(device="ssd", cost=1.0, total=1, free=2),)), "2 free of 1"),
        (PriceList(pricing=DemandPricing(factor_min=3.0)), "from 3 to 2"),
        (PriceList(pricing=DemandPricing(growth=0.0)), "growth is 0"),
        (PriceList(sharing_discount=1.0), "sharing_discount is 1"),
    ],
)
def test_prices_that_cannot_be_are_refused(prices: PriceList, words: str) -> None:
    check(PriceList())
    with pytest.raises(ProvisioningError) as error:
        check(prices)
    assert words in str(error.value)
    assert error.value.hint
