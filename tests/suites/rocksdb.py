"""RocksDB by its own tools: `ldb` loads and reads a database back, `db_bench` writes with each way of I/O and verifies.

A test that kills `db_bench` opens the database afterwards: what was synchronised before is there.
"""

import random
import re
import signal
import time

from ways import ALL

from suites.comparison import Outcome, Results
from suites.place import Place
from suites.suite import missing_packages, need

RECORDS = 20_000
TEST_SECONDS = 240.0
KILL_SECONDS = 3.0
"""A synchronous load is killed about so long after its database is there."""
BENCH: dict[str, tuple[str, ...]] = {
    "plain": (),
    "mapped reads": ("--mmap_read=1",),
    "mapped writes": ("--mmap_write=1",),
    "direct": ("--use_direct_reads=1", "--use_direct_io_for_flush_and_compaction=1"),
    "synchronised": ("--sync=1",),
    "allocated ahead": ("--bytes_per_sync=65536", "--wal_bytes_per_sync=65536"),
}
MAPPED = ("mapped reads", "mapped writes")
"""Cases that map files, and so find out most."""


class RocksDb:
    """A test is one step of `ldb`, or one way of I/O of `db_bench`."""

    name = "rocksdb"
    ways = ALL
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 2400.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        return missing_packages("ldb", "db_bench")

    def run(self, place: Place, *, is_short: bool) -> Results:
        results = _ldb(place)
        for name, options in BENCH.items():
            if (is_short and name not in MAPPED) or place.is_over:
                continue
            number = "5000" if name == "synchronised" or is_short else "50000"
            # Small buffers, so that files are flushed and compacted while it runs.
            sizes = ("--write_buffer_size=1048576", "--target_file_size_base=1048576", "--value_size=200", "--seed=1")
            work = "--benchmarks=fillrandom,overwrite,readrandom,compact,readseq,verifychecksum"
            command = [f"--db={place.folder}/{name.replace(' ', '-')}", f"--num={number}", work, *sizes, *options]
            results[f"db_bench: {name}"] = place.run(need("db_bench"), *command, seconds=TEST_SECONDS).outcome
        if not is_short and not place.is_over:
            results["killed"] = _killed(place)
        return results


def _ldb(place: Place) -> Results:
    """Load records, read them back, change them, compact them."""
    choices = random.Random(1)
    pairs = {f"{number:08}": choices.randbytes(100).hex() for number in range(RECORDS)}
    lines = "".join(f"{key} ==> {value}\n" for key, value in pairs.items())
    database = f"--db={place.folder}/ldb"
    results: Results = {}

    def step(name: str, *words: str, text: str | None = None, says: str | None = None) -> None:
        answer = place.run(need("ldb"), database, *words, seconds=TEST_SECONDS, text=text)
        results[f"ldb: {name}"] = answer.outcome
        if says is not None and answer.outcome is Outcome.OK and says not in answer.output:
            results[f"ldb: {name}"] = Outcome.FAILED

    step("load", "load", "--create_if_missing", text=lines)
    scanned = "".join(f"{key} : {value}\n" for key, value in pairs.items())
    step("scan", "scan", says=scanned)
    step("compact", "compact")
    step("put", "put", "00000000", "changed")
    step("get", "get", "00000000", says="changed")
    step("check", "checkconsistency", says="OK")
    step("scan again", "scan", says=scanned.partition("\n")[2])
    return results


def _killed(place: Place) -> Outcome:
    """Kill a synchronous load, then read what is there: every operation it reported is in the database."""
    database = f"--db={place.folder}/killed"
    command = [
        database,
        "--benchmarks=fillseq",
        "--num=10000000",
        "--sync=1",
        "--value_size=200",
    ]
    with (place.scratch / "killed").open("w+b") as output:
        process = place.start(need("db_bench"), *command, output=output)
        deadline = time.monotonic() + TEST_SECONDS
        done = 0
        began: float | None = None
        while time.monotonic() < deadline and (began is None or time.monotonic() < began + KILL_SECONDS):
            time.sleep(0.05)
            output.seek(0)
            reported = re.findall(rb"finished (\d+) ops", output.read())
            if reported and began is None:
                began = time.monotonic()
            done = int(reported[-1]) if reported else 0
        place.end(process)
    if done == 0 or process.returncode != -signal.SIGKILL:
        return Outcome.FAILED
    answer = place.run(need("ldb"), database, "dump", "--count_only", seconds=TEST_SECONDS)
    counted = re.search(r"Keys in range: (\d+)", answer.output)
    if answer.outcome is not Outcome.OK or counted is None:
        return answer.outcome if answer.outcome is not Outcome.OK else Outcome.FAILED
    return Outcome.OK if int(counted[1]) >= done else Outcome.FAILED
