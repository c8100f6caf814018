"""The job of Darshan's sample-badost.darshan: 2,048 files of one stripe on 24 targets, one of them far slower.

.venv/bin/python benchmarks/_slow_target.py

In the log, each of 2,048 ranks makes one file, target 14 serves 29 MB/s where the median of the others is 1,688, and
the job takes 780 s. Here targets are emulated with the same ratio of speeds, files are as small as leaves the job
limited by its targets, and 16 processes take the place of the ranks in turn.
"""

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from _harness import WAIT_SECONDS, WEIR, announce, run_weir
from weir.experiments.store import PREFIX, Store

SERVERS, TARGETS_EACH = 4, 6
FILES, FILE_BYTES, PROCESSES = 2048, 64 << 10, 16
SPEED = 4_000_000
RATIO = 1688 / 29
SLOW = "2.3"
REPEATS = 3

_WRITER = f"""
import os, sys
folder = sys.argv[1]
os.mkdir(folder)
data = os.urandom({FILE_BYTES})
here, there = os.pipe()
for process in range({PROCESSES}):
    if os.fork() == 0:
        os.close(there)
        while number := os.read(here, 4):
            number = int(number)
            descriptor = os.open(f"{{folder}}/file.{{number:04}}", os.O_WRONLY | os.O_CREAT, 0o644)
            assert os.write(descriptor, data) == len(data)
            os.close(descriptor)
        os._exit(0)
for number in range({FILES}):
    os.write(there, b"%04d" % number)
os.close(there)
failed = sum(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in range({PROCESSES}))
sys.exit(failed > 0)
"""


@dataclass(frozen=True)
class Ran:
    """One run of the job."""

    seconds: float
    stripes_on_slow: int


def slow_target() -> dict[str, float]:
    """The job's time with the slow target over its time without, by `balanced` and by Lustre's rules."""
    without = [_job("balanced", is_slowed=False) for _ in range(REPEATS)]
    with_slow = [_job("balanced", is_slowed=True) for _ in range(REPEATS)]
    lustre_without = _job("lustre-standard", is_slowed=False)
    lustre = _job("lustre-standard", is_slowed=True)
    usual = statistics.median(run.seconds for run in without)
    ratio = statistics.median(run.seconds for run in with_slow) / usual
    lustre_ratio = lustre.seconds / lustre_without.seconds
    files = statistics.median(run.stripes_on_slow for run in with_slow)
    announce(
        "slow target, balanced", f"{ratio * usual:.2f} s, {files:.0f} files on it", f"{usual:.2f} s without", ratio
    )
    announce(
        "the same, lustre-standard",
        f"{lustre.seconds:.2f} s, {lustre.stripes_on_slow} files on it",
        f"{lustre_without.seconds:.2f} s without",
        lustre_ratio,
    )
    return {"slow_target_ratio": ratio, "slow_target_lustre_ratio": lustre_ratio, "slow_target_files": files}


def _job(allocator: str, *, is_slowed: bool) -> Ran:
    with Store(
        policy="fifo",
        servers=SERVERS,
        targets=TARGETS_EACH,
        speed=f"{SPEED}B/s",
        capacity="64MiB",
        allocator=allocator,
    ) as store:
        run_weir(store.environment, "run", "--prefix", PREFIX, "--", str(WEIR), "layout", "set", "-c", "1", PREFIX)
        if is_slowed:
            run_weir(store.environment, "targets", "set", SLOW, "--bandwidth", f"{SPEED / RATIO:.0f}B/s")
        writer = [str(WEIR), "run", "--prefix", PREFIX, "--", sys.executable, "-c", _WRITER, f"{PREFIX}/files"]
        began = time.monotonic()
        subprocess.run(writer, env=store.environment, check=True, timeout=WAIT_SECONDS)
        seconds = time.monotonic() - began
        if is_slowed:
            print(run_weir(store.environment, "targets"), file=sys.stderr)
        server, index = map(int, SLOW.split("."))
        used = store.servers[server].status().targets[index].used_bytes
        return Ran(seconds, used // FILE_BYTES)


if __name__ == "__main__":
    print(json.dumps(slow_target()))
