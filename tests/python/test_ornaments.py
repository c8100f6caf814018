"""Jobspecs of Flux with wishes and with planned storage, and Flux's own commands where there is a Flux."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import provisioned
import pytest
import schemas
import sites
import yaml
from click.testing import CliRunner, Result
from store import program
from waits import PATIENCE_SECONDS, wait_until
from weir.cli import weir
from weir.planner import protocol
from weir.planner.client import Client
from weir.planner.errors import PlannerError
from weir.planner.flux import planned
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.ornaments import bare, deployment_of, ornament, wish, wishes_of
from weir.provisioning.objectives.sslos import Guarantees, System

FLUX_PLUGINS = Path(__file__).resolve().parents[2] / "packaging" / "flux"
JOBSPEC: dict[str, Any] = yaml.safe_load(provisioned.JOBSPEC)


def deployment(name: str = "flux-1") -> Deployment:
    return Deployment(
        name=name,
        identity="large-write-heavy-sequential-mpiio",
        behaviour_class="",
        sslo="weir-memory-1",
        policy="performance",
        system=System(device="memory", servers=1),
        servers=(Server(node="here", devices=(), target_bytes=1 << 30),),
        shareable=False,
        size_bytes=1 << 30,
        expected=Guarantees(),
    )


def test_wishes_are_added_to_those_of_the_jobspec() -> None:
    made = wish(JOBSPEC, ["slowdown=1.5", "size=1TB", "stage_in=/a:x", "stage_in=/b:y"])
    found = wishes_of(made)
    assert found is not None
    assert (found.policy, found.slowdown, found.size_bytes) == ("utilization", 1.5, 10**12)
    assert [each.destination for each in found.stage_in] == ["x", "y"]
    again = wishes_of(wish(made, ["stage_in=/c:z"]))
    assert again is not None
    assert [each.destination for each in again.stage_in] == ["x", "y", "z"]
    assert {name: each for name, each in made.items() if name != "attributes"} == {
        name: each for name, each in JOBSPEC.items() if name != "attributes"
    }
    assert made["attributes"]["system"] == JOBSPEC["attributes"]["system"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["siez=1TB"], "did you mean `size`"),
        (["size"], "has no value"),
        (["size=1", "size=2"], "twice"),
        (["stage_out=/x"], "missing"),
    ],
)
def test_a_wrong_wish_changes_nothing(words: list[str], message: str) -> None:
    before = json.dumps(JOBSPEC)
    with pytest.raises(ProvisioningError, match=message):
        wish(JOBSPEC, words)
    assert json.dumps(JOBSPEC) == before


def test_a_jobspec_carries_its_deployment() -> None:
    planned = deployment()
    made = ornament(JOBSPEC, planned)
    assert deployment_of(json.loads(json.dumps(made))) == planned
    jsonschema.validate(made["attributes"]["system"]["weir"], schemas.schema("deployment"))
    assert made["attributes"]["user"] == JOBSPEC["attributes"]["user"]
    assert deployment_of(JOBSPEC) is None
    assert wishes_of({"version": 1}) is None
    replaced = deployment_of(ornament(made, deployment("flux-2")))
    assert replaced is not None
    assert replaced.name == "flux-2"


def test_a_deployment_that_a_user_brings_along_is_taken_away() -> None:
    assert deployment_of(bare(ornament(JOBSPEC, deployment()))) is None
    assert bare({"version": 1}) == {"version": 1}


@pytest.mark.parametrize(
    "attributes",
    [
        "text",
        {"user": 3},
        {"user": {"weir": ["size=1"]}},
        {"user": {"weir": {"siez": "1"}}},
        {"system": {"weir": 1}},
        {"system": {"weir": {"name": 1}}},
    ],
)
def test_attributes_of_another_shape_are_refused(attributes: Any) -> None:
    jobspec = {**JOBSPEC, "attributes": attributes}
    with pytest.raises(ProvisioningError):
        wishes_of(jobspec)
        deployment_of(jobspec)


def test_a_jobspec_of_another_version_is_not_ornamented() -> None:
    with pytest.raises(ProvisioningError, match="version 2"):
        ornament({**JOBSPEC, "version": 2}, deployment())


@pytest.fixture
def planner(tmp_path: Path) -> Iterator[Path]:
    """The socket of a planner with a device of this machine."""
    folder = Path(tempfile.mkdtemp(prefix="weir-flux-"))
    (folder / "site.toml").write_text(sites.node(os.uname().nodename, folder))
    words = ["--socket", "socket", "--state", "state", "--resources", "site.toml"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*program(), "planner", *words], cwd=folder, stdout=log, stderr=log)
    try:
        wait_until("the planner listens", lambda: (folder / "socket").exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield folder / "socket"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        shutil.rmtree(folder)


def test_a_jobspec_that_is_taken_in_gets_its_storage(planner: Path) -> None:
    """The frobnicator's part: the planner plans, and a deployment that the user forged is gone."""
    log = Path(__file__).parents[1] / "data/darshan/pq_app_write_id71296_7-31-5657-2037904274838284930_55623.darshan"
    wished = wish(JOBSPEC, ["size=64MiB", f"trace={log}", "stage_in=/a:x", "stage_in=/b:y"])
    made = planned(ornament(wished, deployment("forged")), os.getuid(), str(planner))
    found = deployment_of(made)
    assert found is not None
    assert found.name.startswith("flux-")
    assert found.size_bytes == 64 << 20
    assert [each.destination for each in found.stage_in] == ["x", "y"]
    with Client(planner) as client:
        listed = client.ask(protocol.List(), protocol.Listed).deployments
    assert [each.name for each in listed] == [found.name]
    nothing = {**JOBSPEC, "attributes": {}}
    assert planned(ornament(nothing, deployment("forged")), os.getuid(), str(planner)) == {
        **nothing,
        "attributes": {"system": {}},
    }


