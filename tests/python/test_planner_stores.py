"""The stores of the planner: SQLite, and real servers of Redis and PostgreSQL, which are killed and started again."""

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import databases
import msgspec
import pytest
from resident import DEPLOYMENT, IDENTITY, planner, record
from waits import wait_until
from weir.planner import protocol
from weir.planner.errors import PlannerError
from weir.planner.protocol import Summary
from weir.planner.records import ADMINISTRATOR, Fault, KnownJob
from weir.planner.stores import check_url, open_store
from weir.planner.stores.contract import Store
from weir.provisioning.outcomes.outcome import Outcome

_NUMBERS = count()


@dataclass
class Database:
    """A database of any kind."""

    url: str
    server: databases.Server | None = None

    def open(self) -> Store:
        return open_store(self.url)

    def kill(self) -> None:
        """Kill the server, where there is one, as a loss of power would."""
        if self.server is not None:
            # PostgreSQL's processes share memory, which a new one finds in use until all of them have ended.
            self.server.stop(signal.SIGQUIT if "postgres" in self.url else signal.SIGKILL)


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], databases.Server]]:
    made: dict[str, databases.Server] = {}

    def server(kind: str) -> databases.Server:
        if kind not in made:
            made[kind] = databases.redis() if kind == "redis" else databases.postgresql()
        if made[kind].process is None:
            made[kind].start()
        return made[kind]

    yield server
    for each in made.values():
        each.remove()


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def database(
    request: pytest.FixtureRequest, servers: Callable[[str], databases.Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """An empty database of each kind."""
    monkeypatch.setattr("weir.planner.stores.redis.CLAIM_SECONDS", 0.5)
    if request.param == "sqlite":
        with tempfile.TemporaryDirectory(prefix="weir-db-") as folder:
            yield Database(f"sqlite:///{folder}/planner.db")
        return
    server = servers(request.param)
    yield Database(server.url, server)
    server = servers(request.param)
    if request.param == "redis":
        import redis

        redis.Redis.from_url(server.url).flushdb()
    else:
        import psycopg

        with psycopg.connect(server.url) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


def test_a_store_keeps_everything_through_a_kill(database: Database) -> None:
    store = database.open()
    first, second, other = record("a"), record("b"), record("a", uid=1001)
    store.save([first, second, other])
    changed = msgspec.structs.replace(first, done="setup", goal="stage_in", error="x\0y\n\x1b", environment={"A": "ä"})
    store.save([changed])
    store.forget([(1000, "b"), (1000, "never")])
    job = KnownJob(identity=IDENTITY, deployment=DEPLOYMENT, conditions="c")
    store.remember(1000, "key", job)
    faults = [Fault(node="n1", uid=uid, until=1e10, reason="r") for uid in (ADMINISTRATOR, 1000)]
    outcomes = [outcome(begun) for begun in (1.0, 2.0)]
    for measured in outcomes:
        store.keep_outcome(1000, measured)
    for fault in (*faults, Fault(node="n2", uid=5, until=1e10)):
        store.blame(fault)
    store.pardon("n2")
    if database.server is not None:
        database.kill()
        with pytest.raises(PlannerError) as caught:
            store.save([second])
        assert caught.value.code == "failed" and "s3cret" not in str(caught.value)
        assert "\n" not in caught.value.message
        database.server.start()
        # The same store goes on once its server is back, and its claim is renewed.
        wait_until("the store goes on", lambda: _goes_on(store))
    store.close()
    store = database.open()
    try:
        assert sorted(store.records(), key=lambda each: each.key) == [changed, other]
        assert store.known(1000, "key") == job
        assert store.outcomes(1000) == outcomes and store.outcomes(1001) == []
        assert store.known(1001, "key") is None and store.known(1000, "other") is None
        assert sorted(store.faults(), key=lambda each: each.uid) == faults
    finally:
        store.close()


def outcome(begun: float) -> Outcome:
    return Outcome(
        begun=begun,
        job="job",
        behaviour_class="",
        sslo="fast",
        system=DEPLOYMENT.system,
        planned=IDENTITY,
        done=IDENTITY,
        predicted=DEPLOYMENT.expected,
    )


def test_the_latest_outcomes_of_a_user_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tables", "redis"):
        monkeypatch.setattr(f"weir.planner.stores.{module}.OUTCOMES_MAX", 3)
    store = database.open()
    store.keep_outcome(7, outcome(0.0))
    for begun in range(5):
        store.keep_outcome(1000, outcome(float(begun)))
    assert [each.begun for each in store.outcomes(1000)] == [2, 3, 4]
    assert [each.begun for each in store.outcomes(7)] == [0]
    store.close()


def _goes_on(store: Store) -> bool:
    try:
        store.keep_claim()
        return bool(store.records())
    except PlannerError:
        return False


def test_a_store_has_one_planner(database: Database) -> None:
    store = database.open()
    with pytest.raises(PlannerError, match="another planner uses"):
        _open_beside(database, store)
    store.close()
    database.open().close()


def _open_beside(database: Database, store: Store) -> None:
    """Open a store that another one keeps its claim to."""
    import threading

    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(0.1):
            store.keep_claim()

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        database.open()
    finally:
        ended.set()
        keeper.join()


def test_known_jobs_that_were_used_longest_ago_are_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tables", "redis"):
        monkeypatch.setattr(f"weir.planner.stores.{module}.KNOWN_MAX", 3)
    monkeypatch.setattr("weir.planner.stores.contract.PRUNED_EVERY", 1)
    store = database.open()
    job = KnownJob(identity=IDENTITY, deployment=DEPLOYMENT, conditions="c")
    store.remember(7, "another user's", job)
    for key in ("a", "b", "a", "c", "d"):
        store.remember(1000, key, job)
    known = [key for key in ("a", "b", "c", "d") if store.known(1000, key) is not None]
    assert known == ["a", "c", "d"] and store.known(7, "another user's") is not None
    store.close()


def test_the_known_jobs_of_a_user_have_bounded_bytes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(letters: int) -> KnownJob:
        return KnownJob(identity=IDENTITY, deployment=DEPLOYMENT, conditions="c" * letters)

    bound = 3 * len(msgspec.json.encode(job(1000)))
    for module in ("tables", "redis"):
        monkeypatch.setattr(f"weir.planner.stores.{module}.KNOWN_BYTES_MAX", bound)
    monkeypatch.setattr("weir.planner.stores.contract.PRUNED_EVERY", 4)
    store = database.open()
    store.remember(7, "another user's", job(60_000))
    for number in range(4):
        # Another user's jobs do not count as this user's.
        store.remember(1000, f"{number}", job(1000))
        store.remember(8, f"{number}", job(1000))
    store.remember(1000, "4", job(1000))
    assert [store.known(1000, f"{number}") is not None for number in range(5)] == [False, False, True, True, True]
    for number in range(5, 9):
        # A long document makes several short ones go, and one that is longer than all goes itself.
        store.remember(1000, f"{number}", job(2000 if number < 8 else 60_000))
    assert all(store.known(1000, f"{number}") is None for number in range(9))
    assert store.known(8, "3") is not None
    # A planner that starts counts what is there with the first job.
    store.close()
    store = database.open()
    store.remember(7, "short", job(1))
    assert store.known(7, "another user's") is None and store.known(7, "short") is not None
    store.close()


def test_a_store_of_a_later_version_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        for module in ("tables", "redis"):
            later.setattr(f"weir.planner.stores.{module}.SCHEMA_VERSION", 2)
        database.open().close()
    with pytest.raises(PlannerError, match="version"):
        database.open()
    # The refusal left no claim.
    with pytest.raises(PlannerError, match="version"):
        database.open()


def test_a_planner_that_is_killed_goes_on_from_any_store(database: Database) -> None:
    options = ("--steps", "planner_steps", "--database", database.url)
    with planner(Path("/tmp") / f"weir-planner-db-{os.getpid()}-{next(_NUMBERS)}", *options) as made:
        made.start()
        made.plan("job")
        made.hold("hold-stage_in")
        made.ask(protocol.StageIn(name="job"), Summary)
        wait_until("the step runs", lambda: "stage_in begun" in made.steps("job"))
        made.kill()
        made.start()
        wait_until("the step runs again", lambda: made.steps("job").count("stage_in begun") == 2)
        made.release("hold-stage_in")
        assert made.ask(protocol.StageIn(name="job", wait_seconds=600), Summary).state == "ready"
        assert made.steps("job").count("setup begun") == 1
        made.stop()


def test_a_database_that_is_away_for_a_while_loses_nothing(servers: Callable[[str], databases.Server]) -> None:
    server = servers("redis")
    options = ("--steps", "planner_steps", "--database", server.url)
    with planner(Path("/tmp") / f"weir-planner-db-{os.getpid()}-{next(_NUMBERS)}", *options) as made:
        made.start()
        made.plan("job")
        made.hold("hold-stage_in")
        made.ask(protocol.StageIn(name="job"), Summary)
        wait_until("the step runs", lambda: "stage_in begun" in made.steps("job"))
        server.stop(signal.SIGKILL)
        with pytest.raises(PlannerError) as caught:
            made.plan("another")
        assert caught.value.code == "busy"
        made.release("hold-stage_in")
        wait_until("its end cannot be written", lambda: "waits for the database" in made.log)
        # What is known is still told.
        assert made.state("job") == "staging-in"
        server.start()
        made.until("job", "ready")
        made.stop()


def test_a_damaged_store_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "planner.db"
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(PlannerError, match=str(file)):
        open_store(f"sqlite:///{file}")
    file.unlink()
    store = open_store(f"sqlite:///{file}")
    store.save([record("a")])
    store.close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE weir_planner_deployments SET document = x'7b7d'")
    connection.close()
    store = open_store(f"sqlite:///{file}")
    with pytest.raises(PlannerError, match="cannot be read"):
        store.records()
    store.close()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "url",
    ["", "mysql://x/y", "sqlite://file", "sqlite:///", "redis://h/name", "postgresql://h:99999/x", "redis://h:0/1", "[",
     "http://[::1/", "sqlite:///x?mode=ro"],
)  # fmt: skip
def test_urls_that_no_store_has_are_refused(url: str) -> None:
    with pytest.raises(PlannerError) as caught:
        check_url(url)
    assert caught.value.hint


def test_a_server_that_is_not_there_is_told_of() -> None:
    for url in ("redis://127.0.0.1:1/0", "postgresql://weir:s3cret@127.0.0.1:1/x"):
        with pytest.raises(PlannerError) as caught:
            open_store(url)
        assert "s3cret" not in caught.value.message and caught.value.hint
