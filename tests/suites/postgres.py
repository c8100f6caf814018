"""PostgreSQL: a cluster made, loaded and checked; its server killed under load, then a server of the store as well.

The checks are the sums that pgbench keeps equal in one transaction, a ledger of transactions whose commit a client was
told of, amcheck's walk through the tables and indexes, and at last the checksums of all pages.
"""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ways import MOUNTED

from suites.comparison import Outcome, Results
from suites.place import Answer, Place

STEP_SECONDS = 600.0
LOAD_SECONDS = 6
"""Of pgbench, beside the ledger; a kill comes in the middle."""
PATIENCE_SECONDS = 300.0
"""The server recovers within seconds on a quiet machine."""
LEDGER = 200_000
"""More transactions than a load can commit."""
USER = "nobody"
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "20",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
    "checkpoint_timeout": "30s",
    # A backend finds out that a call on the store failed; it is not to be started anew behind the test's back.
    "restart_after_crash": "off",
}
_SUMS = """
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches)
   AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers)
   AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
"""
_TABLES = """
SELECT count(*) = 0 FROM pg_class c, LATERAL verify_heapam(c.oid) WHERE c.relkind = 'r' AND c.relpersistence <> 't'
"""
_INDEXES = """
SELECT count(bt_index_check(i.indexrelid::regclass, true)) >= 0
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
 WHERE a.amname = 'btree' AND c.relpersistence <> 't' AND i.indisvalid
"""


def _committed(load: int, count: int) -> str:
    """Whether the numbers that a load was told are committed are there."""
    first = load * LEDGER
    return f"SELECT count(*) = {count} FROM ledger WHERE n >= {first} AND n < {first + count}"


