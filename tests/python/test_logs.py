"""`weir logs` shows the last words of servers and mounts, and those that come."""

import contextlib
import re
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from store import Store, program
from weir.store import processes
from weir.store.log_files import Log
from weir.store.processes import older_log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with contextlib.closing(Log("server 0", tmp_path / "log")) as opened:
        yield opened


def test_the_last_lines_are_found_in_a_long_log(log: Log) -> None:
    lines = [f"line {number} {'x' * (number % 90)}" for number in range(20_000)]
    log.path.write_text("\n".join(lines) + "\nbegun")
    assert log.last(3) == [line.encode() for line in lines[-3:]]
    assert log.last(0) == []
    assert len(log.last(50_000)) == 20_000
    with log.path.open("a") as file:
        file.write(" and ended\n")
    assert list(log.fresh()) == [b"begun and ended"]
    assert list(log.fresh()) == []


def test_a_log_that_began_anew_is_read_from_its_beginning(log: Log) -> None:
    assert log.last(5) == list(log.fresh()) == []
    log.path.write_text("one\ntwo\n")
    assert list(log.fresh()) == [b"one", b"two"]
    log.path.write_text("new\n")
    assert list(log.fresh()) == [b"new"]


def test_lines_are_followed_into_a_new_log(log: Log) -> None:
    log.path.write_text("one\ntwo\n")
    assert log.last(1) == [b"two"]
    with log.path.open("a") as file:
        file.write("three\n")
    log.path.rename(older_log(log.path))
    log.path.write_text("four\nfive")
    assert list(log.fresh()) == [b"three", b"four"]
    with log.path.open("a") as file:
        file.write(" and more\n")
    assert list(log.fresh()) == [b"five and more"]
    assert log.last(3) == [b"three", b"four", b"five and more"]
    assert log.last(9) == [b"one", b"two", b"three", b"four", b"five and more"]


def test_a_log_begins_anew_before_a_start_and_not_in_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert processes.end_of(log) == 0
    log.write_bytes(b"x" * (processes.LOG_BYTES_MAX // 2))
    assert processes.end_of(log) == processes.LOG_BYTES_MAX // 2
    with log.open("a") as file:
        file.write("y")
    assert processes.end_of(log) == 0
    assert not log.exists()
    assert older_log(log).stat().st_size == processes.LOG_BYTES_MAX // 2 + 1


def test_the_log_of_a_server_is_bounded_and_has_times_and_levels(store: Store) -> None:
    store.up(mount=False)
    log = store.home / "servers" / "0" / "log"
    form = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) weir-server: .+")
    assert all(form.fullmatch(line) for line in log.read_text().splitlines())
    with log.open("a") as file:
        file.write("x" * 99 + "\n" + "y\n" * (1 << 19))
    store.weir("policy", "set", "job-fair")
    assert "size-fair" in log.read_text() and len(log.read_text().splitlines()) == 1
    assert older_log(log).stat().st_size > 1 << 20
    assert log.stat().st_mode & 0o777 == 0o600
    assert "-> job-fair" in store.weir("logs", "-n", "1").stdout
    # A server that starts again in a new log is understood, too.
    store.weir("policy", "set", "size-fair")
    store.weir("down")


def test_a_log_without_ends_of_lines_takes_no_memory(log: Log) -> None:
    log.path.write_bytes(b"x" * 1_000_000)
    assert list(log.fresh()) == []
    assert len(log.begun) <= 4096


def test_each_line_names_its_program(store: Store) -> None:
    store.up(mount=False, servers=2)
    store.weir("policy", "set", "job-fair")
    lines = store.weir("logs").stdout.splitlines()
    assert {line.split(" | ")[0] for line in lines} == {"server 0", "server 1"}
    of_one = store.weir("logs", "1", "-n", "1").stdout
    assert of_one.startswith("server 1 | ")
    assert "job-fair" in of_one
    assert len(of_one.splitlines()) == 1
    assert store.weir("logs", "--mounts").stdout == ""

    command = [*program(), "logs", "--follow", "--lines", "0"]
    with subprocess.Popen(command, env=store.variables(), stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            store.weir("policy", "set", "size-fair")
            # The follower may begin after the change, so the store changes until a line comes.
            assert "policy" in _next_line(store, follower)
        finally:
            follower.kill()

    store.weir("down")
    assert "server 0 | " in store.weir("logs").stdout
    refused = store.weir("logs", "7", code=1).stderr
    assert "there is no server 7" in refused
    assert "its servers are 0, 1" in refused
    store.weir("down", "--discard", "--yes")
    assert "has no servers" in store.weir("logs", code=1).stderr


def _next_line(store: Store, follower: "subprocess.Popen[str]") -> str:
    assert follower.stdout is not None
    policies = ["job-fair", "user-fair"]
    for turn in range(600):
        if select.select([follower.stdout], [], [], 1.0)[0]:
            return follower.stdout.readline()
        store.weir("policy", "set", policies[turn % 2])
    raise AssertionError("the follower saw no line")
