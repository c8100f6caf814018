"""Programs whose files are placed by the servers: even, away from a slow target, and named when they cannot be."""

import os
import subprocess
import time
from collections import Counter
from pathlib import Path

from store import Store, kill
from waits import PATIENCE_SECONDS
from weir import _core

JOB = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
folder, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def write(number):
    with open(f"{folder}/{prefix}-{number}", "wb", buffering=0) as file:
        file.write(bytes(65536))
with ThreadPoolExecutor(8) as threads:
    list(threads.map(write, range(count)))
"""
"""Eight writers, a file of 64 KiB each time."""


def targets_of(path: Path) -> list[str]:
    spelling = os.getxattr(path, "weir.layout").decode()
    return [name for component in _core.parse_layout(spelling) for name in component["targets"]]


def run_job(store: Store, folder: Path, prefix: str, count: int) -> Counter[str]:
    """Run the job; how many of its stripes lie on each target."""
    store.weir("run", "--", "python3", "-c", JOB, folder, prefix, str(count))
    files = [folder / f"{prefix}-{number}" for number in range(count)]
    assert all(file.read_bytes() == bytes(65536) for file in files)
    return Counter(target for file in files for target in targets_of(file))


def slow_targets(store: Store) -> list[str]:
    targets = store.json("targets")["targets"]
    return [target["target"] for target in targets if target["slow_since"] is not None]


def make_folder(store: Store, *layout: str) -> Path:
    folder = store.mount / "folder"
    folder.mkdir()
    store.weir("layout", "set", *layout, folder)
    return folder


def test_a_file_for_each_process_lies_evenly(store: Store, fuse: None) -> None:
    # Emulated targets are equally fast on a busy machine, too.
    store.up(servers=3, targets=5, capacity="64MiB", read_speed="100MB/s", write_speed="100MB/s")
    folder = make_folder(store, "-c", "4")
    counts = run_job(store, folder, "even", 16)
    # 64 stripes on 15 targets.
    assert len(counts) == 15
    assert max(counts.values()) <= 5


def test_a_job_avoids_a_slow_target_after_its_first_files(store: Store, fuse: None) -> None:
    store.up(servers=2, targets=4, capacity="256MiB", write_speed="50MB/s")
    folder = make_folder(store, "-c", "1")
    store.weir("targets", "set", "1.2", "--bandwidth", "1MB/s")
    first = run_job(store, folder, "first", 80)
    assert first["1.2"] <= 10
    end = time.monotonic() + 60
    while slow_targets(store) != ["1.2"]:
        assert time.monotonic() < end, "the slow target is not found, or others are taken for slow"
        # One request says nothing: it may be that the target got no second file.
        run_job(store, folder, f"more-{time.monotonic()}", 8)
    second = run_job(store, folder, "second", 70)
    # One stripe a minute goes there to see whether it is well.
    assert second["1.2"] <= 1
    assert all(7 <= count <= 13 for target, count in second.items() if target != "1.2"), second
    explained = store.json("place", "explain", folder / "second-69")
    assert explained["record"]["slow"] == {"count": 1, "targets": ["1.2"]}


def test_files_are_made_while_a_server_is_gone(store: Store, fuse: None) -> None:
    store.up(servers=2, targets=2, capacity="64MiB")
    folder = make_folder(store, "-c", "2")
    gone = 1 - (folder.stat().st_ino >> 48)
    home_of_root = store.mount.stat().st_ino >> 48
    if gone == home_of_root:
        # The root's server resolves the path: then only what the other server makes in the root itself can be tested.
        folder, gone = store.mount, 1 - home_of_root
    kill(store.server_pids()[gone])
    end = time.monotonic() + 60
    while True:
        path = folder / f"file-{time.time()}"
        answer = subprocess.run(
            ["python3", "-c", "import sys; open(sys.argv[1], 'x').write('x' * 9)", str(path)],
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if answer.returncode == 0 and all(target.startswith(f"{1 - gone}.") for target in targets_of(path)):
            break
        assert time.monotonic() < end, "the dead server is still given stripes"
