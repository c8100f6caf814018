"""Turns of users at the planner's helpers, and of steps at their slots: nobody's many keep out another's one."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from resident import DEPLOYMENT, IDENTITY, python_path, record, write_site
from waits import PATIENCE_SECONDS
from weir.planner import steps as steps_module
from weir.planner import work
from weir.planner.helpers import Helpers
from weir.planner.ledger import Ledger
from weir.planner.plans import Asked, Plans
from weir.planner.site import Site
from weir.planner.steps import Steps
from weir.planner.stores import open_store
from weir.planner.users import user
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job


class Counted(Helpers):
    """Helpers that note the plans of each size that are in the making at once."""

    def __init__(self) -> None:
        super().__init__()
        self.present: list[int] = []
        self.most = 0

    async def plan(self, snapshot: Any, identity: Any, job: Job, directives: Directives) -> tuple[Deployment, bool]:
        self.present.append(directives.size_bytes or 0)
        self.most = max(self.most, len(self.present))
        try:
            return await super().plan(snapshot, identity, job, directives)
        finally:
            self.present.remove(directives.size_bytes or 0)


def test_one_plan_of_a_user_is_made_at_a_time(tmp_path: Path) -> None:
    async def live() -> None:
        write_site(tmp_path, ("n1", "n2"))
        ledger = Ledger(open_store(f"sqlite:///{tmp_path}/db"))
        helpers = Counted()
        plans = Plans(ledger, Site(ledger, tmp_path / "site.toml"), helpers)
        asked = [
            Asked(user(os.getuid()), Job(nodes=2), Directives(size_bytes=(1 << 29) + number), identity=IDENTITY)
            for number in range(8)
        ]
        made = await asyncio.gather(*(plans.make(each) for each in asked))
        assert len({each.deployment.size_bytes for each in made}) == len(asked) and helpers.most == 1
        await helpers.end()
        await ledger.close()

    asyncio.run(live())


def test_a_fault_of_a_helper_fails_one_piece_of_work(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = work.Worker()
    with monkeypatch.context() as broken:
        broken.setattr(work, "read_script", lambda script: 1 / 0)
        done = worker.do(work.Read(script="#!/bin/sh\n"))
    assert done.code == "failed" and "ZeroDivisionError" in done.message and done.hint
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert worker.do(work.Read(script="#!/bin/sh\n#SBATCH --nodes=2\n")).job == Job(nodes=2)


def test_copies_leave_room_for_other_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "STEPS_MAX", 1)
    monkeypatch.setattr(steps_module, "STEPS_PER_USER_MAX", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", python_path())
    (tmp_path / "hold-stage_in").touch()

    async def live() -> None:
        steps = Steps("planner_steps", tmp_path, "local")
        copying, other = (
            record(name, os.getuid(), gid=os.getgid(), deployment=msgspec.structs.replace(DEPLOYMENT, name=name))
            for name in ("copying", "other")
        )
        copies = [asyncio.ensure_future(steps.run(each, "stage_in")) for each in (copying, other)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            told = tmp_path / "steps"
            while not (told.exists() and told.read_text().endswith("\n")):
                await asyncio.sleep(0.01)
            assert told.read_text() == "copying stage_in begun\n"
            assert not (await steps.run(other, "setup")).message
            assert not any(copy.done() for copy in copies)
            (tmp_path / "hold-stage_in").unlink()
            assert [outcome.message for outcome in await asyncio.gather(*copies)] == ["", ""]

    asyncio.run(live())
