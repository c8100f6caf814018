"""Doors and waits: one bound for a call whatever is lost, mounts that come back, and locks that nobody else can take.

Bounds are multiples of the clients' own: a command that waits for each call anew takes at least twice the bound of its test.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from ways import PREFIX_PATH
from weir.store.control import TIMEOUT_SECONDS

BOUND_SECONDS = 15.0
"""WEIR_TIMEOUT_SECONDS of the clients of stopped and lost servers."""
CALLS = 8
"""Calls of one command on a store that is silent; the half of them waits longer than any busy machine takes."""
OTHER = 65534
LOOK = f"""
import os, sys
for name in sys.argv[1:]:
    try:
        os.stat("{PREFIX_PATH}/folder/" + name)
    except OSError as error:
        print(error.errno)
"""


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes that hold still, and go on afterwards."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def seconds_of(command: Sequence[str | Path], store: Store) -> tuple[float, subprocess.CompletedProcess[str]]:
    """How long a command took, and its answer."""
    began = time.monotonic()
    answer = subprocess.run(
        command, env=store.variables(), capture_output=True, text=True, timeout=10 * BOUND_SECONDS, check=False
    )
    return time.monotonic() - began, answer


def mount_pids(store: Store) -> list[int]:
    return [int(record.read_text().split()[0]) for record in sorted((store.home / "mounts").glob("*.pid"))]


def bring_up(store: Store, *arguments: str, seconds: float = BOUND_SECONDS) -> None:
    """Brings a store up whose clients wait so long for a server."""
    store.environment["WEIR_TIMEOUT_SECONDS"] = str(seconds)
    store.json("up", *arguments)


def test_a_command_waits_once_for_stopped_servers(store: Store, fuse: None) -> None:
    """Each call of `ls` once waited anew: 23 s where 10 are promised, and as long again without a mount."""
    bring_up(store, "--servers", "2")
    names = [f"file-{number}" for number in range(CALLS)]
    folders = [store.mount / f"folder-{number}" for number in range(CALLS)]
    for folder in (store.mount / "folder", *folders):
        folder.mkdir()
    for name in names:
        (store.mount / "folder" / name).write_text(name)
    listing: list[str | Path] = ["ls", "-l", *folders]
    seconds_of(listing, store)
    with stopped(list(store.server_pids().values())):
        took, answer = seconds_of(listing, store)
        assert answer.returncode != 0
        assert took < CALLS / 2 * BOUND_SECONDS, answer.stderr
        run = [*program(), "run", "--prefix", PREFIX_PATH, "--", sys.executable, "-c", LOOK, *names]
        took, answer = seconds_of(run, store)
        assert answer.stdout.split() == ["5"] * len(names), answer.stderr
        assert took < CALLS / 2 * BOUND_SECONDS
    wait_until(
        "service resumes",
        lambda: sorted(seconds_of(["ls", store.mount / "folder"], store)[1].stdout.split()) == names,
    )


def test_one_lost_server_of_three_holds_up_no_figures(store: Store, fuse: None) -> None:
    """`df` once took the whole bound where one of three servers was dead, and so did `weir rebalance`."""
    bring_up(store, "--servers", "3", "--targets", "1", "--capacity", "64MiB", seconds=PATIENCE_SECONDS)
    for number in range(9):
        (store.mount / f"folder-{number}").mkdir()
    whole = os.statvfs(store.mount)
    kill(store.server_pids()[1])
    took, answer = seconds_of(["stat", "--file-system", "--format", "%b %S", store.mount], store)
    blocks, size = map(int, answer.stdout.split())
    assert took < PATIENCE_SECONDS, answer.stderr
    assert blocks * size == whole.f_blocks * whole.f_frsize * 2 // 3, "those that answer"
    took, answer = seconds_of([*program(), "rebalance", "--dry-run"], store)
    assert took < PATIENCE_SECONDS, answer.stderr
    assert "its home, server 1, does not answer" in answer.stderr
    assert answer.returncode == 1


def test_stopped_servers_are_asked_together(store: Store) -> None:
    """`weir status` once waited for one stopped server after the other."""
    store.up(mount=False, servers=6, targets=1, capacity="16MiB")
    with stopped(list(store.server_pids().values())):
        took, answer = seconds_of([*program(), "status"], store)
    assert answer.returncode == 1
    assert answer.stderr.count("does not answer") == 6
    assert took < 6 * TIMEOUT_SECONDS, "one after the other"


def test_a_mount_that_was_killed_is_shown_and_mounted_again(store: Store, fuse: None) -> None:
    """`weir up` once said that the store was up already, and mounted nothing."""
    store.up()
    other = store.root / "other"
    store.weir("mount", other)
    (store.mount / "file").write_text("words")
    for pid in mount_pids(store):
        kill(pid)
    # A script that watches the store once heard of nothing: the exit code was 0.
    answer = store.weir("status", code=1)
    assert answer.stdout.count("(not served)") == 2
    assert answer.stderr.count("[mount-lost]") == answer.stderr.count("`weir up`") == 2
    assert [mount["served"] for mount in store.json("status", code=1)["mounts"]] == [False, False]
    pids = store.server_pids()
    assert "already up" in store.weir("up", "--no-mount", code=1).stderr
    again = store.weir("up")
    assert again.stderr.count("mounted again") == 2
    assert [(point / "file").read_text() for point in (store.mount, other)] == ["words", "words"]
    assert store.server_pids() == pids, "the servers go on"
    assert "already up" in store.weir("up", code=1).stderr
    assert store.weir("status").returncode == 0


def test_the_lock_of_a_home_is_its_owners_alone(store: Store, root_only: None) -> None:
    """Whoever could read the lock file could lock it, and no command of the owner went on."""
    store.home.mkdir(mode=0o711)
    lock = store.home / "lock"
    lock.touch(mode=0o644)
    lock.chmod(0o644)
    store.up(mount=False)
    attempt = f"open({str(lock)!r})"
    answer = subprocess.run(
        ["/usr/bin/python3", "-c", attempt],
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert "PermissionError" in answer.stderr
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    journal = store.home / "servers/0"
    locks = [path for path in journal.rglob("lock") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in locks), locks


def test_a_full_control_port_serves_those_who_ask(store: Store) -> None:
    """Half requests on the control port once kept `weir status` out."""
    import socket

    store.up(mount=False)
    host, _, port = json.loads((store.home / "cluster.json").read_text())["servers"][0]["control"].rpartition(":")
    halves = []
    try:
        for _ in range(200):
            half = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
            half.sendall(b"GET /metrics HTTP/1.1\r\n")
            halves.append(half)
        assert store.weir("status").returncode == 0
    finally:
        for half in halves:
            half.close()


@pytest.mark.parametrize("damage", ["", "[]"])
def test_a_description_of_a_mount_that_is_damaged_names_the_file(store: Store, fuse: None, damage: str) -> None:
    """A record that a full disk left empty is told of, and not with a traceback."""
    store.up(mount=False)
    (store.home / "mounts").mkdir(exist_ok=True)
    record = store.home / "mounts" / "0123456789abcdef.json"
    record.write_text(damage)
    answer = store.weir("status", code=1)
    # Nothing is stopped before the file is removed, as the hint says.
    record.unlink()
    assert answer.stderr.startswith("error: ")
    assert str(record) in answer.stderr
