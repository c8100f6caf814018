"""Random schedules of faults on several hosts: no write is lost, stale or doubled, and every call is answered."""

import os
from collections.abc import Iterator

import hosts
import pytest
from history.faults import FAULTS
from history.schedule import ROOM, run
from hosts import Hosts
from seeds import seed

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

SERVERS = ["node1", "node2", "node3"]
KINDS = [kind for kind in FAULTS if kind != "grow-and-shrink"]
"""Kinds of faults; that of servers that join and retire takes longest, and has tests of its own."""
SCHEDULES = int(os.environ.get("WEIR_SCHEDULES", "1"))
"""Schedules in one run; `make soak` runs 100, and worlds of one thread play thousands of such orders by seed."""


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    """Three hosts with a durable store, and the host that it is deployed from."""
    with hosts.hosts(["desk", *SERVERS], room=ROOM) as network:
        network.deploy_three(SERVERS)
        yield network


@pytest.mark.parametrize("number", range(SCHEDULES))
def test_no_schedule_of_faults_loses_a_write(network: Hosts, number: int) -> None:
    outcome = run(network, SERVERS, seed() + number, kinds=KINDS)
    print("\n".join(outcome.faults))
    print(f"{len(outcome.history)} operations, {outcome.answered} of them without an error")
    assert outcome.violations == []
    assert outcome.answered > 100