def folder_of_programs() -> Path | None:
    """Where Debian keeps the newest PostgreSQL server."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "pgbench").exists()]
    return max(found, key=lambda path: float(path.parent.name), default=None)


class Postgres:
    """A test is one step, each after the one before; the first that fails ends them."""

    name = "postgresql"
    ways = MOUNTED
    store_options = ("--servers", "2", "--targets", "1", "--backend", "dir")
    seconds_max = 2400.0
    has_reference = True

    def __init__(self) -> None:
        # PostgreSQL refuses to be root.
        self.uid = pwd.getpwnam(USER).pw_uid if os.geteuid() == 0 else None

    def missing(self) -> str | None:
        return None if folder_of_programs() else "postgresql not installed; `make suites-packages` does it"

    def run(self, place: Place, *, is_short: bool) -> Results:
        cluster = Cluster(place)
        results: Results = {}
        steps: dict[str, Callable[[], Outcome]] = {
            "initdb": cluster.make,
            "load": cluster.load,
            "work": cluster.work,
            "recover from a killed PostgreSQL": lambda: cluster.work(kill_postgres=True),
        }
        if not is_short:
            steps["live through a killed server of the store"] = lambda: cluster.work(kill_store=True)
            steps["recover from both killed"] = lambda: cluster.work(kill_postgres=True, kill_store=True)
        steps["checksums of all pages"] = cluster.checksums
        for name, step in steps.items():
            results[name] = step()
            if results[name] is not Outcome.OK:
                break
        return results


class Cluster:
    """A cluster in the directory `data` of a place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        programs = folder_of_programs()
        assert programs is not None
        self.programs = programs
        self.socket = place.scratch / "socket"
        self.socket.mkdir()
        if place.uid is not None:
            os.chown(self.socket, place.uid, place.uid)
        self.host = Place("host", self.socket, place.scratch, place.log, place.deadline, uid=place.uid)
        self.ledger: list[int] = []
        """Of each load, how many transactions the client was told are committed."""

    def make(self) -> Outcome:
        """Make the cluster."""
        options = ["-D", "data", "-A", "trust", "-U", "weir", "--no-locale", "-E", "UTF8", "--data-checksums"]
        return self.place.run(self.programs / "initdb", *options, seconds=STEP_SECONDS).outcome

    def load(self) -> Outcome:
        """Fill pgbench's tables and make the ledger."""
        server = self._start()
        if server is None:
            return Outcome.FAILED
        answer = self._client("pgbench", "-i", "-q", "-s", "1", "postgres")
        if answer.outcome is Outcome.OK:
            answer = self._ask("CREATE TABLE ledger(n bigint PRIMARY KEY); CREATE EXTENSION amcheck;")
        return answer.outcome if answer.outcome is not Outcome.OK else self._stop(server)

    def work(self, *, kill_postgres: bool = False, kill_store: bool = False) -> Outcome:
        """Run transactions, kill what is to be killed in their middle, and check what is there afterwards."""
        server = self._start()
        if server is None:
            return Outcome.FAILED
        told, said = self.place.scratch / "told", self.place.scratch / "said"
        with told.open("wb") as ledger_output, said.open("wb") as pgbench_output:
            ledger, pgbench = self._start_ledger(ledger_output), self._start_pgbench(pgbench_output)
            time.sleep(LOAD_SECONDS / 2)
            if kill_store:
                self._kill_store()
            if kill_postgres:
                os.kill(self._postmaster(), signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                pgbench.wait(PATIENCE_SECONDS)
            # The ledger's client has more to commit than it can.
            has_failed = pgbench.returncode != 0 or ledger.poll() not in (None, 0)
            for client in (ledger, pgbench):
                self.host.end(client)
        # The last line may be cut.
        self.ledger.append(sum(line.isdigit() for line in told.read_text().split("\n")[:-1]))
        # PostgreSQL stops by itself where a call on the store failed.
        stopped = self._stop(server)
        self.place.end(server)
        if not (kill_postgres or kill_store) and (has_failed or stopped is not Outcome.OK):
            return Outcome.FAILED
        return self._verify()

    def checksums(self) -> Outcome:
        """Read every page of the stopped cluster."""
        return self.place.run(self.programs / "pg_checksums", "--check", "-D", "data", seconds=STEP_SECONDS).outcome

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start the server and wait until it answers.

        Children of a killed server live on for a moment, during which a new one refuses to start.
        """
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self.place.log.open("ab") as log:
            while time.monotonic() < deadline and not self.place.is_over:
                server = self.place.start(
                    self.programs / "postgres", "-D", "data", "-k", self.socket, *settings, output=log
                )
                while server.poll() is None and time.monotonic() < deadline:
                    if self._client("pg_isready", "-q").code == 0:
                        return server
                    time.sleep(0.2)
                self.place.end(server)
                time.sleep(0.5)
        return None

    def _stop(self, server: subprocess.Popen[bytes]) -> Outcome:
        """Shut the server down in order."""
        if server.poll() is None:
            os.kill(self._postmaster(), signal.SIGINT)
        try:
            return Outcome.OK if server.wait(PATIENCE_SECONDS) == 0 else Outcome.FAILED
        except subprocess.TimeoutExpired:
            return Outcome.TIMED_OUT

    def _postmaster(self) -> int:
        """The process of the server; `weir run` may stand before it."""
        return int((self.place.folder / "data/postmaster.pid").read_text().split()[0])

    def _kill_store(self) -> None:
        """Kill a server of the store and start it again; on tmpfs there is none."""
        if self.place.way is None:
            return
        store = self.place.way.store
        pids = store.server_pids()
        os.kill(pids[len(self.ledger) % len(pids)], signal.SIGKILL)
        time.sleep(1)
        store.weir("up", "--no-mount")

    def _start_ledger(self, told: BinaryIO) -> subprocess.Popen[bytes]:
        """Commit numbers one by one, and write down each whose commit was reported."""
        first = len(self.ledger) * LEDGER
        script = self.place.scratch / "ledger.sql"
        numbers = range(first, first + LEDGER)
        script.write_text("".join(f"INSERT INTO ledger VALUES({number}) RETURNING n;\n" for number in numbers))
        return self.host.start(
            self.programs / "psql",
            *self._target(),
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-f",
            script,
            "postgres",
            output=told,
        )

    def _start_pgbench(self, said: BinaryIO) -> subprocess.Popen[bytes]:
        words = ["-n", "-c", "3", "-T", str(LOAD_SECONDS), "postgres"]
        return self.host.start(self.programs / "pgbench", *self._target(), *words, output=said)

    def _verify(self) -> Outcome:
        """Check sums, tables, indexes and the ledger by a server that is started for it."""
        server = self._start()
        if server is None:
            return Outcome.FAILED
        for question in (_SUMS, _TABLES, _INDEXES, *(_committed(*load) for load in enumerate(self.ledger))):
            answer = self._ask(question)
            if answer.outcome is not Outcome.OK or answer.output.strip() != "t":
                self._stop(server)
                return Outcome.FAILED
        return self._stop(server)

    def _ask(self, question: str) -> Answer:
        return self._client("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", question, "postgres")

    def _client(self, name: str, *words: str) -> Answer:
        return self.host.run(self.programs / name, *self._target(), *words, seconds=STEP_SECONDS)

    def _target(self) -> list[str]:
        return ["-h", str(self.socket), "-U", "weir"]
