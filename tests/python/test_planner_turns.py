"""Turns of users at the planner's event loop and helpers, and slots of their steps: many of one keep out no other."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from resident import DEPLOYMENT, IDENTITY, python_path, record, write_site
from seeds import seeded
from waits import PATIENCE_SECONDS
from weir.planner import steps as steps_module
from weir.planner import work
from weir.planner.helpers import Helpers
from weir.planner.ledger import Ledger
from weir.planner.plans import Asked, Plans
from weir.planner.site import Site
from weir.planner.steps import Steps
from weir.planner.stores import open_store
from weir.planner.turns import Peer, Slots, Turns
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

    async def plan(
        self, snapshot: Any, identity: Any, job: Job, directives: Directives, outcomes: Any = ()
    ) -> tuple[Deployment, bool]:
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


ROOT, SOME, OTHER = Peer(0, is_privileged=True), Peer(1000), Peer(1001)


class Clock:
    """A clock that goes on where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_user_waits_for_one_piece_of_work_of_each_other_user() -> None:
    """Whatever pieces cost: a user who had no turn before waits for one piece of each other user, and root for one."""
    dice = seeded()
    clock = Clock()
    began: list[Peer] = []

    async def work(turns: Turns, peer: Peer) -> None:
        async with turns.turn(peer):
            began.append(peer)
            clock.now += dice.choice((0.001, 0.1, 3.0))
            await asyncio.sleep(0)

    async def ask(turns: Turns, peer: Peer) -> None:
        before = len(began)
        await work(turns, peer)
        waited = Counter(began[before:-1])
        assert waited.total() <= (1 if peer.is_privileged else 3)
        assert all(count <= 1 for each, count in waited.items() if not each.is_privileged), waited

    async def live() -> None:
        turns = Turns(clock)
        flood = [asyncio.ensure_future(work(turns, each)) for each in (SOME, Peer(1002)) for _ in range(300)]
        for number in range(50):
            for _ in range(dice.randrange(8)):
                await asyncio.sleep(0)
            await ask(turns, dice.choice((ROOT, Peer(2000 + number))))
        await asyncio.gather(*flood)

    asyncio.run(live())


def test_one_step_is_made_between_two_looks_at_the_sockets() -> None:
    steps = []

    async def work() -> int:
        for _ in range(3):
            steps.append(1)
            await asyncio.sleep(0)
        return 42

    async def live() -> None:
        turns = Turns()
        tasks = [asyncio.ensure_future(turns.charged(SOME, work())) for _ in range(60)]
        while not all(task.done() for task in tasks):
            before = len(steps)
            await asyncio.sleep(0)
            assert len(steps) - before <= 1
        assert len(steps) == 180 and {task.result() for task in tasks} == {42}

    asyncio.run(live())


def test_work_that_is_cancelled_gives_its_turn_back_and_cleans_up() -> None:
    dice = seeded()

    async def work(ended: list[int]) -> None:
        try:
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await asyncio.sleep(PATIENCE_SECONDS)
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    async def charged(turns: Turns, ended: list[int]) -> None:
        await turns.charged(SOME, work(ended))

    async def live() -> None:
        turns = Turns()
        for _ in range(200):
            ended: list[int] = []
            tasks = [asyncio.ensure_future(charged(turns, ended)) for _ in range(4)]
            for _ in range(dice.randrange(12)):
                await asyncio.sleep(0)
            for task in dice.sample(tasks, 2):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # One that was cancelled before its first step had begun nothing.
            assert len(ended) >= 2
            async with asyncio.timeout(PATIENCE_SECONDS), turns.turn(OTHER):
                pass

    asyncio.run(live())


def test_a_user_takes_no_slot_that_would_leave_others_less_than_the_user_has() -> None:
    dice = seeded()

    async def live() -> None:
        slots = Slots(16, 12)
        held: Counter[int] = Counter()
        most: Counter[int] = Counter()

        async def hold(uid: int) -> None:
            async with slots.slot(uid):
                held[uid] += 1
                assert held[uid] <= 16 - (held.total() - 1) and held[uid] <= 12
                most[uid] = max(most[uid], held[uid])
                try:
                    for _ in range(dice.randrange(30)):
                        await asyncio.sleep(0)
                finally:
                    held[uid] -= 1

        tasks = [asyncio.ensure_future(hold(dice.choice((1, 1, 1, 2, 3)))) for _ in range(400)]
        for task in dice.sample(tasks, 100):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not held.total() and max(most.values()) == 8
        # Nothing was lost on the way.
        async with slots.slot(4), slots.slot(4), slots.slot(5):
            pass

    asyncio.run(live())


def test_stopped_steps_hold_no_slot_that_another_user_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may stop the own processes for ever. Their slots stay taken, and the others have theirs."""
    monkeypatch.setattr(steps_module, "STEPS_MAX", 4)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", python_path())
    (tmp_path / "hold-setup").touch()

    async def live() -> None:
        steps = Steps("planner_steps", tmp_path, "local")
        account = os.getuid(), os.getgid()
        jobs = {
            name: record(name, account[0], gid=account[1], deployment=msgspec.structs.replace(DEPLOYMENT, name=name))
            for name in ("one", "two", "three", "four", "other")
        }
        tasks = {
            name: asyncio.ensure_future(steps.run(jobs[name], "setup")) for name in ("one", "two", "three", "four")
        }
        async with asyncio.timeout(PATIENCE_SECONDS):
            told = tmp_path / "steps"
            while not (told.exists() and len(told.read_text().splitlines()) == 2):
                await asyncio.sleep(0.01)
            stopped = [process.pid for process in steps._running.values()]
            for each in stopped:
                os.killpg(each, signal.SIGSTOP)
            (tmp_path / "hold-setup").unlink()
            # The number of another user: the slots are what is in question here, not the rights.
            async with steps._slots[False].slot(12345):
                assert not (await steps._run(jobs["other"], "setup", False)).message
            assert not any(task.done() for task in tasks.values())
            for each in stopped:
                os.killpg(each, signal.SIGCONT)
            assert [outcome.message for outcome in await asyncio.gather(*tasks.values())] == [""] * 4

    asyncio.run(live())
