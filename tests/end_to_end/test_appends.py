"""Appends of several programs to one file, of which one stops in the midst of its turn."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from store import Store
from waits import PATIENCE_SECONDS
from ways import ALL, MOUNT, MOUNTED, PREFIX, Way, has_fuse, make_way
from weir.store.control import servers_of

RECORD_BYTES = 1 << 20
"""More than one request without a turn takes, and no more than the mount writes at once."""
LARGE_BYTES = 3 << 20
"""At the speed of these targets longer than the lease of a turn."""
SPEED = "350kB/s"
"""So that a record takes three seconds: a busy machine must find its program in the midst of it."""


def append(folder: Path, letter: str, length: int) -> None:
    """Append one record to the file."""
    file = os.open(folder / "records", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    assert os.write(file, letter.encode() * length) == length
    os.close(file)


def check(folder: Path, lengths: dict[str, int]) -> None:
    """Every record is there once and whole, and nothing else is."""
    content = (folder / "records").read_bytes().decode()
    assert len(content) == sum(lengths.values())
    order = sorted(lengths, key=content.index)
    assert content == "".join(letter * lengths[letter] for letter in order)


def bring_up(store: Store, name: str) -> Way:
    if name in MOUNTED and not has_fuse():
        pytest.skip("there is no /dev/fuse")
    store.up(servers=1, targets=1, write_speed=SPEED, mount=name in MOUNTED)
    return make_way(name, store, "appends")


def outstanding(store: Store) -> int:
    """Requests that the server has in hand."""
    (server,) = servers_of(store.home / "cluster.json", None, timeout_seconds=PATIENCE_SECONDS)
    return server.status().outstanding


def await_writing(store: Store) -> None:
    """Wait until the server is at a write: no other request here is in hand twice in a row."""
    limit = time.monotonic() + PATIENCE_SECONDS
    seen = 0
    while seen < 2:
        seen = seen + 1 if outstanding(store) > 0 else 0
        assert time.monotonic() < limit, "nobody writes"
        time.sleep(0.02)


def log(store: Store) -> str:
    return (store.home / "servers/0/log").read_text()


@pytest.fixture
def programs() -> Iterator[list[Popen[str]]]:
    started: list[Popen[str]] = []
    yield started
    for program in started:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("name", ALL)
def test_a_client_that_stops_in_its_turn_blocks_nobody_and_loses_nothing(
    store: Store, programs: list[Popen[str]], name: str
) -> None:
    """It once kept every other append of the file waiting for as long as it was stopped."""
    way = bring_up(store, name)
    late = way.start(*way.python(append, "a", RECORD_BYTES), start_new_session=True)
    programs.append(late)
    await_writing(store)
    # In the mount's way the mount is the client.
    group = -late.pid
    if name == MOUNT:
        (record,) = store.home.glob("mounts/*.pid")
        group = int(record.read_text().split()[0])
    os.kill(group, signal.SIGSTOP)
    try:
        other = Way(PREFIX, store, way.sibling(PREFIX))
        other.call(append, "b", RECORD_BYTES, seconds=PATIENCE_SECONDS)
        other.call(append, "c", 10, seconds=PATIENCE_SECONDS)
        assert late.poll() is None
        assert "append turn" in log(store)
    finally:
        os.kill(group, signal.SIGCONT)
    words = late.communicate(timeout=PATIENCE_SECONDS)
    assert late.returncode == 0, words
    other.call(check, {"a": RECORD_BYTES, "b": RECORD_BYTES, "c": 10})


def test_a_turn_that_is_slow_is_not_taken(store: Store, programs: list[Popen[str]]) -> None:
    """A policy may make a write longer than the lease: its client renews the turn while it waits."""
    way = bring_up(store, PREFIX)
    for letter in ("a", "b"):
        programs.append(way.start(*way.python(append, letter, LARGE_BYTES), start_new_session=True))
    for program in programs:
        words = program.communicate(timeout=PATIENCE_SECONDS)
        assert program.returncode == 0, words
    way.call(check, {"a": LARGE_BYTES, "b": LARGE_BYTES})
    assert "append turn" not in log(store), log(store)
