"""Journals in trouble, as commands tell of them: one that lost what was on stable storage, and one whose device fails."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, failing
from store import Store, kept_for
from waits import wait_until

MAKE = """
import os
for number in range(2000):
    os.mkdir(f"/weir/{os.getpid()}-{number:030}")
    if number % 50 == 49:
        folder = os.open("/weir", os.O_RDONLY)
        os.fsync(folder)
"""
"""More changes than the blocks hold that the journal's log has so far, and waits until they are on stable storage."""


@pytest.fixture
def stopped(store: Store) -> Path:
    """The journal of a store that was stopped after an fsync."""
    store.up(backend="dir", targets=1)
    for number in range(5):
        with (store.mount / f"file-{number}").open("wb") as file:
            file.write(b"bytes")
            file.flush()
            os.fsync(file.fileno())
    store.weir("down")
    return store.home / "servers/0/journal"


def test_a_journal_that_was_cut_is_refused_and_taken_on_demand(store: Store, stopped: Path) -> None:
    """Such a store once came up without the files, and its log said that nothing durable was missing."""
    log = max(stopped.glob("log-*"), key=lambda path: path.stat().st_size)
    os.truncate(log, log.stat().st_size // 2)
    refused = store.weir("up", code=1).stderr
    assert "were on stable storage" in refused
    assert "--accept-journal-loss" in refused
    assert "restore" in refused
    taken = store.weir("up", "--accept-journal-loss").stderr
    assert "accepted the loss of" in taken
    assert "groups of changes" in taken
    names = sorted(path.name for path in store.mount.iterdir())
    assert len(names) < 5
    store.weir("down")
    store.weir("up")
    assert sorted(path.name for path in store.mount.iterdir()) == names


def test_status_shows_that_the_journal_takes_changes(store: Store) -> None:
    """The state that a failed device would change is there, for people and for programs."""
    store.up(backend="dir", targets=1)
    [server] = store.json("status")["servers"]
    assert server["journal"]["state"] == "works"
    assert "journals 1 of 1 take changes" in store.weir("status").stdout


@pytest.fixture
def device(tmp_path: Path, root_only: None) -> Iterator[Disk]:
    with failing(tmp_path) as made:
        yield made


@pytest.fixture
def store_on_device(device: Disk) -> Iterator[Store]:
    """A store whose home is on a device that can fail."""
    with kept_for(device.path) as store:
        yield store


def test_a_stopped_journal_is_told_of_until_its_device_works(device: Disk, store_on_device: Store) -> None:
    """`weir status` said that the server answers, and `weir up` that the store is up already, and no more."""
    store = store_on_device
    store.weir("up", "--backend", "dir", "--targets", "1", "--no-mount")
    # The home takes no credentials of runs while its device fails.
    run = ("run", "--prefix", "/weir", "--")
    store.weir(*run, "sh", "-c", "echo words >/weir/file")
    store.environment["WEIR_CREDENTIAL"] = str(store.home / f"credentials/uid-{os.getuid()}.json")
    device.fill()
    store.weir(*run, "python3", "-c", MAKE, code=1)
    device.keep()
    if store.weir("status", code=None).returncode == 0:
        # The journal began anew before the device kept its blocks.
        store.weir(*run, "python3", "-c", MAKE, code=1)
    shown = store.weir("status", code=1)
    assert "journals 0 of 1 take changes" in shown.stdout
    assert "warning: server 0: it takes no changes (EROFS): cannot " in shown.stderr
    assert "[journal-stopped]" in shown.stderr
    [server] = store.json("status", code=1)["servers"]
    assert (server["up"], server["journal"]["state"]) == (True, "stopped")
    refused = store.weir("up", "--no-mount", code=1).stderr
    assert "is up, but takes no changes where a journal stopped: server 0: cannot " in refused
    assert "see `weir status`" in refused
    assert store.weir(*run, "cat", "/weir/file").stdout == "words\n"
    device.free()
    wait_until("the journal begins anew", lambda: store.weir("status", code=None).returncode == 0)
    answer = store.weir("status")
    assert "journals 1 of 1 take changes" in answer.stdout
    assert "[journal-failures]" in answer.stderr
    assert "already up" in store.weir("up", "--no-mount", code=1).stderr
    store.weir(*run, "mkdir", "/weir/folder")
