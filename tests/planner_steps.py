"""Steps of deployments whose store is a folder. A test holds and breaks them by files in TMPDIR; see `resident.py`."""

import os
import shutil
import time
from pathlib import Path

import msgspec
from weir.planner.errors import PlannerError
from weir.planner.step import Context
from weir.provisioning.deployments import Deployment
from weir.provisioning.outcomes.outcome import Outcome

CONTROL = Path(os.environ["TMPDIR"])


class BadNodesError(PlannerError):
    """A failure of nodes."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(nodes)} does not answer", hint="look at it", code="failed")
        self.nodes = nodes


def _note(deployment: Deployment, step: str, what: str) -> None:
    log = os.open(CONTROL / "steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(log, f"{deployment.name} {step} {what}\n".encode())
    os.close(log)


def _begin(deployment: Deployment, step: str) -> None:
    _note(deployment, step, "begun")
    while (CONTROL / f"hold-{step}").exists():
        time.sleep(0.02)


def _store(deployment: Deployment, folder: Path) -> Path:
    return (folder.parent / deployment.joins if deployment.joins else folder) / "store"


def setup(deployment: Deployment, folder: Path, context: Context) -> None:
    _begin(deployment, "setup")
    bad = tuple(each.node for each in deployment.servers if (CONTROL / f"bad-{each.node}").exists())
    if bad:
        raise BadNodesError(bad)
    if deployment.joins and not _store(deployment, folder).is_dir():
        raise PlannerError(f"{deployment.joins} is not there", code="failed")
    _store(deployment, folder).mkdir(exist_ok=True)
    _note(deployment, "setup", "ended")


def stage_in(deployment: Deployment, folder: Path, context: Context) -> None:
    _begin(deployment, "stage_in")
    if (CONTROL / "wordy").exists():
        raise PlannerError("x" * 100_000, hint="y" * 100_000, code="failed")
    for each in deployment.stage_in:
        shutil.copy(each.source, _store(deployment, folder) / each.destination)
    _note(deployment, "stage_in", "ended")


def environment(deployment: Deployment, folder: Path, context: Context) -> dict[str, str]:
    _begin(deployment, "environment")
    if (CONTROL / "wordy").exists():
        return {f"V{number}": "x" * 4000 for number in range(20)}
    return {"STORE": str(_store(deployment, folder)), "JOB": context.job, "NODES": str(context.nodes)}


def stage_out(deployment: Deployment, folder: Path, context: Context) -> Outcome | None:
    _begin(deployment, "stage_out")
    if (CONTROL / "full").exists():
        raise PlannerError(
            f"no room at {deployment.stage_out[0].destination}; the data are in {_store(deployment, folder)}",
            code="failed",
        )
    for each in deployment.stage_out:
        shutil.copy(_store(deployment, folder) / each.source, each.destination)
    _note(deployment, "stage_out", "ended")
    measured = CONTROL / "measured"
    return msgspec.json.decode(measured.read_bytes(), type=Outcome) if measured.exists() else None


def teardown(deployment: Deployment, folder: Path, context: Context) -> None:
    _begin(deployment, "teardown")
    if not deployment.joins:
        shutil.rmtree(folder / "store", ignore_errors=True)
    _note(deployment, "teardown", "ended")
