"""LMDB by its own tools: a database in a shared mapping, loaded, dumped, copied and loaded into again."""

import random

from ways import MOUNTED

from suites.comparison import Outcome, Results
from suites.place import Place
from suites.suite import missing_packages, need

RECORDS = 20_000
"""Some megabytes: the file grows many times while it is mapped."""
TEST_SECONDS = 180.0
MAP_BYTES = 256 << 20


def records(seed: int, count: int) -> str:
    """Records as `mdb_load` reads them: a header, then keys and values in hexadecimal, by their keys."""
    choices = random.Random(seed)
    lines = ["VERSION=3", "format=bytevalue", "type=btree", f"mapsize={MAP_BYTES}", "HEADER=END"]
    for number in range(count):
        lines.append(f" {f'{number:08}'.encode().hex()}")
        lines.append(f" {choices.randbytes(choices.randrange(1, 400)).hex()}")
    return "\n".join([*lines, "DATA=END", ""])


def body(dump: str) -> str:
    """A dump without its header."""
    return dump.partition("HEADER=END\n")[2]


class Lmdb:
    """A test is one step, each after the one before."""

    name = "lmdb"
    ways = MOUNTED
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 1200.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        return missing_packages("mdb_load", "mdb_dump", "mdb_copy", "mdb_stat")

    def run(self, place: Place, *, is_short: bool) -> Results:
        first, second = records(1, RECORDS), records(2, RECORDS)
        results: Results = {}

        def step(name: str, *command: str, text: str | None = None, dump: str | None = None) -> None:
            answer = place.run(need(command[0]), *command[1:], seconds=TEST_SECONDS, text=text)
            results[name] = answer.outcome
            if dump is not None and results[name] is Outcome.OK and body(answer.output) != body(dump):
                results[name] = Outcome.FAILED

        place.make_folder("copy")
        step("load", "mdb_load", "-n", "data", text=first)
        step("dump", "mdb_dump", "-n", "data", dump=first)
        step("statistics", "mdb_stat", "-ne", "data")
        step("load again", "mdb_load", "-n", "data", text=second)
        step("dump again", "mdb_dump", "-n", "data", dump=second)
        step("copy", "mdb_copy", "-n", "data", "copied")
        step("dump the copy", "mdb_dump", "-n", "copied", dump=second)
        step("copy compacted", "mdb_copy", "-n", "-c", "data", "compacted")
        step("dump the compacted copy", "mdb_dump", "-n", "compacted", dump=second)
        return results
