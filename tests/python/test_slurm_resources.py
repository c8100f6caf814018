"""The resources of a cluster from Slurm's answers: recorded from Slurm 22.05, in the form of newer ones, and live."""

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import planned
import provisioned
import pytest
import slurm
from store import program
from waits import PATIENCE_SECONDS
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.resources.model import Resources, read_resources
from weir.provisioning.resources.slurm import ENDLESS_SECONDS, of_documents, with_states

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "slurm"
"""Answers of a Slurm 22.05 with two nodes, of which one is down: idle, with a job of 10 minutes, and draining."""


def answer(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / f"22.05-{name}.json").read_text())
    return document


def newer(document: dict[str, Any]) -> dict[str, Any]:
    """The same in the form of versions from 23.02 on (data_parser v0.0.39 and later)."""
    found = copy.deepcopy(document)
    for node in found.get("nodes", []):
        node["state"] = [node["state"].upper(), *node.pop("state_flags")]
        node["active_features"] = node["features"].split(",")
        node["free_mem"] = {"set": True, "infinite": False, "number": node.pop("free_memory")}
    for job in found.get("jobs", []):
        job["job_state"] = [job["job_state"]]
        job["end_time"] = {"set": True, "infinite": False, "number": job["end_time"]}
        allocated = job["job_resources"].pop("allocated_nodes")
        job["job_resources"]["nodes"] = {"allocation": [{"name": each["nodename"]} for each in allocated]}
    return found


def read(nodes: dict[str, Any], jobs: dict[str, Any], now: float = 0.0) -> Resources:
    return of_documents(json.dumps(nodes).encode(), json.dumps(jobs).encode(), folder="/tmp", now=now)


@pytest.mark.parametrize("form", [lambda each: each, newer], ids=["22.05", "newer"])
def test_nodes_have_their_disk_class_memory_and_state(form: Any) -> None:
    found = read(form(answer("idle-nodes")), form(answer("idle-jobs")))
    gone, here = found.nodes
    assert (gone.name, gone.usable) == ("gone", False)
    assert (here.name, here.usable, here.cores, here.free_in_seconds) == ("here", True, 8, 0)
    disk, memory = here.devices
    assert (disk.kind, disk.path, disk.capacity_bytes) == ("nvme", "/tmp", 20000 << 20)
    assert gone.devices[0].kind == "hdd"
    assert (memory.kind, memory.capacity_bytes) == ("memory", 8000 << 20)
    assert memory.room == memory.capacity_bytes / 2
    made = planned.planner().plan(planned.writer(written_bytes=10**9), None, found)
    assert [each.node for each in made.deployment.servers] == ["here"]


@pytest.mark.parametrize("form", [lambda each: each, newer], ids=["22.05", "newer"])
def test_a_node_is_free_when_its_last_job_ends(form: Any) -> None:
    jobs = form(answer("busy-jobs"))
    end = answer("busy-jobs")["jobs"][0]["end_time"]
    (_, here) = read(form(answer("busy-nodes")), jobs, now=end - 250).nodes
    assert (here.usable, here.free_in_seconds) == (True, 250)
    (_, here) = read(form(answer("draining-nodes")), jobs, now=end - 250).nodes
    assert not here.usable


@pytest.mark.parametrize("form", [lambda each: each, newer], ids=["22.05", "newer"])
def test_the_kernels_cache_is_room_and_the_memory_of_jobs_is_not(form: Any) -> None:
    nodes = answer("idle-nodes")
    nodes["nodes"][1] |= {"free_memory": 100, "alloc_memory": 6000}
    (_, here) = read(form(nodes), form(answer("idle-jobs"))).nodes
    assert here.devices[1].room == (1000 << 20)


def test_a_held_node_without_an_end_is_held_for_ever() -> None:
    (_, here) = read(answer("busy-nodes"), {"jobs": []}).nodes
    assert here.free_in_seconds == ENDLESS_SECONDS
    jobs = newer(answer("busy-jobs"))
    jobs["jobs"][0]["end_time"] = {"set": False, "infinite": True, "number": 0}
    (_, here) = read(newer(answer("busy-nodes")), jobs).nodes
    assert here.free_in_seconds == ENDLESS_SECONDS


def test_a_sites_devices_get_slurms_states(tmp_path: Path) -> None:
    path = tmp_path / "resources.toml"
    path.write_text(provisioned.RESOURCES.replace("node1", "gone").replace("node2", "here"))
    site = read_resources(path)
    end = answer("busy-jobs")["jobs"][0]["end_time"]
    joined = with_states(site, read(answer("busy-nodes"), answer("busy-jobs"), now=end - 1000))
    gone, here, third = joined.nodes
    assert (gone.usable, here.usable, here.free_in_seconds) == (False, True, 1000)
    assert gone.devices == site.nodes[0].devices
    assert third == site.nodes[2]


@pytest.mark.parametrize(
    ("nodes", "fault"),
    [
        (b"", "is no JSON"),
        (b"[]", "no list of nodes"),
        (b'{"nodes": [1]}', "no list of nodes"),
        (b'{"nodes": [{"state": "idle"}]}', "a node without a name"),
        (b'{"nodes": [{"name": "a"}, {"name": "a"}]}', "two nodes are named a"),
    ],
)
def test_another_form_is_refused(nodes: bytes, fault: str) -> None:
    with pytest.raises(ProvisioningError, match=fault) as told:
        of_documents(nodes, b'{"jobs": []}', folder="/tmp", now=0)
    assert told.value.hint


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if slurm.missing():
        pytest.skip(slurm.missing())
    with slurm.slurm(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def test_a_plan_asks_slurm_for_its_nodes(cluster: dict[str, str], tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/sh\n#WEIR size=1GiB durable=no\nsrun app\n")

    def planned_for(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*program(), "plan", "resources", str(ROOT / "examples" / "run.darshan"), "--from-slurm", *words]
        return subprocess.run(
            command, env=cluster, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

    # The node of the test's cluster has no temporary disk, so only its memory is to be had.
    refused = planned_for("--size", "1GiB")
    assert refused.returncode == 1, refused
    assert "outlive a server's process" in refused.stderr, refused.stderr
    answer = planned_for("--job", str(job), "--output", "json")
    assert answer.returncode == 0, answer.stderr
    (server,) = json.loads(answer.stdout)
    assert (server["node"], server["devices"]) == ("here", [])


def test_a_slurm_that_is_not_there_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    from weir.provisioning.resources.slurm import slurm_resources

    with pytest.raises(ProvisioningError, match="sinfo is not installed") as told:
        slurm_resources(0.0)
    assert "`resources`" in told.value.hint
