"""Files move between targets while programs use them: every byte stays, and the bytes moved are a job's."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store import Store, program
from waits import PATIENCE_SECONDS
from weir.cli.common.mover import warn_of_left
from weir.store.control import servers_of
from weir.store.home import Home
from weir.store.placement_journal import MOVES

CAPACITY = "64MiB"
MIB = 1 << 20
FILES = 12
PAUSE_SECONDS = 0.01
"""Pause between two changes, so that the servers have the processors."""
RATE = "500kB/s"
"""The rate of a rebalancing that is to be seen under way: all its moves take about 40 s."""


@pytest.fixture
def full(store: Store, fuse: None) -> Iterator[Store]:
    """A mounted store of three servers with two targets each, the first of which holds nearly everything."""
    store.up(servers=3, targets=2, capacity=CAPACITY)
    folder = store.mount / "full"
    folder.mkdir()
    store.weir("layout", "set", folder, "-o", "0.0", "-S", "64k")
    for number in range(FILES):
        (folder / f"file{number}").write_bytes(content(number))
    yield store


def content(number: int) -> bytes:
    return random.Random(number).randbytes(4 * MIB)


def used(store: Store) -> dict[str, int]:
    servers = store.json("status")["servers"]
    return {target["target"]: target["used_bytes"] for server in servers for target in server["targets"]}


def check(store: Store) -> None:
    for number in range(FILES):
        assert (store.mount / "full" / f"file{number}").read_bytes() == content(number), f"file{number}"


def await_moves(store: Store, mover: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Wait until servers know the mover's job. They are asked from here: on a busy machine `weir jobs` takes as long as
    all moves.
    """
    servers = servers_of(store.home / "cluster.json", None, timeout_seconds=PATIENCE_SECONDS)
    while not any(job.job.startswith("rebalance-") for server in servers for job in server.jobs()):
        assert mover.poll() is None, "it ended before it was seen"


def test_a_full_target_is_levelled_under_those_who_use_its_files(full: Store) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choices = random.Random(seed)
    model = bytearray(content(FILES))
    path = full.mount / "full" / "changing"
    path.write_bytes(model)
    over = threading.Event()
    failures: list[str] = []

    def change() -> None:
        with path.open("r+b", buffering=0) as file:
            while not over.is_set():
                offset, length = choices.randrange(len(model) - 1), choices.randrange(1, 200_000)
                data = choices.randbytes(min(length, len(model) - offset))
                os.pwrite(file.fileno(), data, offset)
                model[offset : offset + len(data)] = data
                at = choices.randrange(len(model))
                if os.pread(file.fileno(), 300_000, at) != model[at : at + 300_000]:
                    failures.append(f"bytes from {at}")
                    return
                time.sleep(PAUSE_SECONDS)

    before = used(full)
    assert before["0.0"] > 10 * max(before[name] for name in ("0.1", "1.0", "1.1"))
    writer = threading.Thread(target=change)
    writer.start()
    try:
        answer = full.json("rebalance", "--until", "0.01")
    finally:
        over.set()
        writer.join()
    assert not failures
    assert answer["objects"] == len(answer["moves"]) >= FILES * 3 // 4 - 1 and answer["left"] == 0
    after = used(full)
    assert max(after.values()) < 2 * min(after.values()), after
    assert path.read_bytes() == model
    check(full)
    assert full.json("rebalance", "--until", "0.1")["moves"] == [], "what is level stays"


def test_a_dry_run_moves_nothing(full: Store) -> None:
    before = used(full)
    answer = full.json("rebalance", "--dry-run", full.mount / "full" / "file0")
    assert [move["path"] for move in answer["moves"]] == ["/full/file0"]
    assert answer["moves"][0]["from"] == "0.0" and used(full) == before


def test_a_target_is_drained_and_files_are_gathered(full: Store) -> None:
    full.weir("rebalance", "--drain", "0.0")
    assert used(full)["0.0"] == 0
    check(full)
    names = [full.mount / "full" / f"file{number}" for number in range(3)]
    full.weir("rebalance", *names, "--gather", "--to", "1.1")
    assert {full.weir("layout", "get", name, "--output", "json").stdout.count("1.1") > 0 for name in names} == {True}
    check(full)
    noted = MOVES.read(Home(full.home).placement_journals, 0, time.time())
    drained, gathered = {each.pid: each for each in noted}.values()
    assert (drained.what, gathered.what) == ("drain 0.0", "rebalance")
    assert drained.is_over and drained.moved_bytes == drained.planned_bytes >= FILES * 4 * MIB
    assert gathered.moved_objects > 0 and gathered.left_objects == 0


def test_what_is_interrupted_is_whole_and_can_be_gone_on_with(full: Store) -> None:
    command = [*program(), "rebalance", "--rate", RATE, "--output", "json"]
    running = subprocess.Popen(command, env=full.variables(), stdout=subprocess.PIPE, text=True)
    await_moves(full, running)
    running.send_signal(signal.SIGINT)
    answer = json.loads(running.communicate(timeout=PATIENCE_SECONDS)[0])
    assert running.returncode == 130 and answer["interrupted"]
    check(full)
    assert full.json("rebalance")["left"] == 0
    check(full)


def test_a_mover_that_is_killed_leaves_everything_whole(full: Store) -> None:
    command = [*program(), "rebalance", "--rate", RATE]
    running = subprocess.Popen(command, env=full.variables(), start_new_session=True)
    await_moves(full, running)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    check(full)
    assert full.json("rebalance")["left"] == 0
    check(full)


MAPPER = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(file, 0, mmap.MAP_SHARED)
print(len(set(pages[:])), flush=True)
for line in sys.stdin:
    offset = int(line)
    print(pages[offset], flush=True)
"""


def test_mapped_pages_of_a_moved_file_are_those_of_its_new_place(full: Store) -> None:
    path = full.mount / "full" / "file0"
    before = content(0)
    with subprocess.Popen(
        [sys.executable, "-c", MAPPER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as mapper:
        assert mapper.stdin is not None and mapper.stdout is not None
        mapper.stdout.readline()

        def load(offset: int) -> int:
            print(offset, file=mapper.stdin, flush=True)
            assert mapper.stdout is not None
            return int(mapper.stdout.readline())

        for number, target in enumerate(("1.0", "2.0", "0.1")):
            full.weir("rebalance", path, "--gather", "--to", target)
            offset = number * MIB + 5
            assert load(offset) == before[offset], target
            # By a client that does not pass the mount, which would drop the pages at its open.
            byte = before[offset] ^ 0xFF
            writing = f"import os; f = os.open('/weir/full/file0', os.O_RDWR); os.pwrite(f, bytes([{byte}]), {offset})"
            full.weir("run", "--prefix", "/weir", "--", sys.executable, "-c", writing)
            assert load(offset) == byte, target
        mapper.stdin.close()
        assert mapper.wait(timeout=PATIENCE_SECONDS) == 0


def test_what_cannot_be_done_is_said(full: Store, tmp_path: Path) -> None:
    for arguments, said in (
        (["--to", "9.9"], "no target 9.9"),
        ([str(tmp_path)], "not on the store"),
        (["--drain", "x"], "SERVER.INDEX"),
        (["--gather"], "--to"),
        (["--rate", "fast"], "rate"),
    ):
        answer = full.weir("rebalance", *arguments, code=None)
        assert answer.returncode in (1, 2) and said in answer.stderr, answer


def test_few_of_many_files_that_stay_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_left([(f"/file{number}", "No space left on device") for number in range(40)])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6 and "/file0 was not moved: No space left on device" in lines[0]
    assert "35 more files were not moved" in lines[-1]
