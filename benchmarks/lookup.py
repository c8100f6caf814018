"""How long a creation waits for the interaction database: at most 10 us at the 99th percentile with 100,000 rows.

make bench-lookup       the last line is one JSON object

Measured by the preload library itself, in a program that makes files whose names stand in the database and files whose
names do not, in random order; beside it the same questions to SQLite.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import WEIR, Store, announce, finish
from weir.placement.database import END_OF_FILE, Component, write

ROWS = 100_000
CREATIONS = 20_000
"""Number of requested names: nine of ten stand in the database."""
LIMIT_US = 10.0
SEED = 4
TARGETS = tuple(f"0.{target}" for target in range(8))
PREFIX = "/weir"

_MAKE = """
import os, sys
paths = sys.stdin.read().splitlines()
for folder in sorted({os.path.dirname(path) for path in paths}):
    os.makedirs(folder, exist_ok=True)
for path in paths:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.unlink(path)
"""


def look_up(directory: Path, *, rows: int = ROWS, creations: int = CREATIONS) -> dict[str, float]:
    """Microseconds of a look-up, of the preload library and of SQLite, with `rows` rows.

    The database and the store are in `directory`; making the files is not counted.
    """
    random.seed(SEED)
    database = directory / "placement.db"
    # Each file is an IOR-like one of 8 stripes, by rank and step as checkpoints are named.
    paths = [f"{PREFIX}/checkpoints/step.{index // 512:05}/rank.{index % 512:05}" for index in range(rows)]
    write(
        database,
        (Component(path, 1, 0, END_OF_FILE, 1 << 20, 8, 8 << 20, index, TARGETS) for index, path in enumerate(paths)),
    )
    asked = random.sample(paths, creations * 9 // 10)
    asked += [f"{path}.new" for path in random.sample(paths, creations // 10)]
    random.shuffle(asked)
    report = _report(directory, database, asked)
    by_sqlite = sorted(_by_sqlite(database, asked))
    return {
        "lookup_us_p99": report["lookup_nanoseconds_p99"] / 1000,
        "lookup_us_p50": report["lookup_nanoseconds_p50"] / 1000,
        "sqlite_us_p99": by_sqlite[len(by_sqlite) * 99 // 100] * 1e6,
        "sqlite_us_p50": by_sqlite[len(by_sqlite) // 2] * 1e6,
        "lookup_rows": rows,
    }


def _report(directory: Path, database: Path, asked: list[str]) -> dict[str, float]:
    """The times that the library writes down after a program has made the files."""
    with Store(directory, is_mounted=False, targets=8):
        words = ["run", "--prefix", PREFIX, "--placement", str(database), "--", sys.executable, "-c", _MAKE]
        subprocess.run([str(WEIR), *words], input="\n".join(asked), text=True, check=True, timeout=600)
    reports = [json.loads(line) for line in Path(f"{database}.report").read_text().splitlines()]
    told: dict[str, float] = max(reports, key=lambda report: report["placed"])
    if told["placed"] + told["missed"] != len(asked):
        sys.exit(f"not every file was made as it should be: {told}")
    return told


def _by_sqlite(database: Path, asked: list[str]) -> list[float]:
    """Seconds of each question to SQLite, prepared once, through Python's module."""
    connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    columns = "extent_end, stripe_bytes, stripe_count, targets"
    question = f"SELECT {columns} FROM placement WHERE path = ? ORDER BY component"
    seconds = []
    for path in asked:
        start = time.perf_counter()
        connection.execute(question, (path,)).fetchall()
        seconds.append(time.perf_counter() - start)
    connection.close()
    return seconds


def main() -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        figures = look_up(Path(directory))
    found, limit = figures["lookup_us_p99"], f"limit {LIMIT_US:.0f} us"
    announce("look-up, p99", f"{found:.1f} us", limit, found / LIMIT_US)
    announce(
        "look-up, p99", f"{found:.1f} us", f"SQLite {figures['sqlite_us_p99']:.1f} us", found / figures["sqlite_us_p99"]
    )
    announce(
        "look-up, p50",
        f"{figures['lookup_us_p50']:.1f} us",
        f"SQLite {figures['sqlite_us_p50']:.1f} us",
        figures["lookup_us_p50"] / figures["sqlite_us_p50"],
    )
    finish("lookup", figures)


if __name__ == "__main__":
    main()
