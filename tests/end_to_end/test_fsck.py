"""`weir fsck` finds real damage, and none in a store that works."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from seeds import seed
from store import Store
from waits import wait_until
from ways import PREFIX, Way

SIZE = 512 * 1024
"""Size of each file: one stripe on each of its targets, or several."""

MADE = """
import os, sys
os.chdir(sys.argv[1])
for name in sys.argv[3:]:
    os.makedirs(name)
    os.setxattr(name, "weir.layout", b"-c 4 -S 64k")
    for number in range(4):
        with open(f"{name}/file {number}", "wb") as file:
            file.write(os.urandom(int(sys.argv[2])))
single = sys.argv[3] + "/single"
os.close(os.open(single, os.O_CREAT | os.O_WRONLY))
os.setxattr(single, "weir.layout", b"-c 1 -o 0.0")
with open(single, "r+b") as file:
    file.write(b"x" * int(sys.argv[2]))
with open(sys.argv[3] + "/sparse", "wb") as file:
    file.seek(1 << 20)
    file.write(b"end")
with open(sys.argv[3] + "/lengthened", "wb") as file:
    file.truncate(1 << 20)
open(sys.argv[3] + "/empty", "wb").close()
"""
"""Makes directories on several homes, with files over all targets, and files that need not have all objects."""

CHURN = """
cd "$1"
while :; do
    dd if=/dev/zero of=growing bs=64k count=1 oflag=append conv=notrunc status=none
    head -c 300000 /dev/zero > new && mv new replaced && rm -f gone && cp replaced gone
    sleep 0.05
done
"""

SPACE = """
import ctypes, os, random, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
MODES = {"room": [0], "room behind the end": [1], "hole": [3], "zeros": [16], "zeros within the size": [17]}
# What lies in memory knows no zeros, so there they are a hole, with room at its place.
TWIN = {**MODES, "zeros": [3, 0], "zeros within the size": [3, 1]}
LENGTH = 1 << 16
folder, seed, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(files):
    dice = random.Random(f"{seed} {number}")
    file = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
    twin = os.memfd_create("twin")
    calls = []
    for _ in range(dice.randrange(1, 7)):
        first = dice.choice((0, dice.randrange(LENGTH), dice.randrange(16) * 4096))
        length = dice.choice((4096, LENGTH - first, dice.randrange(LENGTH - first) + 1))
        calls.append((dice.choice(("write", "write", "cut", *MODES)), first, length))
        for each, modes in ((file, MODES), (twin, TWIN)):
            if calls[-1][0] == "write":
                os.pwrite(each, b"x" * length, first)
            elif calls[-1][0] == "cut":
                os.ftruncate(each, first)
            elif any(libc.fallocate(each, mode, first, length) for mode in modes[calls[-1][0]]):
                sys.exit(f"{calls}: {os.strerror(ctypes.get_errno())}")
    if os.pread(file, 2 * LENGTH, 0) != os.pread(twin, 2 * LENGTH, 0):
        sys.exit(f"the file differs from its twin in memory after {calls}")
    os.close(file)
    os.close(twin)
    if number % 2:
        os.unlink(f"{folder}/{number}")
    print(number, calls)
