"""Sixteen real jobs: their objectives, and the storage that a plan gives them by default."""

from functools import cache

import logged_jobs
import planned
import pytest
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.recorded import RunReader
from weir.provisioning.planning.mapping import ALIKE
from weir.provisioning.planning.needs import work
from weir.provisioning.resources.model import Device, Node, Resources

SITE = Resources(
    nodes=tuple(
        Node(
            name=f"n{number}",
            network_bytes_per_second=12.5e9,
            devices=tuple(
                Device(path=f"/{kind}", kind=kind, capacity_bytes=4 * 10**12) for kind in ("hdd", "ssd", "nvme", "pmem")
            ),
        )
        for number in range(32)
    )
)


@cache
def identity(name: str) -> Identity:
    reader = RunReader(note=lambda *_, **__: None)
    try:
        return identify(reader.read(logged_jobs.log(name)))
    finally:
        reader.end()


@pytest.mark.parametrize("name", logged_jobs.OBJECTIVES)
def test_a_job_gets_the_objective_that_a_person_would_give_it(name: str) -> None:
    found = planned.planner().map(identity(name))
    assert found.sslo.name == logged_jobs.OBJECTIVES[name]
    assert not found.is_default
    other = found.runner_up
    assert other is not None
    # The runner-up satisfies less, costs more, is meant for less of the job's work, or is slower.
    assert (
        found.best.satisfaction - other.satisfaction > ALIKE
        or other.cost > found.best.cost
        or other.purpose_part < found.best.purpose_part
        or other.io_seconds > found.best.io_seconds
    )


def test_sixteen_jobs_that_differ_have_objectives_that_differ() -> None:
    assert len(logged_jobs.OBJECTIVES) == 16
    names = {planned.planner().map(identity(name)).sslo.name for name in logged_jobs.OBJECTIVES}
    assert len(names) == 8, names


@pytest.mark.parametrize("name", logged_jobs.OBJECTIVES)
def test_a_plan_takes_the_cheapest_storage_that_is_enough(name: str) -> None:
    made = planned.planner().plan(identity(name), None, SITE)
    chosen = made.selected.candidate
    assert made.deployment.policy == made.selected.policy == "cost"
    rates = {"hdd": 0.02, "ssd": 0.05, "nvme": 0.1, "pmem": 0.4}

    def price(servers: int, device: str) -> float:
        return servers * rates[device]

    system = chosen.deployment.system
    for each in made.alternatives:
        other = each.deployment.system
        if price(other.servers, other.device) < price(system.servers, system.device):
            assert each.reached < chosen.reached, (other, each.reached)
    if logged_jobs.OBJECTIVES[name] == "light-hdd-1":
        assert (system.device, system.servers) == ("hdd", 1)
    assert system.device != "pmem"


def test_seeks_are_no_work_of_the_storage() -> None:
    """IOR seeks ahead of each of its 262,144 reads; the storage hears of 520 other calls."""
    found = identity("jobs/dbin_ior_id66186284-26845")
    assert found.metadata_operations > 262_144
    assert work(found, "metadata") == 520
