"""Many jobs that come and go on one cluster: each promise holds at every moment, and in the end everything is free."""

import math
import random

import msgspec
import pytest
from interference import CLASSES, TABLE
from seeds import seeded
from sharing_over_time import joined, left
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Semantics
from weir.provisioning.sharing.interference_factors import Neighbour, slowdown
from weir.provisioning.sharing.leases import Existing, Sharer, ends_at, has_ended
from weir.provisioning.sharing.policies import FALLBACKS, Candidate, Request, choose
from weir.provisioning.sharing.prices import PriceList, Tier, deployment_price

DEVICES = 6
DEVICE_BYTES = 100
PRICES = PriceList(tiers=(Tier(device="nvme", cost=0.5, total=DEVICES, free=DEVICES),))


class Cluster:
    """Devices, the deployments on them, and the jobs that run; time goes on by events alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.there: dict[str, Existing] = {}
        self.devices: dict[str, int] = {}
        self.runs: dict[str, tuple[str, float]] = {}
        """The deployment of each job, and its end."""
        self.made = 0

    def free(self) -> int:
        return DEVICES - sum(self.devices.values())

    def candidates(self, request: Request) -> list[Candidate]:
        """New deployments on one device up to all; those on devices that are held begin when enough are free."""
        tier = Tier(device="nvme", cost=0.5, total=DEVICES, free=max(1, self.free()))
        prices = msgspec.structs.replace(PRICES, tiers=(tier,))
        return [
            Candidate(
                name=str(count),
                semantics=Semantics(),
                guarantees=Guarantees(write_bytes_per_second=count * 1e9),
                size_bytes=count * DEVICE_BYTES,
                io_seconds=100.0 / count,
                starts_at=self.now if count <= self.free() else math.inf,
                price=deployment_price({"nvme": count}, request.seconds, prices, shareable=False),
                shared_price=deployment_price({"nvme": count}, request.seconds, prices, shareable=True),
            )
            for count in range(1, DEVICES + 1)
        ]

    def submit(self, request: Request) -> str:
        """Place a job; the policy that found its storage."""
        choice = choose(
            request, self.candidates(request), list(self.there.values()), now=self.now, factors=TABLE, prices=PRICES
        )
        name = choice.joins
        if not name:
            self.made += 1
            name = f"store-{self.made}"
            count = int(choice.candidate)
            self.devices[name] = count
            self.there[name] = Existing(
                name=name,
                shareable=choice.shareable,
                semantics=Semantics(),
                guarantees=Guarantees(write_bytes_per_second=count * 1e9),
                size_bytes=count * DEVICE_BYTES,
                lease_seconds=50.0,
                price_per_hour=count * 0.5,
            )
        job = Sharer(
            name=request.name, load=request.load, slowdown_max=request.slowdown_max, size_bytes=request.size_bytes
        )
        self.there[name] = joined(self.there[name], job, self.now)
        self.runs[request.name] = (name, self.now + request.seconds)
        return choice.policy

    def advance(self, seconds: float) -> None:
        """Let time go on, event by event."""
        until = self.now + seconds
        while True:
            events = [end for _, end in self.runs.values()] + [
                end for each in self.there.values() if (end := ends_at(each)) is not None
            ]
            if not events or min(events) > until:
                self.now = until
                return
            self.now = max(self.now, min(events))
            for job, (name, end) in list(self.runs.items()):
                if end <= self.now:
                    self.there[name] = left(self.there[name], job, self.now)
                    del self.runs[job]
            for name, each in list(self.there.items()):
                if has_ended(each, self.now):
                    assert not each.sharers, "a job lost its storage"
                    del self.there[name], self.devices[name]
            self.check()

    def check(self) -> None:
        assert self.free() >= 0
        for each in self.there.values():
            assert sum(job.size_bytes for job in each.sharers) <= each.size_bytes
            assert each.shareable or len(each.sharers) <= 1
            for job in each.sharers:
                others = [other.load for other in each.sharers if other is not job]
                assert slowdown(job.load, others, TABLE) <= job.slowdown_max


def job(number: int, dice: random.Random) -> Request:
    return Request(
        name=f"job-{number}",
        policy=dice.choice(tuple(FALLBACKS)),
        load=Neighbour(
            behaviour_class=dice.choice(CLASSES), processes=dice.choice((1, 16)), nodes=(dice.choice("abc"),)
        ),
        size_bytes=dice.randint(1, 150),
        seconds=dice.uniform(1, 200),
        slowdown_max=dice.choice((1.0, 1.5, 2.5, 6.0)),
        window_seconds=dice.choice((0.0, 60.0)),
        budget=dice.choice((None, None, 0.2)),
    )


def test_promises_hold_while_jobs_come_and_go() -> None:
    dice = seeded()
    cluster = Cluster()
    outcomes: dict[str, int] = {}
    for number in range(400):
        cluster.advance(dice.expovariate(1 / 30))
        request = job(number, dice)
        try:
            outcome = cluster.submit(request)
        except ProvisioningError as error:
            assert error.hint
            outcome = "refused"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        cluster.check()
    assert outcomes.keys() == {*FALLBACKS, "refused"}, outcomes
    cluster.advance(200.0 + 50.0)
    assert (cluster.there, cluster.devices, cluster.runs) == ({}, {}, {})


@pytest.mark.parametrize(("policy", "most"), [("performance", 1), ("utilization", 6)])
def test_sharing_serves_more_jobs_than_devices(policy: str, most: int) -> None:
    """Six devices, and twenty small quiet jobs at once, each content with a slowdown of 6."""
    cluster = Cluster()
    served = 0
    for number in range(20):
        request = msgspec.structs.replace(
            job(number, random.Random(number)),
            policy=policy,
            load=Neighbour(behaviour_class="calm", nodes=(str(number),)),
            size_bytes=20,
            slowdown_max=6.0,
            budget=None,
        )
        try:
            cluster.submit(request)
            served += 1
        except ProvisioningError:
            assert policy == "performance"
    cluster.check()
    assert served == (1 if policy == "performance" else 20)
    assert len(cluster.there) <= most
