"""`weir://` beside `weir run` and the mount: large blocks, small reads, many small files; and fsspec's own tests."""

import os
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from _harness import ROOT, TEST_SECONDS, Result, Store, announce, together

PROGRAM = Path(__file__).with_name("_data_client_program.py")
TESTS = ROOT / "tests/python/test_client_fsspec.py"
RANDOM_FILE_BYTES = 64 << 20
WORKERS = 4
"""Processes that read small files, as the workers of a loader of a training."""
SMALL_FILES = {"4k": (4 << 10, 4_000), "128k": (128 << 10, 1_000)}
"""Sizes and numbers of small files: records, and the pictures of a training (DLIO's ResNet-50 has some 110 KiB)."""


def measure(quick: bool) -> dict[str, float | int | None]:
    """The figures of the client in a process."""
    figures: dict[str, float | int | None] = {"fsspec_tests_failed": failed_tests()}
    rounds = 3 if quick else 7
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        with Store(Path(name), servers=1, targets=1, capacity="4GiB") as store:
            figures |= blocks(store, rounds, 128 if quick else 512)
            figures |= small_reads(store, rounds, 1.0 if quick else 2.0)
        (Path(name) / "files").mkdir()
        with Store(Path(name) / "files", servers=2, targets=2, capacity="1GiB") as store:
            figures |= small_files(store, rounds)
    return figures


def failed_tests() -> int:
    """The number of fsspec's own tests that fail."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-k", "TestCopy or TestGet or TestPut or TestOpen or TestPipe"]
        words = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", str(TESTS)]
        subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=TEST_SECONDS, check=False)
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    tests, skipped, *failed = (int(suite.get(name, 0)) for name in ("tests", "skipped", "failures", "errors"))
    if tests - skipped < 50:
        sys.exit(f"{tests - skipped} of fsspec's tests ran, where over 50 were expected")
    announce("fsspec's tests", f"{sum(failed)} failed", f"{tests - skipped} ran", sum(failed) / tests)
    return sum(failed)


def load(door: str, *words: object) -> list[object]:
    return [sys.executable, PROGRAM, door, *words]


def both_ways(store: Store, turn: int, *words: object) -> tuple[Result, Result]:
    """The load on `/file` by `weir://`, and on the same file by a program of `weir run`; they begin in turn."""
    verb, *rest = words
    ways = (load("weir", verb, "/file", *rest), store.run(load("paths", verb, store.mount / "file", *rest)))
    results = {way: together([ways[way]])[0] for way in ((0, 1), (1, 0))[turn % 2]}
    return results[0], results[1]


def blocks(store: Store, rounds: int, count: int) -> dict[str, float | int | None]:
    """Blocks of 1 MiB, one after the other."""
    figures: dict[str, float | int | None] = {}
    for verb in ("write", "read"):
        pairs = [both_ways(store, turn, verb, count) for turn in range(rounds)]
        rate, beside = (statistics.median(one.rate for one in ways) for ways in zip(*pairs, strict=True))
        ratio = statistics.median(client.rate / run.rate for client, run in pairs)
        announce(f"1 MiB {verb}", f"{rate:.0f} MiB/s", f"weir run {beside:.0f} MiB/s", ratio)
        figures |= {f"fsspec_{verb}_vs_run": ratio, f"fsspec_{verb}_mib_per_second": rate}
    return figures


def small_reads(store: Store, rounds: int, seconds: float) -> dict[str, float | int | None]:
    """4 KiB at random places of one file, one process."""
    (store.mount / "file").write_bytes(os.urandom(RANDOM_FILE_BYTES))
    pairs = [both_ways(store, turn, "random", RANDOM_FILE_BYTES, seconds) for turn in range(rounds)]
    rate, beside = (statistics.median(one.rate for one in ways) for ways in zip(*pairs, strict=True))
    ratio = statistics.median(client.rate / run.rate for client, run in pairs)
    announce("4 KiB read", f"{rate:.0f} a second", f"weir run {beside:.0f} a second", ratio)
    return {"fsspec_read_4k_vs_run": ratio, "fsspec_read_4k_per_second": rate}


def small_files(store: Store, rounds: int) -> dict[str, float | int | None]:
    """Whole small files in random order, by the workers of a loader."""
    figures: dict[str, float | int | None] = {}
    for size, (size_bytes, files) in SMALL_FILES.items():
        folder = store.mount / size
        folder.mkdir()
        for number in range(files):
            (folder / str(number)).write_bytes(os.urandom(size_bytes))
        rates: dict[str, list[float]] = {"weir": [], "mount": [], "run": []}
        for _ in range(rounds):
            for door, found in rates.items():
                _forget(folder)
                found.append(_epochs(store, door, size, files))
        middle = {door: statistics.median(found) for door, found in rates.items()}
        for door in ("mount", "run"):
            ratio = middle["weir"] / middle[door]
            announce(f"files of {size}", f"{middle['weir']:.0f} a second", f"{door} {middle[door]:.0f}", ratio)
            figures[f"small_files_{size}_vs_{door}"] = ratio
        figures |= {f"small_files_{size}_per_second_{door}": rate for door, rate in middle.items()}
    return figures


def _forget(folder: Path) -> None:
    """Has the kernel drop the mount's pages: the data of a training is larger than the memory of its node."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _epochs(store: Store, door: str, size: str, files: int) -> float:
    """Files a second that all workers read together in one epoch."""
    kind, folder = ("weir", f"/{size}") if door == "weir" else ("paths", store.mount / size)
    commands = [load(kind, "files", folder, files, worker, WORKERS, 1) for worker in range(WORKERS)]
    results = together([store.run(command) if door == "run" else command for command in commands])
    return sum(result.operations for result in results) / max(result.seconds for result in results)
