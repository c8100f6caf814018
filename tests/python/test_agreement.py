"""Settings that are changed while a store runs: they stay, and servers that were down follow."""

from collections.abc import Callable
from pathlib import Path

import pytest
from store import Store, kill
from waits import wait_until


@pytest.mark.parametrize("backend", ["ram", "dir"])
def test_a_server_that_was_down_follows(make_store: Callable[[], Store], backend: str) -> None:
    store = make_store()
    store.weir("up", "--backend", backend, "--servers", "3", "--no-mount")
    kill(store.server_pids()[1])
    store.weir("policy", "set", "job-fair", code=1)
    store.weir("targets", "allocator", "random", code=1)
    store.weir("up")

    def follows() -> bool:
        shown = store.json("policy", "show", code=None)
        return bool(shown["policy"] == "job-fair")

    wait_until("all servers follow job-fair", follows)
    status = store.json("status")
    assert {server["allocator"] for server in status["servers"]} == {"random"}


def test_a_policy_stays_until_another_one_is_decided(make_store: Callable[[], Store]) -> None:
    store = make_store()
    store.weir("up", "--backend", "dir", "--servers", "2", "--no-mount", "--policy", "size-fair")
    store.weir("policy", "set", "user-fair", "--scheduler", "gift")
    store.weir("down")
    assert store.json("up", "--no-mount")["policy"] == "user-fair"
    shown = store.json("policy", "show")
    assert (shown["policy"], shown["scheduler"]) == ("user-fair", "gift")
    store.weir("down")
    # Named again, the old policy is a new decision.
    assert store.json("up", "--no-mount", "--policy", "size-fair")["policy"] == "size-fair"
    store.weir("down")
    assert store.json("up", "--no-mount")["policy"] == "size-fair"


def test_differences_are_shown(make_store: Callable[[], Store], tmp_path: Path) -> None:
    store = make_store()
    store.weir("up", "--servers", "2", "--no-mount", "--read-speed", "200MB/s")
    assert store.json("config", "diff") == []
    assert "as" in store.weir("config", "diff").stderr
    store.weir("policy", "set", "job-fair")
    store.weir("targets", "allocator", "random")
    store.weir("targets", "set", "1.0", "--write", "10MB/s")
    found = {each["setting"]: (each["configured"], each["running"]) for each in store.json("config", "diff", code=1)}
    assert found == {
        "policy": ("size-fair", "job-fair"),
        "allocator": ("balanced", "random"),
        "speed of 1.0": ("read 200 MB/s", "write 10 MB/s"),
    }
    other = tmp_path / "other.toml"
    other.write_text((store.home / "cluster.toml").read_text().replace('"4GiB"', '"8GiB"', 1))
    named = {each["setting"] for each in store.json("config", "diff", other, code=1)}
    assert "capacity of 0.0" in named


def test_a_store_that_is_down_has_no_differences_to_show(make_store: Callable[[], Store]) -> None:
    store = make_store()
    store.weir("up", "--backend", "dir", "--no-mount")
    store.weir("down")
    assert "no store is up" in store.weir("config", "diff", code=1).stderr
