"""Jobs that wait for storage, how often they are planned, and storage that a deployment holds in vain."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from resident import DEPLOYMENT, GIB, IDENTITY, planner, record, write_site
from waits import PATIENCE_SECONDS, wait_until
from weir.planner import protocol
from weir.planner.errors import PlannerError
from weir.planner.helpers import Helpers
from weir.planner.ledger import Ledger, now
from weir.planner.lives import Lives
from weir.planner.plans import Plans
from weir.planner.protocol import PoolList, Summary
from weir.planner.records import Record
from weir.planner.settings import Settings
from weir.planner.site import Site
from weir.planner.steps import Steps
from weir.planner.stores import open_store
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job


class Counted(Helpers):
    """Helpers that count plans."""

    def __init__(self) -> None:
        super().__init__()
        self.plans = 0

    async def plan(
        self, snapshot: Any, identity: Any, job: Job, directives: Directives, outcomes: Any = ()
    ) -> tuple[Deployment, bool]:
        self.plans += 1
        return await super().plan(snapshot, identity, job, directives)


class Parts:
    """The parts of a planner in this process, without its socket."""

    def __init__(self, folder: Path) -> None:
        write_site(folder, ("n1", "n2"))
        self.folder = folder
        self.ledger = Ledger(open_store(f"sqlite:///{folder}/db"))
        self.helpers = Counted()
        site = Site(self.ledger, folder / "site.toml")
        settings = Settings(socket=folder / "socket", state=folder, database="")
        plans = Plans(self.ledger, site, self.helpers)
        self.lives = Lives(self.ledger, plans, site, Steps("planner_steps", folder, "local"), settings)

    async def hold(self, name: str, *nodes: str, size: int) -> None:
        """Add a deployment that holds room on nodes."""
        servers = tuple(
            Server(node=node, devices=(str(self.folder / "devices" / node),), target_bytes=size) for node in nodes
        )
        held = msgspec.structs.replace(DEPLOYMENT, name=name, servers=servers)
        await self.ledger.add(record(name, os.getuid(), deployment=held), lambda: None)

    async def wait_for_storage(self, name: str, size: int, **wishes: Any) -> None:
        """Add a job that waits, and lead it on."""
        await self.add_waiting(name, size, **wishes)
        self.lives.wake((os.getuid(), name))

    async def add_waiting(self, name: str, size: int, **wishes: Any) -> None:
        """Add a job that waits."""
        directives = Directives(policy="utilization", size_bytes=size, window_seconds=3600.0, **wishes)
        shown = msgspec.structs.replace(DEPLOYMENT, name=name, size_bytes=size)
        await self.ledger.add(
            record(
                name, os.getuid(), deployment=shown, directives=directives, identity=IDENTITY, window_until=now() + 3600
            ),
            lambda: None,
        )

    def served(self) -> list[str]:
        """The jobs that do not wait any more, of those with a window."""
        return sorted(each.name for each in self.ledger.all() if each.directives.window_seconds and not _waits(each))

    async def end(self) -> None:
        await self.lives.end()
        await self.helpers.end()
        await self.ledger.close()


def _waits(each: Record) -> bool:
    return each.window_until is not None


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def _live(folder: Path, scenario: Callable[[Parts], Awaitable[None]]) -> None:
    async def live() -> None:
        parts = Parts(folder)
        try:
            await scenario(parts)
        finally:
            await parts.end()

    asyncio.run(live())


def test_waiting_jobs_for_which_there_is_no_room_are_not_planned(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        await parts.hold("owner", "n1", "n2", size=2 * GIB)
        for number in range(20):
            await parts.wait_for_storage(f"job-{number:02}", 2 * GIB)
        await parts.wait_for_storage("large", 9 * GIB)
        await asyncio.sleep(0.1)
        assert parts.helpers.plans == 0
        key = (os.getuid(), "owner")
        await parts.ledger.change(key, lambda each: msgspec.structs.replace(each, let_go=True))
        await _until(lambda: len(parts.served()) == 2)
        await asyncio.sleep(0.1)
        # The oldest ones have it all, and no plan was made for the others; one may have been under way.
        assert parts.served() == ["job-00", "job-01"] and parts.helpers.plans <= 4

    _live(tmp_path, scenario)


def test_equal_waiting_jobs_are_planned_once_for_each_change(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        # There is room, but at no such price. All jobs are there before the first is led on: each new job is a change.
        names = [f"job-{number:02}" for number in range(20)]
        for name in names:
            await parts.add_waiting(name, GIB, budget=1e-9)
        for name in names:
            parts.lives.wake((os.getuid(), name))
        await _until(lambda: parts.helpers.plans >= 1)
        await asyncio.sleep(0.1)
        assert parts.helpers.plans == 1
        await parts.hold("other", "n1", size=GIB // 2)
        await _until(lambda: parts.helpers.plans >= 2)
        await asyncio.sleep(0.1)
        assert parts.helpers.plans == 2 and parts.served() == []
        # A job of another kind is planned for itself.
        await parts.wait_for_storage("rich", GIB)
        await _until(lambda: parts.served() == ["rich"])

    _live(tmp_path, scenario)


def test_storage_that_cannot_be_set_up_is_for_others(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"weir-planner-vain-{os.getpid()}"
    with planner(folder, "--steps", "planner_steps", "--replans", "0", nodes=("n1",)) as made:
        made.start()

        def free() -> int:
            return int(made.ask(protocol.Pools(), PoolList).pools[0].free_bytes)

        made.hold("bad-n1")
        made.hold("hold-teardown")
        made.plan("job", " size=2GiB")
        with pytest.raises(PlannerError, match="does not answer"):
            made.ask(protocol.Setup(name="job", wait_seconds=600), Summary)
        # What was begun is ended before others have the storage, also where the planner is killed meanwhile.
        wait_until("the end has begun", lambda: "teardown begun" in made.steps("job"))
        assert free() == 0
        made.kill()
        made.start()
        assert free() == 0
        made.release("hold-teardown")
        wait_until("the storage is free", lambda: free() == 2 * GIB)
        summary = made.summary("job")
        assert summary.state == "failed" and "does not answer" in summary.error and "free for others" in summary.hint
        made.release("bad-n1")
        made.ask(protocol.Quarantine(node="n1", seconds=0), protocol.Hello)
        made.plan("other", " size=2GiB")
        # The storage is another's now.
        with pytest.raises(PlannerError, match="room"):
            made.ask(protocol.Setup(name="job", wait_seconds=600), Summary)
        made.ask(protocol.End(name="other", wait_seconds=600), Summary)
        assert made.ask(protocol.Setup(name="job", wait_seconds=600), Summary).state == "started"
        assert free() == 0 and not made.summary("job").hint
