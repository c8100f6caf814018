"""Targets join and retire while programs use the store: every byte stays, and file and running store agree."""

import errno
import hashlib
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from weir.store.control import Server, servers_of

Answer = TypeVar("Answer")

CAPACITY = "256MiB"
MIB = 1 << 20
FILES = 6
PAUSE_SECONDS = 0.01
"""Pause between two changes, so that the servers have the processors."""


def content(number: int) -> bytes:
    return random.Random(number).randbytes(3 * MIB + 11)


@pytest.fixture(params=["dir", "ram"])
def spread(store: Store, fuse: None, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A mounted store of two servers with two targets each; every file has bytes on all of them."""
    fill(store, request.param)
    yield store


@pytest.fixture
def kept(store: Store, fuse: None) -> Iterator[Store]:
    """As `spread`, in a store that keeps its files."""
    fill(store, "dir")
    yield store


def fill(store: Store, backend: str) -> None:
    store.up(servers=2, targets=2, backend=backend, capacity=CAPACITY)
    (store.mount / "files").mkdir()
    # As many stripes as the default layout has where no target is slow.
    store.weir("layout", "set", "-c", "4", store.mount / "files")
    for number in range(FILES):
        (store.mount / "files" / f"file{number}").write_bytes(content(number))


def check(store: Store) -> None:
    for number in range(FILES):
        found = hashlib.sha256((store.mount / "files" / f"file{number}").read_bytes()).hexdigest()
        assert found == hashlib.sha256(content(number)).hexdigest(), f"file{number}"


def names(store: Store) -> list[str]:
    return [target["target"] for target in store.json("targets")["targets"]]


def targets_of(store: Store, path: Path) -> set[str]:
    (component,) = store.json("layout", "get", path)["components"]
    return set(component["targets"])


def patiently(call: Callable[..., Answer], *arguments: Any) -> Answer:
    """Repeat a call while a server is away for longer than a call waits, as on a busy machine."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call(*arguments)
        except OSError as error:
            if error.errno != errno.EIO or time.monotonic() > end:
                raise


def _write(file: int, data: bytes, offset: int) -> None:
    """Write all, where a call writes the part in front of the first server that is away."""
    written = 0
    while written < len(data):
        written += patiently(os.pwrite, file, data[written:], offset + written)


def _read(file: int, length: int, offset: int) -> bytes:
    """Read up to the end of the file, as `_write` writes."""
    data = b""
    while len(data) < length and (part := patiently(os.pread, file, length - len(data), offset + len(data))):
        data += part
    return data


@contextmanager
def changes(path: Path) -> Iterator[bytearray]:
    """Another thread changes a file during the block, and compares the file with what it wrote."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choices = random.Random(seed)
    model = bytearray(content(FILES))
    path.write_bytes(model)
    over = threading.Event()
    failures: list[str] = []

    def change() -> None:
        with path.open("r+b", buffering=0) as file:
            while not over.is_set():
                offset, length = choices.randrange(len(model) - 1), choices.randrange(1, 200_000)
                data = choices.randbytes(min(length, len(model) - offset))
                _write(file.fileno(), data, offset)
                model[offset : offset + len(data)] = data
                at = choices.randrange(len(model))
                found, expected = _read(file.fileno(), 300_000, at), model[at : at + 300_000]
                if found != expected:
                    same = next((n for n in range(len(found)) if found[n : n + 1] != expected[n : n + 1]), len(found))
                    failures.append(f"{len(found)} bytes read from {at}: wrong from byte {same} on")
                    return
                time.sleep(PAUSE_SECONDS)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        yield model
    finally:
        over.set()
        writer.join()
    assert not failures
    assert path.read_bytes() == model


def test_a_store_grows_and_shrinks_under_those_who_use_its_files(spread: Store) -> None:
    changing = spread.mount / "files" / "changing"
    with changes(changing):
        assert spread.json("target", "add", "1")["target"] == "1.2"
        new = spread.mount / "new"
        wait_until("new files get their share on it", lambda: _makes(new, b"x") and "1.2" in targets_of(spread, new))
        spread.weir("config", "diff")
        for retiring in ("0.1", "1.0", "1.1"):
            answer = spread.json("target", "retire", retiring)
            assert answer["state"] == "retired" and answer["objects_moved"] > FILES
            (spread.mount / "files" / f"after-{retiring}").write_bytes(b"as many stripes as are left")
            assert retiring not in names(spread)
            spread.weir("config", "diff")
        check(spread)
    assert names(spread) == ["0.0", "1.2"]
    objects = targets_of(spread, changing)
    assert len(objects) == 4 and {name.partition("+")[0] for name in objects} == {"0.0", "1.2"}, objects
    found = spread.json("find", spread.mount / "files", "--target", "0.0", "--type", "f")
    assert len(found) >= FILES + 1
    assert spread.json("target", "add", "1")["target"] == "1.3", "no number is given twice"
    backend = spread.json("targets")["targets"][0]["backend"]
    assert backend == "ram" or _survives_a_restart(spread)


def _makes(path: Path, data: bytes) -> bool:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return True


def _survives_a_restart(store: Store) -> bool:
    before = names(store)
    store.weir("down")
    store.weir("up")
    check(store)
    store.weir("config", "diff")
    return names(store) == before == ["0.0", "1.2", "1.3"]


def test_a_retirement_whose_command_and_server_are_killed_goes_on(kept: Store) -> None:
    retiring = "1.1"
    with changes(kept.mount / "files" / "changing"):
        command = [*program(), "target", "retire", retiring, "--rate", "1MB/s"]
        running = subprocess.Popen(command, env=kept.variables(), start_new_session=True)
        servers = servers_of(kept.home / "cluster.json", None, timeout_seconds=PATIENCE_SECONDS)
        wait_until("objects have moved", lambda: 0 < objects(servers, retiring) < FILES or running.poll() is not None)
        kill(running.pid)
        running.wait()
        kill(kept.server_pids()[1])
        kept.weir("up")
        assert (
            next(each["state"] for each in kept.json("targets")["targets"] if each["target"] == retiring) == "retiring"
        )
        for shown in ("targets", "status"):
            [line] = [line for line in kept.weir(shown).stdout.splitlines() if retiring in line.split()[:2]]
            assert "dir, retiring" in line
        assert kept.json("target", "retire", retiring)["state"] == "retired"
    check(kept)
    kept.weir("config", "diff")
    assert names(kept) == ["0.0", "0.1", "1.0"]
    assert kept.json("target", "retire", retiring)["objects_moved"] == 0, "called again, there is nothing to do"


def objects(servers: list[Server], target: str) -> int:
    """The objects on a target that retires, by all homes that answer."""
    from weir.store.membership import objects_left

    left = objects_left(servers, target)
    return left if isinstance(left, int) else -1


def test_a_retirement_that_the_user_ends_can_be_undone(kept: Store) -> None:
    command = [*program(), "target", "retire", "0.0", "--rate", "500kB/s"]
    running = subprocess.Popen(command, env=kept.variables(), stderr=subprocess.PIPE, text=True)
    servers = servers_of(kept.home / "cluster.json", None, timeout_seconds=PATIENCE_SECONDS)
    wait_until("an object has moved", lambda: 0 < objects(servers, "0.0") < FILES or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=PATIENCE_SECONDS)[1]
    assert running.returncode == 130 and "--cancel" in said, said
    assert kept.json("target", "retire", "0.0", "--cancel")["state"] == "open"
    kept.weir("config", "diff")
    check(kept)
    new = kept.mount / "new"
    wait_until("it takes files again", lambda: _makes(new, b"x") and "0.0" in targets_of(kept, new))


def test_a_file_without_a_name_keeps_its_target_until_it_is_closed(kept: Store) -> None:
    path = kept.mount / "files" / "nameless"
    with path.open("w+b") as file:
        file.write(content(FILES))
        file.flush()
        path.unlink()
        answer = kept.weir("target", "retire", "0.1", code=1)
        assert "1 objects are still on 0.1" in answer.stderr and "without a name" in answer.stderr
        file.seek(0)
        assert file.read() == content(FILES)
    kept.weir("target", "retire", "0.1")
    check(kept)


def test_what_cannot_be_done_is_said_and_changes_nothing(kept: Store, tmp_path: Path) -> None:
    before = (kept.home / "cluster.toml").read_text(), names(kept)
    (tmp_path / "something").touch()
    for arguments, said in (
        (["target", "add", "0", "--backend", "ram", "--capacity", "64MiB"], "keeps nothing over a restart"),
        (["target", "add", "7"], "no server 7"),
        (["target", "add", "0", "--path", str(tmp_path)], "is not empty"),
        (["target", "add", "0", "--capacity", "much"], "much"),
        (["target", "add", "0", "--backend", "tape"], "tape"),
        (["target", "retire", "0.9"], "no target 0.9"),
        (["target", "retire", "x"], "`x` is not a target"),
        (["target", "retire", "5.0"], "no server 5"),
    ):
        answer = kept.weir(*arguments, code=None)
        assert answer.returncode in (1, 2) and said in answer.stderr, answer
        assert answer.stderr.count("error:") == 1, answer
    assert ((kept.home / "cluster.toml").read_text(), names(kept)) == before
    for retiring in ("0.0", "0.1", "1.1"):
        kept.weir("target", "retire", retiring)
    answer = kept.weir("target", "retire", "1.0", code=1)
    assert "the last one" in answer.stderr and "weir target add" in answer.stderr
    check(kept)
    kept.weir("config", "diff")


def test_only_the_owner_of_the_store_changes_it(kept: Store) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    stranger = kept.grant(1000)
    for arguments in (["target", "add", "0"], ["target", "retire", "0.0"]):
        answer = kept.weir(*arguments, uid=1000, environment=stranger, code=None)
        assert answer.returncode == 1 and "permission denied" in answer.stderr, answer
    assert len(names(kept)) == 4


HOLDER = """
import os, sys
print("begun", flush=True)
for line in sys.stdin:
    folder = line.rstrip()
    path = f"{folder}/of-holder"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"held" * 50_000, 0)
    print(len(os.pread(file, 1 << 20, 0)), flush=True)
    os.close(file)
