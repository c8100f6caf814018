"""One decision of the scheduler, exchanges until weights are right, and even placement on a busy machine.

.venv/bin/python benchmarks/_operate_decisions.py [decisions] [rounds]
"""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import WEIR, announce
from share import decision, exchange
from weir.experiments.store import PREFIX, Store

SERVERS, TARGETS_EACH = 4, 2
CREATORS, FILE_BYTES = 16, 1 << 20
ROUNDS = 100
BUSY_PROCESSES = 20
"""Processes that do nothing but compute, beside servers and creators."""
CAPACITY = "512MiB"
FOLDERS_MAX = 256
"""Directories made at most until each home has one: each has a home by chance."""
HOME_SHIFT = 48
"""The upper 16 bits of an inode's number are its home."""
ROUNDS_SECONDS_MAX = 900.0
"""Longest time of all rounds: one takes a second on a machine with a dozen processes for each processor."""

_CREATORS = f"""
import json, os, sys
homes = int(sys.argv[2])
folders = {{}}
for number in range({FOLDERS_MAX}):
    folder = f"{{sys.argv[1]}}/rounds.{{number}}"
    os.mkdir(folder)
    os.setxattr(folder, "weir.layout", b"-c 1")
    folders.setdefault(os.stat(folder).st_ino >> {HOME_SHIFT}, folder)
    if len(folders) == homes:
        break
else:
    sys.exit(f"{FOLDERS_MAX} directories have {{len(folders)}} homes, not {{homes}}")
data = os.urandom({FILE_BYTES})
paths = [f"{{list(folders.values())[number % homes]}}/file.{{number}}" for number in range({CREATORS})]
creators = []
for path in paths:
    (here, go), (done, there) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(go), os.close(done)
        while os.read(here, 1):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            assert os.write(descriptor, data) == len(data)
            os.close(descriptor)
            os.write(there, b"x")
        os._exit(0)
    os.close(here), os.close(there)
    creators.append((go, done))
for _ in range({ROUNDS}):
    for go, _ in creators:
        os.write(go, b"x")
    for _, done in creators:
        assert os.read(done, 1), "a creator failed"
    print(json.dumps([json.loads(os.getxattr(path, "weir.placement")) for path in paths]), flush=True)
    for path in paths:
        os.unlink(path)
for go, _ in creators:
    os.close(go)
failed = sum(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in creators)
sys.exit(failed > 0)
"""
"""Processes that make a file each at one moment, in directories of so many homes in turn, and print the reasons for all
places of a round."""


def decisions(directory: Path) -> dict[str, float]:
    """One decision among 10,000 jobs beside binary heaps, and the exchanges until all weights are right."""
    figures = {**decision(directory), **exchange(directory)}
    return {name: figures[name] for name in ("decision_ns", "decision_vs_binary_heaps", "exchanges_to_fair_max")}


def rounds(_: Path) -> dict[str, float]:
    """Rounds in which 16 creators at once leave a target of 8 with more files than its part, on a busy machine.

    At first one home makes all files, and then each of four homes as many as the others, without knowing of theirs.
    """
    figures: dict[str, float] = {}
    for name, homes in (("uneven_rounds_of_100", 1), ("uneven_rounds_on_homes_of_100", SERVERS)):
        uneven = {
            allocator: _uneven_of_100(allocator, homes) for allocator in ("random", "lustre-standard", "balanced")
        }
        ours, lustre = uneven["balanced"], uneven["lustre-standard"]
        announce(
            f"{CREATORS} creators, {homes} home{'s' if homes > 1 else ''}, busy machine",
            f"{ours:.0f} of 100 uneven",
            f"lustre-standard {lustre:.0f}, random {uneven['random']:.0f}",
            ours / lustre if lustre else ours,
        )
        figures[name] = ours
    return figures


def _uneven_of_100(allocator: str, homes: int) -> float:
    """Uneven rounds of a hundred: a target got more files than its part."""
    part = CREATORS // (SERVERS * TARGETS_EACH)
    with (
        Store(
            policy="size-fair", servers=SERVERS, targets=TARGETS_EACH, capacity=CAPACITY, allocator=allocator
        ) as store,
        _busy(),
    ):
        creators = [str(WEIR), "run", "--prefix", PREFIX, "--", sys.executable, "-c", _CREATORS, PREFIX, str(homes)]
        environment, streams = store.environment, subprocess.PIPE
        ran = subprocess.run(
            creators, env=environment, check=True, stdout=streams, text=True, timeout=ROUNDS_SECONDS_MAX
        )
    rounds_made = [json.loads(line) for line in ran.stdout.splitlines()]
    fullest = [max(Counter(file["chosen"][0]["target"] for file in each).values()) for each in rounds_made]
    return 100.0 * sum(files > part for files in fullest) / len(fullest)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """A machine whose processors are wanted by many others."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def main() -> None:
    """Run the parts that are named, or all."""
    parts = {"decisions": decisions, "rounds": rounds}
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(parts):
        with TemporaryDirectory(prefix="weir-bench-") as directory:
            figures |= parts[name](Path(directory))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
