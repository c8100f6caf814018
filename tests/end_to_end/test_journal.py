"""A journal that lost what was on stable storage: `weir up` refuses the store, says what is missing, and takes it on demand."""

import os
from pathlib import Path

import pytest
from store import Store


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
