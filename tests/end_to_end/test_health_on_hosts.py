"""`weir health` for a store on several hosts: a host that is cut off, servers that do not hear each other, clocks apart."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import hosts
import pytest
from hosts import Hosts
from waits import wait_until

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

SERVERS = ["node1", "node2", "node3"]
SET_ON_ONE = """
import os
from weir.store.access import servers_at
from weir.store.home import Home
servers_at(Home.at(os.environ["WEIR_HOME"]))[0].set_sharing("user-fair", None)
"""
"""Sets the policy on the first server alone."""


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    with hosts.hosts(["desk", *SERVERS]) as network:
        network.deploy_three(SERVERS)
        yield network


def health(network: Hosts, *options: str) -> list[dict[str, Any]]:
    answer = network["desk"].weir("health", "--output", "json", *options, code=None)
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def is_found(network: Hosts, code: str, subject: str) -> bool:
    return any((each["code"], each["object"]) == (code, subject) for each in health(network, "--within", "10"))


def await_nothing(network: Hosts) -> None:
    wait_until("nothing is wrong", lambda: not health(network, "--within", "10"))


def test_a_host_that_is_cut_off_hides_nothing_of_the_others(network: Hosts) -> None:
    await_nothing(network)
    network["node3"].cut()
    try:
        found = {(each["code"], each["object"]): each for each in health(network, "--within", "10")}
        deployed = network["desk"].weir("deploy", code=1)
    finally:
        network["node3"].join()
    silent = found["server-silent", "server 2"]
    assert silent["mend"] == "ssh node3 weir logs 2"
    assert silent["since"] is not None, "the other servers tell"
    assert ("host-silent", "host node3") in found
    assert not any(code.startswith("server-") and subject != "server 2" for code, subject in found)
    assert "2 of 3 answer, on node[1-3]" in deployed.stdout
    assert "up in part" in deployed.stdout
    assert "[server-silent]" in deployed.stderr
    await_nothing(network)


def test_servers_that_do_not_hear_each_other(network: Hosts) -> None:
    await_nothing(network)
    network["node1"].deafen([network["node2"], network["node3"]])
    try:
        network["desk"].run(sys.executable, "-c", SET_ON_ONE)
        wait_until("server 0 is late", lambda: is_found(network, "server-late", "server 0"))
        assert is_found(network, "out-of-step", "server 0")
    finally:
        network["node1"].hear()
    await_nothing(network)


def test_a_clock_that_is_apart(network: Hosts) -> None:
    await_nothing(network)
    network["node2"].shift_clock(60.0)
    try:
        wait_until("the clock of server 1 is told", lambda: is_found(network, "clocks-apart", "server 1"))
    finally:
        network["node2"].shift_clock(0.0)
    await_nothing(network)
