"""A store on hosts with OpenSSH's server: its life from the first command to the last, and a stranger in a host's place."""

import subprocess
from collections.abc import Iterator

import hosts
import pytest
from hosts import Hosts, sshd
from waits import wait_until

pytestmark = pytest.mark.skipif(bool(hosts.missing_sshd()), reason=hosts.missing_sshd())

NODES = ["node1", "node2", "node3"]


@pytest.fixture
def network() -> Iterator[Hosts]:
    with hosts.hosts(["desk", *NODES], has_openssh=True) as network:
        yield network


def test_a_store_lives_on_hosts_with_sshd(network: Hosts) -> None:
    mount = network.home / "mnt"
    network.deploy_three(NODES)
    network["node1"].run("sh", "-c", f"mkdir {mount}/folder && seq 300000 >{mount}/folder/numbers")
    network["desk"].weir("server", "retire", "2", "--to", "node2")
    network["node2"].run("sh", "-c", f"seq 300000 | cmp - {mount}/folder/numbers")
    assert network["node3"].run("pgrep", "weir-server", code=None).stdout == ""
    network["desk"].weir("down")
    network.deploy()
    network["node2"].run("sh", "-c", f"seq 300000 | cmp - {mount}/folder/numbers")
    network["desk"].weir("down", "--discard", "--yes")


def test_a_stranger_in_the_place_of_a_host_is_told_nothing(network: Hosts) -> None:
    """An ssh server with another key holds a host's address: the command ends, and it hears nothing of the store."""
    network.deploy_three(NODES)
    network["desk"].weir("down")
    node = network["node2"]
    foreign = network.folder / "foreign_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(foreign)], check=True, capture_output=True)
    node.run("pkill", "-KILL", "sshd")
    with sshd(node, foreign) as log:
        said = network.deploy(code=1)
        assert "node2" in said and "node1" not in said.partition("\n")[0], said
        wait_until("the stranger has met the desk", lambda: "Connection" in log.read_text())
        words = log.read_text()
        assert "Accepted" not in words and "session" not in words, words
    # A lost host does not keep the others down.
    running = {name: network[name].run("pgrep", "weir-server", code=None).stdout != "" for name in NODES}
    assert running == {"node1": True, "node2": False, "node3": True}
    with sshd(node, network.folder / "user_key"):
        network.deploy()
        assert network["node1"].run("ls", network.home / "mnt").returncode == 0
        network["desk"].weir("down", "--discard", "--yes")
