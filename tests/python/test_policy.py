"""Policy and scheduler: chosen, refused, changed while jobs run, and remembered."""

import json
import threading
import tomllib

import pytest
from store import Store, kill
from weir import _core

FLOOD = """
import os, sys
path, stop = sys.argv[1:]
descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
round = 0
while True:
    block = bytes([round % 251]) * 65536
    assert os.pwrite(descriptor, block, round % 8 * 65536) == len(block)
    assert os.pread(descriptor, len(block), round % 8 * 65536) == block, round
    round += 1
    if round % 16 == 0:
        print(round, flush=True)
        if os.path.exists(stop):
            break
"""
"""Writes and reads back, every byte checked, until the file `stop` is there."""


def fair_schedulers() -> list[str]:
    return [name for name in _core.scheduler_names() if name != "fifo"]


def test_a_store_starts_with_the_scheduler_it_is_told(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text('version = 1\npolicy = "user-fair"\nscheduler = "tbf"\n')
    up = store.json("up", file, "--no-mount", "--servers", "2")
    assert (up["policy"], up["scheduler"]) == ("user-fair", "tbf")
    shown = store.json("policy", "show")
    assert (shown["policy"], shown["scheduler"]) == ("user-fair", "tbf")
    assert {server["scheduler"] for server in shown["servers"]} == {"tbf"}
    store.weir("down")
    store.weir("up", file, "--no-mount", environment={"WEIR_SCHEDULER": "GIFT"})
    assert store.json("policy", "show")["scheduler"] == "gift"
    assert "user-fair by gift" in store.weir("status").stdout


def test_a_change_keeps_the_scheduler_where_it_can_and_is_remembered(store: Store) -> None:
    store.up(mount=False, servers=2)
    answer = store.json("policy", "set", "job-fair", "--scheduler", "gift")
    assert (answer["policy"], answer["scheduler"]) == ("job-fair", "gift")
    assert [server["was_scheduler"] for server in answer["servers"]] == ["virtual-time"] * 2
    assert store.json("policy", "set", "group-then-user-then-size-fair")["scheduler"] == "gift"

    kill(store.server_pids()[1])
    store.weir("up", "--no-mount")
    shown = store.json("policy", "show")
    assert {server["policy"] for server in shown["servers"]} == {"group-then-user-then-size-fair"}
    assert {server["scheduler"] for server in shown["servers"]} == {"gift"}

    assert store.json("policy", "set", "fifo")["scheduler"] == "fifo"
    assert store.json("policy", "set", "size-fair")["scheduler"] == "virtual-time"


def test_a_server_that_is_down_hides_nothing_and_follows_when_it_is_back(store: Store) -> None:
    store.up(mount=False, servers=2)
    kill(store.server_pids()[1])
    for words in (["jobs"], ["policy", "show"], ["targets"], ["status"]):
        answer = store.weir(*words, "--output", "json", code=1)
        assert json.loads(answer.stdout) is not None
        assert "server 1" in answer.stderr
        assert "`weir logs 1`" in answer.stderr or "[server-down]" in answer.stderr
    changed = store.weir("policy", "set", "user-fair", "--output", "json", code=1)
    assert [server["server"] for server in json.loads(changed.stdout)["servers"]] == [0]
    assert "`weir up` starts it again if it ended, with this policy" in changed.stderr
    store.weir("up", "--no-mount")
    assert {server["policy"] for server in store.json("policy", "show")["servers"]} == {"user-fair"}

    for pid in store.server_pids().values():
        kill(pid)
    assert "no server answers, so no policy was changed" in store.weir("policy", "set", "job-fair", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["size-fair", "--scheduler", "lottery"], "unknown scheduler `lottery`: expected one of virtual-time"),
        (["fifo", "--scheduler", "tbf"], "scheduler `tbf` cannot enforce policy `fifo`"),
        (["user-then-rack-fair"], "unknown level `rack` in policy `user-then-rack-fair`"),
        (["job-then-user-fair"], "divides nothing at its level `user`"),
    ],
)
def test_a_wrong_change_leaves_everything_as_it_was(store: Store, arguments: list[str], expected: str) -> None:
    store.up(mount=False)
    answer = store.weir("policy", "set", *arguments, code=2)
    assert expected in answer.stderr
    assert answer.stderr.splitlines()[1].startswith("hint: ")
    shown = store.json("policy", "show")
    assert (shown["policy"], shown["scheduler"]) == ("size-fair", "virtual-time")


