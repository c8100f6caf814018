"""The cost of a recorder: processor time of a server with and without it, its own, and the bytes of 35 days."""

import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import weir.store
from _harness import announce
from _history_replay import SPEED, recorded
from weir.history.database import FILE, Database
from weir.history.levels import DAY, levels_of
from weir.history.samples import JobTraits, Sample
from weir.history.tables import DEVICES, KNOWN, PROMISES, WAITS, WORK, Table
from weir.store.observations import JobKey

JOBS = 12
"""Jobs at work on the server."""
TARGETS = 4
PHASE_SECONDS = 10
ROUNDS = 3
DAYS = 35
"""Days that the file whose bytes are counted reaches back."""
LINES = 10
"""Jobs at one device in each window of the file whose bytes are counted, each of which waits for another one."""
_TICKS = os.sysconf("SC_CLK_TCK")
_JOB = """
import os, sys, time
file = os.open("/weir/" + sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(file, b"x" * 4096, 0)
    time.sleep(0.05)
"""


def processor_seconds(pid: int) -> float:
    """Processor time of a process with all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(directory: Path) -> dict[str, float]:
    """Measure all of them."""
    return {**processors(directory), **space()}


def processors(directory: Path) -> dict[str, float]:
    """A server with jobs at work, in turn without and with a recorder."""
    file = directory / "cluster.toml"
    target = f'[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n{SPEED}\n'
    file.write_text(f"version = 1\n[[server]]\n{target * TARGETS}")
    without, beside, own = [], [], []
    with ExitStack() as ends:
        store = ends.enter_context(weir.store.up(file, home=directory / "home", mount=False))
        for number in range(JOBS):
            environment = ends.enter_context(store.job(job=f"job-{number}"))
            process = subprocess.Popen([sys.executable, "-c", _JOB, str(number)], env=environment)
            ends.callback(process.wait)
            ends.callback(process.kill)
        server = int((store.home / "servers/0/pid").read_text().split()[0])
        time.sleep(PHASE_SECONDS / 2)
        for _ in range(ROUNDS):
            without.append(phase(server)[0])
            with recorded(store.home, directory / "history") as recorder:
                time.sleep(PHASE_SECONDS / 5)
                of_server, of_recorder = phase(server, recorder)
                beside.append(of_server)
                own.append(of_recorder)
    cost = sum(beside) / ROUNDS - sum(without) / ROUNDS
    announce("time of a server", f"{100 * cost:.2f} % of a processor", "asked: at most 1 %", cost / 0.01)
    return {
        "recorder_server_time_ratio": cost,
        "recorder_own_time_ratio": sum(own) / ROUNDS,
        "recorder_server_time_without_ratio": sum(without) / ROUNDS,
    }


def phase(server: int, recorder: int | None = None) -> tuple[float, float]:
    """Parts of a processor that the server and the recorder use for a while."""
    pids = (server, recorder or server)
    begun, before = time.monotonic(), [processor_seconds(pid) for pid in pids]
    time.sleep(PHASE_SECONDS)
    after, passed = [processor_seconds(pid) for pid in pids], time.monotonic() - begun
    server_part, recorder_part = ((end - begin) / passed for begin, end in zip(before, after, strict=True))
    return server_part, recorder_part


def space() -> dict[str, float]:
    """The bytes of a file that is filled to the age of each level."""
    generator = random.Random(1)
    now = 2_000_000_000_000
    kept = DAYS * DAY
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        database = Database(Path(folder), bytes_max=1 << 40, kept=kept)
        begun = time.monotonic()
        levels = levels_of(1000, kept)
        ages = [0, *(level.age for level in levels)]
        for level, (newest, oldest) in zip(levels, itertools.pairwise(ages), strict=True):
            for moment in range(now - oldest, now - newest, level.width):
                database.add(_sample(moment // 1000, generator))
        database.settle(now)
        used = database.used_bytes()
        database.close()
        whole = (Path(folder) / FILE).stat().st_size
    announce(
        "35 days", f"{used / 1e6:.0f} MB", f"{LINES} jobs; filled in {time.monotonic() - begun:.0f} s", used / whole
    )
    return {"history_bytes_35_days": float(used), "history_bytes_35_days_of_a_job": used / LINES}


def _sample(number: int, generator: random.Random) -> Sample:
    """A window in which jobs work at one device, with figures as large as those of a busy store."""
    sample = Sample((number + 1) * 1000, 1000)
    begin = number * 1000

    def filled(table: Table, *keys: object) -> None:
        count = len(table.columns) - 2 - len(keys)
        figures = (generator.randrange(1 << 20) if generator.random() < 0.6 else 0 for _ in range(count))
        sample.rows.setdefault(table, []).append((0, begin, *keys, *figures))

    sample.rows[KNOWN] = [(0, begin, 0, 1000)]
    filled(DEVICES, "0.0")
    for job in range(LINES):
        key, other = JobKey(f"job-{job}", 0), JobKey(f"job-{(job + 1) % LINES}", 0)
        sample.jobs[key] = JobTraits("ada")
        filled(WORK, key, "0.0")
        filled(WAITS, key, other)
        filled(PROMISES, key)
    return sample
