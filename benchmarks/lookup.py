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

from _running import announce, finish
from weir.native import preload_library
from weir.placement.database import END_OF_FILE, Component, write

ROWS = 100_000
CREATIONS = 20_000
"""Names asked for: nine of ten stand in the database."""
LIMIT_US = 10.0
SEED = 4
TARGETS = tuple(str(target) for target in range(8))

_MAKE = """
import os, sys
for path in sys.stdin.read().splitlines():
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.unlink(path)
"""


def look_up(directory: Path, *, rows: int = ROWS, creations: int = CREATIONS) -> dict[str, float]:
    """Microseconds of a look-up, of the preload library and of SQLite, with `rows` rows.

    `directory` should lie in memory: files are made in it, whose making is not counted.
    """
    random.seed(SEED)
    database = directory / "placement.db"
    # Each file is an IOR-like one of 8 stripes, by rank and step as checkpoints are named.
    paths = [f"{directory}/checkpoints/step.{index // 512:05}/rank.{index % 512:05}" for index in range(rows)]
    write(
        database,
        (Component(path, 1, 0, END_OF_FILE, 1 << 20, 8, 8 << 20, index, TARGETS) for index, path in enumerate(paths)),
    )
    asked = random.sample(paths, creations * 9 // 10)
    asked += [f"{path}.new" for path in random.sample(paths, creations // 10)]
    random.shuffle(asked)
    for folder in sorted({str(Path(path).parent) for path in asked}):
        Path(folder).mkdir(parents=True, exist_ok=True)
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
    """What the library says of itself after a program has made the files."""
    report = directory / "report"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(preload_library()),
        "WEIR_PLACEMENT": str(database),
        "WEIR_PLACEMENT_REPORT": str(report),
    }
    text = "\n".join(asked)
    subprocess.run([sys.executable, "-c", _MAKE], input=text, text=True, env=environment, check=True, timeout=600)
    lines = report.read_text().splitlines()
    told: dict[str, float] = json.loads(lines[-1])
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
