"""Copies into a store in memory and out of it: `weir stage` beside `cp -r` and `rsync -a`, in turn.

make bench-stage        every figure; the last line is one JSON object
.venv/bin/python benchmarks/stage.py large

All are timed to the end of a `sync` of their destination. `weir stage` alone reads each byte back before it is done.
Its copies go through the mount, or past it by the preload library, which `weir stage` uses.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import weir

REPEATS = 3
CASES = {"small": (2000, 16 << 10), "large": (3, 128 << 20)}
"""Number of the files, and bytes of each."""
FILES_OF_A_FOLDER = 250

WAIT_SECONDS = 600


def make_tree(root: Path, files: int, size: int) -> None:
    """Files of random bytes."""
    for number in range(files):
        folder = root / str(number // FILES_OF_A_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_bytes(os.urandom(size))


def seconds(command: list[str], target: Path, environment: Mapping[str, str]) -> float:
    """The time of a copy until its bytes are on stable storage; the copy is removed."""
    subprocess.run(["sync"], check=True, timeout=WAIT_SECONDS)
    begin = time.monotonic()
    subprocess.run(command, env=environment, check=True, timeout=WAIT_SECONDS, stdout=subprocess.DEVNULL)
    subprocess.run(["sync", "-f", target], check=True, timeout=WAIT_SECONDS)
    taken = time.monotonic() - begin
    subprocess.run(["rm", "-rf", target], check=True, timeout=WAIT_SECONDS)
    return taken


def ways(source: Path, target: Path) -> dict[str, list[str]]:
    """The commands that copy a tree."""
    stage = [sys.executable, "-m", "weir.staging", str(source), str(target)]
    found = {"cp": ["cp", "-r", str(source), str(target)], "stage, mount": stage, "stage": stage}
    if shutil.which("rsync"):
        found["rsync"] = ["rsync", "-a", f"{source}/", str(target)]
    return found


def measure(root: Path, store: weir.store.Store, case: str) -> dict[str, float]:
    """The medians of one case, by direction and way."""
    assert store.mount is not None, store.notices
    make_tree(root / "tree", *CASES[case])
    subprocess.run(["cp", "-r", root / "tree", store.mount / "tree"], check=True, timeout=WAIT_SECONDS)
    found: dict[str, list[float]] = {}
    with store.job("stage") as fast:
        plain = {name: value for name, value in fast.items() if name != "LD_PRELOAD"}
        for _ in range(REPEATS):
            for direction, source, target in (
                ("in", root / "tree", store.mount / "copy"),
                ("out", store.mount / "tree", root / "copy"),
            ):
                for way, command in ways(source, target).items():
                    variables = fast if way == "stage" else plain
                    found.setdefault(f"{direction} {way}", []).append(seconds(command, target, variables))
    shutil.rmtree(root / "tree")
    shutil.rmtree(store.mount / "tree")
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    figures: dict[str, float] = {}
    chosen = sys.argv[1:] or list(CASES)
    with tempfile.TemporaryDirectory() as folder, weir.store.up(servers=1, targets=2, capacity="2GiB") as store:
        for case in chosen:
            files, size = CASES[case]
            medians = measure(Path(folder), store, case)
            for name, taken in medians.items():
                direction, _, way = name.partition(" ")
                ratio = taken / medians[f"{direction} cp"]
                rates = f"{files * size / taken / (1 << 20):8.0f} MiB/s {files / taken:8.0f} files/s"
                print(f"{case:6} {name:18} {taken:6.2f} s {rates} {ratio:5.2f} of cp", flush=True)
                figures[f"{case}_{direction}_{way.replace(', ', '_')}_of_cp"] = round(ratio, 3)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