def test_no_planner_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlannerError, match="no planner"):
        planned(JOBSPEC, os.getuid(), str(tmp_path / "none"))


def test_the_command_line_ornaments(tmp_path: Path) -> None:
    """In the format of the jobspec, or in another; a mistake prints nothing."""
    (tmp_path / "job.yaml").write_text(provisioned.JOBSPEC)
    (tmp_path / "deployment.json").write_bytes(msgspec.json.encode(deployment()))
    options = ["--weir", "stage_in=/a:x", "--deployment", str(tmp_path / "deployment.json")]

    def run(*words: str) -> Result:
        return CliRunner().invoke(weir, ["job", "ornament", *words], standalone_mode=False)

    answer = run(str(tmp_path / "job.yaml"), *options)
    assert answer.exception is None
    found = yaml.safe_load(answer.stdout)
    assert deployment_of(found) == deployment()
    assert found["attributes"]["user"]["weir"]["stage_in"] == ["/a:x"]
    (tmp_path / "job.json").write_text(json.dumps(found))
    again = run(str(tmp_path / "job.json"))
    assert json.loads(again.stdout) == found
    assert yaml.safe_load(run(str(tmp_path / "job.json"), "--format", "yaml").stdout) == found
    refused = run(str(tmp_path / "job.yaml"), "--weir", "siez=1")
    assert isinstance(refused.exception, ProvisioningError)
    assert refused.stdout == ""


@pytest.mark.skipif(shutil.which("flux") is None, reason="no flux here: Debian 12 has no package of it")
def test_flux_submit_takes_wishes(tmp_path: Path) -> None:
    """The plugin of Flux's own commands writes the wishes, and refuses a mistyped one."""
    shutil.copy(FLUX_PLUGINS / "cli_plugin.py", tmp_path)
    environment = {**os.environ, "FLUX_CLI_PLUGINPATH": str(tmp_path)}

    def submit(word: str) -> subprocess.CompletedProcess[str]:
        command = ["flux", "submit", "--dry-run", f"--weir={word}", "true"]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

    taken = submit("size=1GB")
    assert taken.returncode == 0, taken.stderr
    assert json.loads(taken.stdout)["attributes"]["user"]["weir"] == {"size": "1GB"}
    refused = submit("siez=1GB")
    assert refused.returncode != 0
    assert "did you mean `size`" in refused.stderr