def test_shares_of_the_file_are_in_force_shown_and_kept(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text(
        'version = 1\n[[share]]\nuser = "alice"\nweight = 2\nreservation = "20%"\n'
        '[[share]]\ngroup = "guests"\nlimit = 0.1\n'
    )
    shown = store.json("config", "show", file)
    assert shown["share user alice"] == "weight 2, reservation 20%"
    assert shown["share group guests"] == "limit 0.1"
    assert shown["scheduler"] == "virtual-time"
    store.up(file, mount=False)
    assert "keeps no reservations and limits" in store.weir("policy", "set", "fifo", code=1).stderr
    store.weir("policy", "set", "user-fair")
    kept = tomllib.loads((store.home / "cluster.toml").read_text())
    assert kept["share"] == tomllib.loads(file.read_text())["share"]


def test_settings_without_a_file_are_those_of_the_store_that_is_there(store: Store) -> None:
    """`weir config show` printed defaults for a running store of other settings."""
    shown = store.json("config", "show")
    assert (shown["servers"], shown["backend"]) == ("1", "ram")
    store.up(mount=False, servers=2, capacity="70MB", policy="user-fair")
    assert store.json("config", "show") == store.json("config", "show", store.home / "cluster.toml")
    there = store.json("config", "show")
    assert (there["servers"], there["capacity"], there["policy"]) == ("2", "70MB", "user-fair")
    assert store.json("config", "show", "--servers", "1")["capacity"] == shown["capacity"]
    store.weir("down")
    assert store.json("config", "show") == shown
    store.up(mount=False, backend="dir", policy="user-fair")
    store.weir("down")
    lying = store.json("config", "show")
    assert (lying["backend"], lying["policy"]) == ("dir", "user-fair")


def test_no_byte_is_lost_while_policy_and_scheduler_change(store: Store) -> None:
    """Two jobs of real programs, each with several processes, under every scheduler in turn."""
    store.up(mount=False, read_speed="200MB/s", write_speed="200MB/s", fixed_time="50us")
    script, stop = store.root / "flood.py", store.root / "stop"
    script.write_text(FLOOD)
    outputs: dict[str, list[int]] = {}

    def flood(name: str, nodes: str) -> None:
        command = f'for i in 1 2 3; do python3 {script} /weir/{name}-$i {stop} & ids="$ids $!"; done'
        command += "; for id in $ids; do wait $id || exit 1; done"
        words = ["run", "--job", name, "--nodes", nodes, "--prefix", "/weir", "--", "sh", "-c", command]
        outputs[name] = [int(line) for line in store.weir(*words).stdout.split()]

    floods = [threading.Thread(target=flood, args=job) for job in [("large", "4"), ("small", "1")]]
    for each in floods:
        each.start()
    try:
        served = 0
        for scheduler in [*fair_schedulers(), "fifo", "virtual-time"]:
            policy = "fifo" if scheduler == "fifo" else "user-then-size-fair"
            answer = store.json("policy", "set", policy, "--scheduler", scheduler)
            assert answer["scheduler"] == scheduler
            served = await_operations(store, served + 200)
        store.weir("policy", "set", "user-fair")
        await_operations(store, served + 200)
    finally:
        stop.touch()
        for each in floods:
            each.join()
    assert sorted(outputs) == ["large", "small"], "a process that read other bytes ends its job with a failure"
    assert all(max(rounds) > 0 for rounds in outputs.values())


def await_operations(store: Store, goal: int) -> int:
    """Wait until the jobs have had so many requests served; the number is the test's own bound on a hang."""
    for _ in range(300):
        served = sum(job["operations"] for job in store.json("jobs", "--all"))
        if served >= goal:
            return int(served)
    raise AssertionError(f"{goal} requests were not served: {store.weir('jobs', '--all').stdout}")