"""


def test_a_server_joins_and_programs_from_before_find_it(kept: Store) -> None:
    command = [*program(), "run", "--prefix", "/weir", "--", sys.executable, "-c", HOLDER]
    changing = kept.mount / "files" / "changing"
    with (
        changes(changing),
        subprocess.Popen(
            command, env=kept.variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as held,
    ):
        assert held.stdin is not None and held.stdout is not None
        assert held.stdout.readline() == "begun\n"
        assert kept.json("server", "add")["server"] == 2
        kept.weir("config", "diff")
        states = kept.json("status")["servers"]
        assert [state["server"] for state in states] == [0, 1, 2]
        folder = next(folder for folder in _new_folders(kept) if folder.stat().st_ino >> 48 == 2)
        (folder / "file").write_bytes(content(1))
        assert (folder / "file").read_bytes() == content(1)
        wait_until("files of all homes lie there", lambda: "2.0" in _targets_of_new(kept))
        print(f"/weir/{folder.name}", file=held.stdin, flush=True)
        assert held.stdout.readline() == "200000\n"
        with (folder / "file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            assert pages[:] == content(1)
            # By a client beside the mount, which has pages of objects on the new server.
            writing = f"import os; f = os.open('/weir/{folder.name}/file', os.O_RDWR); os.pwrite(f, b'!!', 1 << 20)"
            kept.weir("run", "--prefix", "/weir", "--", sys.executable, "-c", writing)
            assert pages[1 << 20 : (1 << 20) + 2] == b"!!"
        held.stdin.close()
    check(kept)
    kill(kept.server_pids()[2])
    kept.weir("up")
    assert (folder / "of-holder").read_bytes() == b"held" * 50_000
    kept.weir("down")
    kept.weir("up")
    check(kept)
    kept.weir("config", "diff")
    assert (folder / "of-holder").read_bytes() == b"held" * 50_000
    kept.weir("target", "retire", "0.0")
    check(kept)


def _new_folders(store: Store) -> Iterator[Path]:
    for number in range(100):
        folder = store.mount / f"folder{number}"
        folder.mkdir()
        yield folder


def _targets_of_new(store: Store) -> set[str]:
    new = store.mount / "new"
    _makes(new, b"x")
    return targets_of(store, new)


def test_a_server_of_another_version_does_not_join(kept: Store, tmp_path: Path) -> None:
    from weir import native

    for found in (native.server_program(), native.mount_program(), native.mover_program(), native.preload_library()):
        (tmp_path / found.name).symlink_to(found)
    (tmp_path / "weir-server").unlink()
    (tmp_path / "weir-server").write_text("#!/bin/sh\n[ $1 = --version ] && echo weir-server 9.9.9 && exit\nexit 1\n")
    (tmp_path / "weir-server").chmod(0o755)
    before = (kept.home / "cluster.toml").read_text(), (kept.home / "cluster.json").read_text()
    answer = kept.weir("server", "add", code=1, environment={"WEIR_PROGRAMS": str(tmp_path)})
    assert "is of version" in answer.stderr and "9.9.9" in answer.stderr and "weir upgrade" in answer.stderr
    kill(kept.server_pids()[1])
    answer = kept.weir("server", "add", code=1)
    assert "when all others answer" in answer.stderr and answer.stderr.count("error:") == 1
    answer = kept.weir("server", "add", "--backend", "ram", "--capacity", "8MiB", code=1)
    assert answer.stderr.count("error:") == 1
    assert ((kept.home / "cluster.toml").read_text(), (kept.home / "cluster.json").read_text()) == before
    kept.weir("up")
    answer = kept.weir("server", "add", "--backend", "ram", "--capacity", "8MiB", code=1)
    assert "keeps nothing over a restart" in answer.stderr
    assert ((kept.home / "cluster.toml").read_text(), set(kept.server_pids())) == (before[0], {0, 1})
    check(kept)


def test_a_server_of_one_host_retires_and_keeps_its_names(kept: Store) -> None:
    kept.weir("server", "add")
    folder = next(folder for folder in _new_folders(kept) if folder.stat().st_ino >> 48 == 2)
    (folder / "file").write_bytes(content(1))
    with changes(kept.mount / "files" / "changing"):
        answer = kept.json("server", "retire", "2")
        assert answer["state"] == "retired" and answer["host"] is None
    kept.weir("config", "diff")
    assert names(kept) == ["0.0", "0.1", "1.0", "1.1"]
    kept.weir("down")
    kept.weir("up")
    kept.weir("config", "diff")
    assert (folder / "file").read_bytes() == content(1)
    later = [kept.mount / f"later{number}" for number in range(40)]
    for each in later:
        each.mkdir()
    assert {each.stat().st_ino >> 48 for each in later} == {0, 1}
    before = (kept.home / "cluster.toml").read_text()
    for arguments, said in (
        (["2", "--cancel"], "has retired"),
        (["9"], "no server 9"),
        (["1", "--to", "elsewhere"], "has one host"),
    ):
        answer = kept.weir("server", "retire", *arguments, code=1)
        assert said in answer.stderr and answer.stderr.count("error:") == 1, answer
    kill(kept.server_pids()[0])
    answer = kept.weir("server", "retire", "1", code=1)
    assert "if all servers answer" in answer.stderr and answer.stderr.count("error:") == 1
    assert (kept.home / "cluster.toml").read_text() == before
    kept.weir("up")
    check(kept)
    kept.weir("server", "retire", "0")
    assert kept.json("server", "add")["targets"] == 2, "as many as server 1 has, when server 0 has none any more"
    own, added = (kept.json("status")["servers"][number]["targets"] for number in (1, 3))
    alike = [[(target["backend"], target["capacity_bytes"]) for target in targets] for targets in (own, added)]
    assert alike[0] == alike[1]


def test_a_server_whose_bytes_find_no_room_stays_as_it_is(store: Store, fuse: None) -> None:
    """Its targets leave together: each alone would find room on the other."""
    store.up(servers=2, targets=2, backend="ram", capacity="8MiB")
    (store.mount / "file").write_bytes(bytes(32 << 20))
    before = (store.home / "cluster.toml").read_text()
    answer = store.weir("server", "retire", "1", code=1)
    assert "have room for" in answer.stderr and answer.stderr.count("error:") == 1, answer
    assert (store.home / "cluster.toml").read_text() == before
    assert {target["state"] for target in store.json("targets", code=1)["targets"]} == {"open"}
