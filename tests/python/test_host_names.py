"""A text that is no name of a host is refused wherever one enters, before any program is started with it."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from provisioned import SCHEMA
from weir.deployment import nodes
from weir.deployment.fanout import Reach, ask
from weir.errors import WeirError
from weir.planner import protocol
from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import checks
from weir.provisioning.lifecycle.validation import validate
from weir.provisioning.resources.model import read_resources
from weir.provisioning.resources.slurm import of_documents
from weir.store import values

NAMES = ("node01", "a", "10.0.0.7", "login-1.cluster.example", "nid_0001")
HOSTILE = {
    "an option of ssh": "-oProxyCommand=x",
    "an option without a value": "-v",
    "two commands": "a;b",
    "a command in a name": "a$(b)",
    "a pipe": "a|b",
    "a user": "root@node",
    "a digit of another script": "node\u0663",
    "a letter that looks like one of ASCII": "n\u043ede",
    "a full stop of another script": "node\u3002example",
    "a line's end": "node\n",
    "a zero byte": "no\0de",
    "a path": "../node",
    "an escape sequence": "\x1b[2Jnode",
    "too long a name": "n" * 254,
    "a name that ends with a sign": "node-",
    "nothing": "",
}


def in_model(tmp_path: Path, name: str) -> None:
    file = tmp_path / "resources.json"
    device = {"kind": "memory", "capacity_bytes": 1}
    file.write_text(json.dumps({"version": 1, "nodes": [{"name": name, "devices": [device]}]}))
    read_resources(file)


def in_slurm(_: Path, name: str) -> None:
    node = {"name": name, "state": ["IDLE"], "cpus": 1, "real_memory": 1024, "temporary_disk": 1024}
    of_documents(json.dumps({"nodes": [node]}).encode(), b'{"jobs": []}', folder="/tmp", now=0.0)


def in_list(_: Path, name: str) -> None:
    assert nodes.listed(name) == (name,)


def in_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts").write_text(name)
    assert nodes.listed(str(tmp_path / "hosts")) == (name,)


def in_allocation(_: Path, name: str) -> None:
    assert nodes.allocated({"SLURM_JOB_NODELIST": name}) == (name,)


def in_deployment(_: Path, name: str) -> None:
    made = msgspec.json.decode(SCHEMA % "weir", type=Deployment)
    server = msgspec.structs.replace(made.servers[0], node=name)
    validate(msgspec.structs.replace(made, servers=(server, *made.servers[1:])))


def in_emitted(_: Path, name: str) -> None:
    checks.host(name, "a server")


def to_planner(method: str, **fields: object) -> None:
    protocol.decode(json.dumps({"id": 1, "request": method, **fields}).encode())


DOORS: dict[str, Callable[[Path, str], object]] = {
    "a list of hosts": in_list,
    "a file of hosts": in_file,
    "Slurm's allocation": in_allocation,
    "a resource model": in_model,
    "Slurm's nodes": in_slurm,
    "a deployment schema": in_deployment,
    "configuration of another system": in_emitted,
    "a setup of the planner": lambda _, name: to_planner("setup", name="job", nodes=[name]),
    "a quarantine of the planner": lambda _, name: to_planner("quarantine", node=name, seconds=1.0, reason=""),
}
"""Every place where the name of a host enters."""


@pytest.mark.parametrize("door", DOORS)
def test_names_of_hosts_pass_each_door(tmp_path: Path, door: str) -> None:
    for name in NAMES:
        DOORS[door](tmp_path, name)


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_name_of_a_host_is_refused(tmp_path: Path, door: str, what: str) -> None:
    name = HOSTILE[what]
    # A list ends names at blanks, a file at the line's end.
    if door in ("a list of hosts", "a file of hosts", "Slurm's allocation") and name.strip() != name:
        return
    if name == "" and door == "Slurm's allocation":
        return
    with pytest.raises(WeirError) as refused:
        DOORS[door](tmp_path, name)
    assert refused.value.hint


@pytest.mark.parametrize("what", HOSTILE)
def test_no_command_is_started_for_it_whatever_a_store_has_written_down(what: str) -> None:
    with pytest.raises(WeirError, match="is no name of a host"):
        ask(Reach("ssh", "weir"), "probe", {"node01": {}, HOSTILE[what]: {}}, 1.0)


def test_one_function_knows_names_of_hosts() -> None:
    for name in NAMES:
        assert values.host(name) == name
    for name in HOSTILE.values():
        with pytest.raises(ValueError, match="is no name of a host"):
            values.host(name)


@pytest.mark.parametrize(
    "text", ["node[1-9000000]", "node[1-1000000000]", "a[1-99]b[1-99]", f"node[1-{'9' * 40}]", f"node[{'1' * 30}]"]
)
def test_a_list_of_too_many_hosts_is_refused_before_they_are_named(text: str) -> None:
    """9,000,000 hosts took 52 s and 1.9 GiB, and 1,000,000,000 ended in an AssertionError of ClusterShell."""
    with pytest.raises(WeirError, match="names more hosts than the 4096"):
        nodes.listed(text)
