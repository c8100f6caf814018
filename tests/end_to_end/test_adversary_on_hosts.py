"""A host between two hosts of a store, which alters single bits and cuts connections of servers, clients and commands.

All that two hosts say to each other passes the middle host, because their routes lead there; ssh alone does not.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hosts
import pytest
from attacks import program
from hosts import Host, Hosts
from seeds import seeded
from waits import wait_until

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

CONFIGURATION = hosts.durable(2)
NODES = ["node1", "node2"]
PORT = 9999
ROUNDS = 12
HARMS = 6
"""Harms that a test waits for at least."""
REDIRECT = """
add table ip middle
add chain ip middle pre {{ type nat hook prerouting priority -100; }}
add rule ip middle pre ip daddr {{ {addresses} }} tcp dport != 22 redirect to :{port}
"""
WORK = """
import hashlib, json, os, sys
label, rounds = sys.argv[1], int(sys.argv[2])
made, written, errors = [], {}, []
for number in range(rounds):
    folder = f"/weir/{label}-{number}"
    content = f"{label} {number} ".encode() * 10_000
    try:
        os.mkdir(folder)
        made.append(folder)
        with open(folder + "/file", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written[folder + "/file"] = hashlib.sha256(content).hexdigest()
        with open(folder + "/file", "rb") as file:
            assert file.read() == content, "altered bytes were shown"
        os.rename(folder + "/file", folder + "/renamed")
        written[folder + "/renamed"] = written.pop(folder + "/file")
    except OSError as error:
        errors.append(error.errno)
print(json.dumps({"made": made, "written": written, "errors": errors}))
"""
LOOK = """
import hashlib, json, os, sys
told = json.loads(sys.stdin.read())
assert all(os.path.isdir(folder) for folder in told["made"]), "a folder is lost"
for path, digest in told["written"].items():
    # A rename whose answer was lost may have been carried out.
    there = [each for each in (path, path.rpartition("/")[0] + "/renamed") if os.path.exists(each)]
    assert there, path + " is lost"
    assert hashlib.sha256(open(there[0], "rb").read()).hexdigest() == digest, path + " has other bytes"
print("whole")
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    with hosts.hosts(["desk", "middle", *NODES]) as network:
        middle = network["middle"]
        middle.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        addresses = ", ".join(network[name].address for name in NODES)
        middle.run("nft", "-f", "-", input=REDIRECT.format(addresses=addresses, port=PORT))
        for name, other in zip(NODES, reversed(NODES), strict=True):
            network[name].run("ip", "route", "add", f"{network[other].address}/32", "via", middle.address)
        with between(middle, "passes"):
            file = network.folder / "cluster.toml"
            file.write_text(CONFIGURATION)
            network.deploy(file, "--nodes", ",".join(NODES))
            assert set(work(network["node1"], "before", 2)["errors"]) == set()
        yield network


@contextlib.contextmanager
def between(middle: Host, manner: str) -> Iterator[Path]:
    """The middle host with a program that treats what passes in a manner; the file of what it tells."""
    told = middle.hosts.folder / f"told-{manner}"
    code = Path(program.__file__).read_text()
    seed = str(seeded().randrange(1 << 30))
    arguments = ("listen", manner, f"0.0.0.0:{PORT}", program.ORIGINAL, seed)
    with told.open("w") as output:
        process = middle.start(sys.executable, "-c", code, *arguments, stdout=output)
    try:
        wait_until("the middle listens", lambda: '"at"' in told.read_text() or process.poll() is not None)
        yield told
        assert process.poll() is None
    finally:
        # It is a child of `nsenter`, in the namespace of the host.
        middle.run("pkill", "-KILL", "-f", f"listen {manner} 0.0.0.0:{PORT}")
        process.wait()


def work(host: Host, label: str, rounds: int = ROUNDS) -> Any:
    """Folders, files and renames over both servers; errors of lost connections are counted."""
    command = (host.hosts.program, "run", "--prefix", "/weir", "--", sys.executable, "-c", WORK, label, str(rounds))
    return json.loads(host.run(*command, environment={"WEIR_TIMEOUT_SECONDS": "20"}).stdout)


def whole(host: Host, told: Any) -> None:
    """Check from another host that what was done is there."""
    command = (host.hosts.program, "run", "--prefix", "/weir", "--", sys.executable, "-c", LOOK)
    assert host.run(*command, input=json.dumps(told)).stdout.strip() == "whole"


def pids(network: Hosts) -> dict[str, str]:
    """The server's process on each host."""
    return {name: network[name].run("sh", "-c", f"cat {network.home}/servers/*/pid").stdout for name in NODES}


def disturb(network: Hosts, manner: str, word: str) -> None:
    before, policy = pids(network), network["desk"].weir("policy", "show").stdout
    with between(network["middle"], manner) as told:
        done: list[Any] = []
        while told.read_text().count(f'"{word}"') < HARMS:
            for name in NODES:
                done.append(work(network[name], f"{manner}-{name}-{len(done)}"))
                assert set(done[-1]["errors"]) <= {5, 17}, "a call waits for its server, and tells EIO after its bound"
            # A command of the administrator's ends, whatever its server seems to say.
            for name in NODES:
                network[name].weir("status", code=None)
    with between(network["middle"], "passes"):
        for told_work in done:
            whole(network["desk"], told_work)
        assert any(told_work["written"] for told_work in done), "nothing was done beside the harm"
        assert pids(network) == before
        assert network["desk"].weir("policy", "show").stdout == policy
        check: subprocess.CompletedProcess[str] = network["desk"].weir("fsck", code=None)
        assert check.returncode == 0, check.stdout + check.stderr


def test_a_middle_host_that_alters_bits(network: Hosts) -> None:
    """Nothing that it altered is carried out or shown, each session that it touched ends, and nothing is lost."""
    disturb(network, "alters", "altered")


def test_a_middle_host_that_cuts_connections(network: Hosts) -> None:
    disturb(network, "cuts", "cut")
