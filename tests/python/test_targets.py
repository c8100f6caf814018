"""`weir targets` and `weir place explain`: what targets achieve, who chooses, and why a file lies where it lies."""

import json
import os
import time
from pathlib import Path

import pytest
from store import Store
from waits import wait_until

WRITES = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    descriptor = os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, bytes(65536))
    os.close(descriptor)
"""
"""Files of 64 KiB."""


def test_targets_are_shown_with_what_was_placed_on_them(store: Store, fuse: None) -> None:
    store.up(servers=2, targets=2, capacity="64MiB")
    folder = store.mount / "folder"
    folder.mkdir()
    store.weir("layout", "set", "-c", "2", folder)
    for number in range(8):
        (folder / str(number)).write_bytes(bytes(100_000))
    shown = store.json("targets")
    assert [target["target"] for target in shown["targets"]] == ["0.0", "0.1", "1.0", "1.1"]
    assert [target["stripes_placed"] for target in shown["targets"]] == [4, 4, 4, 4]
    assert shown["stripes_placed"] == {"balanced": 16}
    assert shown["allocators"] == {"0": "balanced", "1": "balanced"}
    assert sum(target["used_bytes"] for target in shown["targets"]) >= 800_000
    lines = store.weir("targets").stdout.splitlines()
    assert lines[0].split()[:3] == ["TARGET", "BACKEND", "CAPACITY"]
    assert lines[-2:] == ["allocator  balanced", "stripes    16 by balanced"]


def test_a_slowed_target_is_shown_as_slow_and_since_when(store: Store, fuse: None) -> None:
    store.up(targets=4, capacity="64MiB", write_speed="100MB/s")
    began = time.time()
    store.weir("targets", "set", "0.2", "--bandwidth", "2MB/s")
    folder = store.mount / "folder"
    folder.mkdir()
    store.weir("layout", "set", "-c", "1", folder)
    store.weir("run", "--", "python3", "-c", WRITES, folder, "40")

    def slow() -> list[str]:
        return [target["target"] for target in store.json("targets")["targets"] if target["slow_since"] is not None]

    wait_until("the slow target is shown", lambda: slow() == ["0.2"])
    target = store.json("targets")["targets"][2]
    assert began - 1 <= target["slow_since"] <= time.time()
    assert target["achieved_bytes_per_second"] < 0.1 * target["expected_bytes_per_second"]
    assert target["stripes_placed"] < 10
    answer = store.json("targets", "set", "0.2", "--real")
    assert answer == {"target": "0.2", "speed": None}
    assert store.json("targets")["targets"][2]["speed"] is None


def test_small_and_instant_requests_show_no_rate(store: Store) -> None:
    """Targets in memory had a rate of 41 MB/s: 8 KiB over the 200 us from which on times are told apart."""
    store.up(targets=1, capacity="64MiB", mount=False)
    small = WRITES.replace("65536", "8192")
    store.weir("run", "--prefix", "/weir", "--", "python3", "-c", small, "/weir", "40")
    (target,) = store.json("targets")["targets"]
    assert target["achieved_bytes_per_second"] is None and target["expected_bytes_per_second"] is None
    assert store.weir("targets").stdout.splitlines()[1].split()[-4:-1] == ["-", "-", "-"]
    emulated = WRITES.replace("65536", "1 << 20")
    store.weir("targets", "set", "0.0", "--bandwidth", "100MB/s")
    store.weir("run", "--prefix", "/weir", "--", "python3", "-c", emulated, "/weir", "20")

    def shown() -> float:
        return float(store.json("targets")["targets"][0]["achieved_bytes_per_second"] or 0)

    wait_until("large requests show the device's rate", lambda: shown() > 0)
    assert shown() <= 100e6 * 1.01


def test_status_tells_how_busy_each_machine_is(store: Store) -> None:
    store.up(servers=2, targets=1, capacity="16MiB")

    def loads() -> list[dict[str, float | None]]:
        return [server["load"] for server in store.json("status")["servers"]]

    wait_until("ten seconds were watched", lambda: all(load["processors"] is not None for load in loads()))
    for load in loads():
        assert set(load) == {"processors", "memory", "network"}
        assert load["memory"] is not None
        assert all(part is None or 0.0 <= part <= 1.0 for part in load.values())


def test_the_allocator_is_chosen_at_start_changed_and_remembered(store: Store) -> None:
    store.up(mount=False, servers=2, allocator="random")
    assert store.json("targets")["allocators"] == {"0": "random", "1": "random"}
    changed = store.json("targets", "allocator", "lustre-standard")
    assert [server["was"] for server in changed["servers"]] == ["random", "random"]
    refused = store.weir("targets", "allocator", "best", code=2)
    assert "expected one of balanced, lustre-standard, random" in refused.stderr
    assert store.json("targets")["allocators"] == {"0": "lustre-standard", "1": "lustre-standard"}


def test_a_wrong_allocator_starts_nothing(store: Store) -> None:
    answer = store.weir("up", "--no-mount", "--allocator", "best", code=2)
    assert "unknown allocator `best`" in answer.stderr
    assert answer.stderr.splitlines()[1].startswith("hint: ")


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["9.0", "--real"], "the store has no target 9.0", 1),
        (["0.9", "--real"], "target 0.9 is not one of this server", 1),
        (["0.0", "--bandwidth", "quick"], "is not a rate", 2),
        (["0.0"], "give a speed", 2),
        (["0.0", "--real", "--fixed", "1ms"], "give a speed", 2),
    ],
)
def test_a_wrong_speed_is_one_line_and_a_hint(store: Store, arguments: list[str], expected: str, code: int) -> None:
    store.up(mount=False)
    answer = store.weir("targets", "set", *arguments, code=code)
    first, second = answer.stderr.splitlines()
    assert expected in first
    assert second.startswith("hint: ")
    assert store.json("targets")["targets"][0]["speed"] is None


def test_a_file_is_explained(store: Store, fuse: None) -> None:
    store.up(servers=2, targets=2, capacity="64MiB")
    file = store.mount / "file"
    file.write_bytes(b"content")
    explained = store.json("place", "explain", file)
    assert explained["record"]["by"] == "balanced"
    assert explained["record"]["considered"] == 4
    assert [target["target"] for target in explained["targets"]] == [
        target["target"] for target in explained["record"]["chosen"]
    ]
    assert all(target["now"]["capacity_bytes"] == 64 << 20 for target in explained["targets"])
    text = store.weir("place", "explain", file).stdout
    assert "its 4 stripes were placed by the allocator balanced" in text
    assert json.loads(os.getxattr(file, "weir.placement"))["by"] == "balanced"


def test_what_is_no_file_of_a_store_is_not_explained(store: Store, fuse: None, tmp_path: Path) -> None:
    store.up()
    outside = tmp_path / "outside"
    outside.write_text("")
    for path in (outside, store.mount):
        answer = store.weir("place", "explain", path, code=1)
        assert "is not a file on a Weir store" in answer.stderr
    assert "No such file" in store.weir("place", "explain", store.mount / "missing", code=1).stderr
