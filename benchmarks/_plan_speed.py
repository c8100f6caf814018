"""The planner's speed: jobs that it has never seen, jobs that it knows, and the command from a cold shell.

The steps are those of LuxIO's figure 7. An unknown job is a Darshan log that the resident reader reads; a known one is
found by the digest of its log in a database, and its storage is planned anew, because resources change.
"""

import hashlib
import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
from _harness import ROOT, WAIT_SECONDS, announce
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.traits import of_log
from weir.provisioning.objectives import shipped, sslo_tables
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources
from weir.tracing.darshan import DarshanError
from weir.tracing.totals import TotalsReader

LOGS = Path(os.environ.get("WEIR_DARSHAN_LOGS", ROOT.parent / "shared/data/darshan"))
"""Folder of the logs; those of the tests where it does not exist."""
UNKNOWN_MS, KNOWN_MS, COLD_SECONDS = 20.0, 2.0, 1.5
"""The limits."""
PAPER_UNKNOWN_MS, PAPER_KNOWN_MS = 93.40, 22.82
ROUNDS = 3
"""Rounds over all logs; the median of a log's rounds counts."""
COLD_RUNS = 7
NODES = 64


class _Database:
    """Identities by the digests of their logs, in a file of SQLite."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file)
        # A power cut may take the last identities, which are found again.
        self._connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")
        self._connection.execute("CREATE TABLE jobs (log BLOB PRIMARY KEY, identity BLOB) WITHOUT ROWID")
        self._decoder = msgspec.json.Decoder(Identity)

    def remember(self, log: Path, identity: Identity) -> None:
        row = (_digest(log), msgspec.json.encode(identity))
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", row)

    def find(self, log: Path) -> Identity | None:
        row = self._connection.execute("SELECT identity FROM jobs WHERE log = ?", (_digest(log),)).fetchone()
        return None if row is None else self._decoder.decode(row[0])


def _digest(log: Path) -> bytes:
    with log.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def _cluster() -> Resources:
    """Nodes with NVMe, an SSD and memory, half of them with a disk, and some that are held."""
    tera = 10**12
    nodes = []
    for number in range(NODES):
        devices = [
            Device(path="/nvme", kind="nvme", capacity_bytes=2 * tera),
            Device(path="/ssd", kind="ssd", capacity_bytes=tera),
            Device(kind="memory", capacity_bytes=64 << 30),
        ]
        if number % 2:
            devices.append(Device(path="/disk", kind="hdd", capacity_bytes=8 * tera))
        held = 600.0 if number % 8 == 0 else 0.0
        nodes.append(
            Node(name=f"node{number}", devices=tuple(devices), network_bytes_per_second=12.5e9, free_in_seconds=held)
        )
    return Resources(source="benchmark", nodes=tuple(nodes))


def speed(directory: Path) -> dict[str, float]:
    """Measure unknown jobs, known jobs and the cold command.

    Args:
        directory: An empty folder.

    Returns:
        `unknown_ms`, `known_ms`, their steps, and `cold_seconds`; medians over the logs.
    """
    logs = sorted(LOGS.rglob("*.darshan")) or sorted((ROOT / "tests/data/darshan").glob("*.darshan"))
    planner = Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)
    reader = TotalsReader()
    try:
        readable = list(_readable(reader, logs))
        database = _Database(directory / "jobs.sqlite")
        figures = _unknown(readable, reader, planner, database) | _known(readable, planner, database)
    finally:
        reader.end()
    figures |= _cold(readable, directory) | {"logs": float(len(readable))}
    for key, limit, paper in (
        ("unknown_ms", UNKNOWN_MS, PAPER_UNKNOWN_MS),
        ("known_ms", KNOWN_MS, PAPER_KNOWN_MS),
    ):
        announce(key, f"{figures[key]:.2f} ms", f"limit {limit:.0f} ms, paper {paper:.2f} ms", figures[key] / limit)
    announce(
        "cold_seconds",
        f"{figures['cold_seconds']:.2f} s",
        f"limit {COLD_SECONDS} s",
        figures["cold_seconds"] / COLD_SECONDS,
    )
    return figures


def _readable(reader: TotalsReader, logs: Sequence[Path]) -> Iterator[Path]:
    for log in logs:
        try:
            reader.read(log)
        except DarshanError as error:
            print(f"left out: {error.message}", file=sys.stderr)
        else:
            yield log


def _unknown(logs: Sequence[Path], reader: TotalsReader, planner: Planner, database: _Database) -> dict[str, float]:
    """A job without a past: its log is looked for, read, made an identity, kept, and planned for."""
    resources = _cluster()
    steps: dict[str, list[float]] = {"lookup": [], "preprocess": [], "store": [], "map": [], "construct": [], "all": []}
    for log in logs:
        rounds: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            moments = [time.perf_counter()]
            # The database does not know the job in its first round.
            database.find(log)
            moments.append(time.perf_counter())
            identity = identify(of_log(reader.read(log)))
            moments.append(time.perf_counter())
            database.remember(log, identity)
            moments.append(time.perf_counter())
            planner.map(identity)
            moments.append(time.perf_counter())
            planner.plan(identity, None, resources)
            moments.append(time.perf_counter())
            spent = [(after - before) * 1e3 for before, after in pairwise(moments)]
            # A plan maps, too, so the part of the construction is what is left.
            spent[4] -= spent[3]
            for name, each in zip(steps, [*spent, sum(spent)], strict=True):
                rounds[name].append(each)
        for name, found in rounds.items():
            steps[name].append(median(found))
    return {"unknown_ms": median(steps.pop("all"))} | {
        f"unknown_{name}_ms": median(found) for name, found in steps.items()
    }


def _known(logs: Sequence[Path], planner: Planner, database: _Database) -> dict[str, float]:
    """A job whose identity is in the database."""
    resources = _cluster()
    lookups, plans = [], []
    for log in logs:
        lookup, made = [], []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            identity = database.find(log)
            found = time.perf_counter()
            assert identity is not None
            document = msgspec.json.encode(planner.plan(identity, None, resources).deployment)
            lookup.append((found - begin) * 1e3)
            made.append((time.perf_counter() - found) * 1e3)
            assert document
        lookups.append(median(lookup))
        plans.append(median(made))
    both = [one + other for one, other in zip(lookups, plans, strict=True)]
    return {"known_ms": median(both), "known_lookup_ms": median(lookups), "known_construct_ms": median(plans)}


def _cold(logs: Sequence[Path], directory: Path) -> dict[str, float]:
    """Seconds of `weir plan schema` from a shell, with the start of Python and of the reader of logs.

    The processors' time is told beside, which other programs of a busy machine do not lengthen.
    """
    command = [sys.executable, "-m", "weir.cli", "plan", "schema", "--local", str(directory), "--size", "1GiB"]
    spent, used = [], []
    for number in range(COLD_RUNS):
        log = logs[number * len(logs) // COLD_RUNS]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        subprocess.run([*command, str(log)], check=True, capture_output=True, timeout=WAIT_SECONDS)
        spent.append(time.perf_counter() - begin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cold_seconds": median(spent), "cold_processor_seconds": median(used)}