"""
"""Makes files by random writes, cuts and allocations, of which it removes every second one, and compares each with its twin."""


@pytest.fixture
def kept(store: Store) -> Store:
    """A store of two servers that keeps files, with some in it."""
    store.up(servers=2, targets=2, backend="dir", mount=False)
    way = Way(PREFIX, store, Path("/weir"))
    way.run("python3", "-c", MADE, "/weir", str(SIZE), "one", "other", "third", "fourth")
    return store


def fsck(store: Store, *options: str, code: int) -> Any:
    return store.json("fsck", *options, code=code)


def stop(store: Store) -> None:
    store.weir("down")


def object_of(store: Store, target: str, ino: int) -> Path:
    server, _, index = target.partition(".")
    return store.home / "servers" / server / f"target-{index}" / f"{ino % 256:02x}" / f"{ino:016x}"


def objects(store: Store, target: str) -> list[Path]:
    server, _, index = target.partition(".")
    folder = store.home / "servers" / server / f"target-{index}"
    return sorted(path for path in folder.glob("??/*") if path.is_file() and not path.suffix and path.stat().st_size)


def kinds(document: Any) -> list[tuple[str, str, int]]:
    return sorted((finding["kind"], finding["target"], finding["ino"]) for finding in document["findings"])


@contextmanager
def churn(store: Store) -> Iterator[None]:
    """Files that grow, are replaced and go all the time."""
    way = Way(PREFIX, store, Path("/weir"))
    with way.start("bash", "-c", CHURN, "bash", "/weir/one", start_new_session=True) as child:
        try:
            grown = ["test", "-s", "/weir/one/growing"]
            wait_until("files change", lambda: way.run(*grown, code=None).returncode == 0)
            yield
        finally:
            # `weir run` and the programs that it started.
            os.killpg(child.pid, signal.SIGKILL)


def test_a_store_at_work_is_clean_and_damage_shows_in_it(kept: Store) -> None:
    with churn(kept):
        clean = fsck(kept, code=0)
        assert clean["findings"] == [] and clean["files"] >= 16 and clean["objects"] >= 64
        lost, short, *_ = objects(kept, "1.0")
        lost.unlink()
        with short.open("r+b") as file:
            file.truncate(100)
        (lost.parent / f"{(7 << 48) + int(lost.name, 16) % 256:016x}").write_bytes(b"of a server that is not there")
        orphan = int(lost.name, 16) % 256 + (0 << 48) + (1 << 47)
        (lost.parent / f"{orphan:016x}").write_bytes(b"of no file")
        found = fsck(kept, code=1)
    wanted = [("lost", "1.0", int(lost.name, 16)), ("orphan", "1.0", orphan), ("short", "1.0", int(short.name, 16))]
    assert kinds(found) == sorted(wanted)
    for finding in found["findings"]:
        folder, _, name = (finding["path"] or "").removeprefix("/").partition("/")
        is_named = folder in ("one", "other", "third", "fourth") and name.startswith("file ")
        assert is_named == (finding["kind"] != "orphan"), finding


def test_a_store_in_memory_is_clean_while_it_runs_and_cannot_be_checked_when_it_is_gone(store: Store) -> None:
    store.up(servers=2, targets=2, mount=False)
    Way(PREFIX, store, Path("/weir")).run("python3", "-c", MADE, "/weir", str(SIZE), "one", "other")
    with churn(store):
        clean = fsck(store, code=0)
    assert clean["findings"] == [] and clean["objects"] >= 32
    stop(store)
    refused = store.weir("fsck", "--offline", code=1)
    assert "has no store that keeps files" in refused.stderr


def test_a_store_that_is_down_is_checked_and_repaired_without_its_servers(kept: Store) -> None:
    refused = kept.weir("fsck", "--offline", code=None)
    assert refused.returncode == 1 and "the store is up" in refused.stderr
    stop(kept)
    before = {path: path.stat().st_mtime_ns for path in kept.home.rglob("*") if path.is_file() and path.name != "lock"}
    assert fsck(kept, "--offline", code=0)["findings"] == []
    lost, copied, *_ = objects(kept, "0.1")
    orphan = object_of(kept, "1.1", (1 << 48) + (1 << 47) + 5)
    orphan.write_bytes(b"of no file")
    lost.unlink()
    single = next(path for path in objects(kept, "0.0") if path.stat().st_size == SIZE)
    misplaced = object_of(kept, "1.0", int(single.name, 16))
    misplaced.write_bytes(single.read_bytes())
    found = fsck(kept, "--offline", code=1)
    wanted = [
        ("lost", "0.1", int(lost.name, 16)),
        ("misplaced", "1.0", int(single.name, 16)),
        ("orphan", "1.1", int(orphan.name, 16)),
    ]
    assert kinds(found) == wanted
    paths = {finding["kind"]: finding["path"] for finding in found["findings"]}
    assert paths["misplaced"] == "/one/single" and paths["orphan"] is None
    assert copied.exists()
    after = {path: path.stat().st_mtime_ns for path in kept.home.rglob("*") if path.is_file() and path.name != "lock"}
    made = {path: after[path] for path in (orphan, misplaced)}
    assert after == {**{path: at for path, at in before.items() if path != lost}, **made}
    repaired = fsck(kept, "--offline", "--repair", code=1)
    moved = {each["target"]: Path(each["to"]) for each in repaired["moved"]}
    assert moved["1.1"].read_bytes() == b"of no file" and not orphan.exists()
    assert moved["1.0"].read_bytes() == single.read_bytes() and not misplaced.exists()
    assert kinds(fsck(kept, "--offline", code=1)) == [("lost", "0.1", int(lost.name, 16))]
    kept.up(servers=2, targets=2, backend="dir", mount=False)
    assert kinds(fsck(kept, code=1)) == [("lost", "0.1", int(lost.name, 16))]


def test_a_journal_that_lost_its_end_leaves_objects_without_files(kept: Store) -> None:
    """A journal whose newest log is gone: the files of that log have objects and no inodes."""
    stop(kept)
    way = Way(PREFIX, kept, Path("/weir"))
    kept.up(servers=2, targets=2, backend="dir", mount=False)
    way.run(
        "bash",
        "-ec",
        "mkdir /weir/one/late && head -c 300000 /dev/zero > /weir/one/late/file && sync /weir/one/late/file",
    )
    stop(kept)
    for number in (0, 1):
        logs = sorted((kept.home / "servers" / str(number) / "journal").glob("log-*"))
        assert logs, "a journal has logs"
        for log in logs[1:]:
            log.unlink()
    refused = kept.weir("fsck", "--offline", code=1)
    assert "--accept-journal-loss" in refused.stderr
    found = fsck(kept, "--offline", "--accept-journal-loss", code=1)
    assert {kind for kind, _, _ in kinds(found)} == {"orphan"}


@pytest.mark.parametrize("backend", ["ram", "dir"])
def test_no_allocation_hole_or_cut_looks_like_a_loss(store: Store, backend: str) -> None:
    """Random files have no finding: room that was reserved and cut off again is no byte that was lost."""
    store.up(servers=1, targets=2, backend=backend, mount=False)
    told = Way(PREFIX, store, Path("/weir")).run("python3", "-c", SPACE, "/weir", str(seed()), "400").stdout
    found = fsck(store, code=0)
    assert found["findings"] == [], told
