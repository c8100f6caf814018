"""The storage of a job on the devices of several hosts ends on each of them."""

import json
import sys
from pathlib import Path

import hosts
import job_runs
import pytest

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

_STEPS = """
import sys
from pathlib import Path
from weir.deployment.fanout import Reach
from weir.provisioning.lifecycle.record import JobFolder
from weir.provisioning.lifecycle.setup import setup
from weir.provisioning.lifecycle.teardown import teardown
from weir.provisioning.schema_file import read_schema

step, folder, file, program, options = sys.argv[1:]
job = JobFolder(Path(folder))
if step == "setup":
    job.create(read_schema(Path(file)))
    print(setup(job, lambda notice: print(notice.words), reach=Reach("ssh", program, options)).token)
else:
    print(teardown(job, discard=True).phase)
"""


def test_each_host_removes_the_jobs_folders_and_a_failure_is_no_end(tmp_path: Path) -> None:
    """Folders on the nodes once stayed for ever, and the deployment had ended all the same."""
    with hosts.hosts(["desk", "node1", "node2"]) as machines:
        nodes = [machines["node1"], machines["node2"]]
        device = machines.home.parent / "device"
        for node in nodes:
            node.run("mkdir", "-m", "1777", device)
        document = job_runs.schema(tmp_path, [device, device])
        for server, node in zip(document["servers"], nodes, strict=True):
            server["node"] = node.name
        (tmp_path / "schema.json").write_text(json.dumps({**document, "stage_in": []}))
        (tmp_path / "steps.py").write_text(_STEPS)
        folder = machines.home.parent / "jobs/job"

        def step(name: str, *, code: int = 0) -> str:
            arguments = (name, folder, tmp_path / "schema.json", machines.program, machines.ssh_options)
            answer = machines["desk"].run(sys.executable, tmp_path / "steps.py", *arguments, code=code)
            return answer.stderr if code else answer.stdout.split()[-1]

        token = step("setup")
        places = [device / f"weir-job-{number}-0-{token}" for number in (0, 1)]
        for node, place in zip(nodes, places, strict=True):
            assert node.run("ls", device).stdout.split() == [place.name]
        # A file that the second host cannot remove is told, and its storage has not ended.
        nodes[1].run("mount", "--bind", places[1], places[1])
        assert "cannot remove" in step("teardown", code=1)
        assert nodes[0].run("ls", device).stdout == ""
        nodes[1].run("umount", "--lazy", places[1])
        assert step("teardown") == "ended"
        for node in nodes:
            assert node.run("ls", device).stdout == ""
            node.run("test", "-e", folder / "home", code=1)
