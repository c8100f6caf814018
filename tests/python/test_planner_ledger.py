"""The deployments in memory over their store: limits, changes that follow each other, and history that is forgotten."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from resident import DEPLOYMENT, IDENTITY, record, write_site
from weir.planner import known as known_module
from weir.planner import ledger as module
from weir.planner.errors import DatabaseError, PlannerError
from weir.planner.known import KnownJobs
from weir.planner.ledger import Ledger
from weir.planner.records import ADMINISTRATOR, Fault, KnownJob, Record, asked_for, succeeded
from weir.planner.site import Site, taken
from weir.planner.stores import open_store
from weir.provisioning.deployments import Server

DAY = 86_400.0


def ended(name: str, changed: float) -> Record:
    return record(name, done="teardown", changed=changed)


def nothing() -> None:
    pass


def test_history_is_forgotten_by_age_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_PER_USER_MAX", 2)

    async def live() -> None:
        store = open_store(f"sqlite:///{tmp_path}/db")
        now = 100 * DAY
        store.save([ended("old", now - 8 * DAY), *(ended(f"e{number}", now - number) for number in range(3))])
        store.save([record("live", changed=1.0), record("other", uid=7)])
        ledger = Ledger(store)
        await ledger.load()
        await ledger.blame(Fault(node="n1", uid=1, until=now - 1))
        await ledger.blame(Fault(node="n2", uid=1, until=now + 1))
        await ledger.tidy(now)
        assert {each.name for each in ledger.of_user(1000)} == {"e0", "e1", "live"}
        await ledger.close()
        again = open_store(f"sqlite:///{tmp_path}/db")
        assert {each.name for each in again.records()} == {"e0", "e1", "live", "other"}
        assert [fault.node for fault in again.faults()] == ["n2"]
        again.close()

    asyncio.run(live())


def test_a_user_has_so_many_deployments_and_each_name_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEPLOYMENTS_PER_USER_MAX", 2)

    async def live() -> None:
        ledger = Ledger(open_store(f"sqlite:///{tmp_path}/db"))
        await ledger.add(record("a"), nothing)
        with pytest.raises(PlannerError, match="there is a deployment a"):
            await ledger.add(record("a"), nothing)
        await ledger.add(record("a", uid=7), nothing)
        await ledger.add(record("b"), nothing)
        with pytest.raises(PlannerError) as caught:
            await ledger.add(record("c"), nothing)
        assert caught.value.code == "busy"
        await ledger.change((1000, "b"), lambda each: succeeded(each, "teardown", now=2.0))
        await ledger.add(record("c"), nothing)
        # The name of one that has ended is free.
        await ledger.change((1000, "c"), lambda each: succeeded(each, "teardown", now=2.0))
        await ledger.add(record("b"), nothing)
        await ledger.close()

    asyncio.run(live())


def test_known_jobs_take_so_many_bytes_of_each_user(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownJobs()
    job = KnownJob(identity=IDENTITY, deployment=DEPLOYMENT, conditions="c")
    size = len(msgspec.json.encode(job))
    monkeypatch.setattr(known_module, "USER_BYTES_MAX", 3 * size)
    monkeypatch.setattr(known_module, "ALL_BYTES_MAX", 4 * size)
    assert all(known.keep(1000, str(number), job) for number in range(3))
    assert known.find(1000, "0") == job
    known.keep(1000, "3", job)
    # The one that was used longest ago went.
    assert [known.find(1000, str(number)) for number in range(4)] == [job, None, job, job]
    known.keep(7, "0", job)
    known.keep(7, "1", job)
    # The user who has most makes room for others.
    assert known.find(7, "0") == job and known.find(7, "1") == job and known.find(1000, "0") is None
    monkeypatch.setattr(known_module, "JOB_BYTES_MAX", size - 1)
    assert not known.keep(7, "0", job) and known.find(7, "0") is None


def test_changes_follow_each_other_also_where_their_callers_go_away(tmp_path: Path) -> None:
    async def live() -> None:
        ledger = Ledger(open_store(f"sqlite:///{tmp_path}/db"))
        await ledger.add(record("a"), nothing)
        key = 1000, "a"
        calls = [
            asyncio.ensure_future(
                ledger.change(key, lambda each: msgspec.structs.replace(each, replans=each.replans + 1))
            )
            for _ in range(50)
        ]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        seen = ledger.version
        while (found := ledger.find(key)) is not None and found.replans < 50:
            await ledger.wait(60.0, seen)
            seen = ledger.version
        await ledger.close()
        with pytest.raises((DatabaseError, RuntimeError)):
            await ledger.change(key, lambda each: asked_for(each, "setup", now=9.0))

    asyncio.run(live())


def test_storage_is_free_less_the_deployments_that_hold_it(tmp_path: Path) -> None:
    async def live() -> None:
        write_site(tmp_path, ("n1", "n2"), 4 << 30)
        store = open_store(f"sqlite:///{tmp_path}/db")
        path = str(tmp_path / "devices" / "n1")
        two = (Server(node="n1", devices=(path, path), target_bytes=1 << 30),)
        held = record(
            "a", deployment=msgspec.structs.replace(DEPLOYMENT, name="a", servers=two, shareable=True), done="setup"
        )
        store.save([held, record("waits", deployment=held.deployment, window_until=1e12)])
        ledger = Ledger(store)
        await ledger.load()
        assert taken(held.deployment) == {("n1", path): 2 << 30}
        site = Site(ledger, tmp_path / "site.toml")
        own, other = site.snapshot(1000), site.snapshot(7)
        assert [node.devices[0].room for node in own.resources.nodes] == [2 << 30, 4 << 30]
        # A user sees their own stores alone.
        assert [each.deployment.name for each in own.resources.deployments] == ["a"]
        assert not other.resources.deployments and own.digest != other.digest
        assert site.snapshot(1000) is own
        assert [node.devices[0].room for node in site.snapshot(7, empty=True).resources.nodes] == [4 << 30] * 2
        with pytest.raises(PlannerError, match="no room"):
            site.check(msgspec.structs.replace(held.deployment, servers=two * 2), own)
        with pytest.raises(PlannerError, match="cannot be used"):
            site.check(DEPLOYMENT, site.snapshot(1000, nodes=("n2",)))
        with pytest.raises(PlannerError, match="to join"):
            site.check(msgspec.structs.replace(DEPLOYMENT, joins="a", servers=()), other)
        for uid, expected in ((5, set()), (6, {"n1"}), (ADMINISTRATOR, {"n1", "n2"})):
            await ledger.blame(Fault(node="n2" if uid == ADMINISTRATOR else "n1", uid=uid, until=1e12))
            assert site.pools().quarantined.keys() == expected
        assert IDENTITY.name == held.identity.name
        await ledger.close()

    asyncio.run(live())
