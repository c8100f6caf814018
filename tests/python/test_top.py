"""`weir top` and `weir jobs`: what jobs do, live and once."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from weir.cli.top.screen import Picture, View

LOAD = """
import os, sys
path, stop = sys.argv[1:]
descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
while not os.path.exists(stop):
    os.pwrite(descriptor, bytes(16384), 0)
"""


@contextmanager
def jobs_at_work(store: Store) -> Iterator[None]:
    """Jobs "large" of 4 nodes and "small" of 1 node keep one slow target busy."""
    store.up(mount=False, targets=1, fixed_time="1ms")
    script, stop = store.root / "load.py", store.root / "stop"
    script.write_text(LOAD)
    running = []
    try:
        for name, nodes in (("large", "4"), ("small", "1")):
            command = f"for i in 1 2 3; do python3 {script} /weir/{name}-$i {stop} & done; wait"
            words = ["run", "--job", name, "--nodes", nodes, "--prefix", "/weir", "--", "sh", "-c", command]
            running.append(subprocess.Popen([*program(), *words], env=store.variables()))
        wait_until("both jobs write", lambda: sum(job["bytes_written"] > 0 for job in store.json("jobs", "--all")) == 2)
        yield
    finally:
        stop.touch()
        for each in running:
            each.wait(timeout=PATIENCE_SECONDS)


def test_one_interval_says_what_each_job_was_owed_received_and_waited_for(store: Store) -> None:
    with jobs_at_work(store):
        once = store.json("top", "--once", "--interval", "1")
        table = store.weir("top", "--once", "--interval", "0.2").stdout
        jobs = store.weir("jobs").stdout
    assert (once["policy"], once["scheduler"]) == ("size-fair", "virtual-time")
    assert once["interval_seconds"] >= 1
    assert once["servers"] == [{"server": 0, "up": True}]
    assert [device["device"] for device in once["devices"]] == ["0.0", "0.metadata"]
    assert 0 < once["devices"][0]["load"] <= 1
    by_name = {job["job"]: job for job in once["jobs"]}
    assert sorted(by_name) == ["large", "small"]
    for name, other in (("large", "small"), ("small", "large")):
        job, received = by_name[name], by_name[other]["device_seconds"]
        assert 0 < job["bytes_written_per_second"] == pytest.approx(job["bytes_written"] / once["interval_seconds"])
        assert 0 < job["operations_per_second"] < 1000, "the target serves one in a millisecond"
        assert job["waited_for"][0]["job"] == other
        assert 0 < job["waited_for"][0]["seconds"] <= received + 1e-9
        assert job["queue_wait_seconds_mean"] > 0
    assert by_name["large"]["share_owed"] > by_name["small"]["share_owed"] > 0
    # 4:1 is owed; a machine that is busy with other things may let a job's processes wait for the processor.
    assert by_name["large"]["device_seconds"] > by_name["small"]["device_seconds"]

    assert table.startswith("weir top  ")
    assert "size-fair by virtual-time" in table
    assert re.search(r"^targets   0\.0 \d+\.\d% \(\d+\)$", table, re.MULTILINE)
    assert re.search(r"^large .* small \d+\.\d%$", table, re.MULTILINE)
    assert "\x1b" not in table
    assert re.search(r"^small .* large \d+(\.\d)? (s|ms|us)$", jobs, re.MULTILINE)


def test_what_is_no_terminal_gets_one_interval(store: Store) -> None:
    store.up(mount=False)
    assert store.weir("top", "--interval", "0.1").stdout.count("weir top") == 1
    document = json.loads(store.weir("top", "--interval", "0.1", "--output", "json").stdout)
    assert document["jobs"] == []


def test_an_interval_that_is_none_is_refused(store: Store) -> None:
    assert "0.1<=x<=3600" in store.weir("top", "--interval", "0", code=2).stderr


def test_a_server_that_died_is_named(store: Store) -> None:
    store.up(mount=False, servers=2)
    kill(store.server_pids()[1])
    answer = store.weir("top", "--once", "--interval", "0.1", code=1)
    assert "server 1" in answer.stderr
    assert "1 of 2 servers" in answer.stdout


@pytest.mark.parametrize("colours", [True, False])
def test_the_terminal_is_refreshed_and_left_as_it_was(store: Store, colours: bool) -> None:
    store.up(mount=False)
    screen, terminal = pty.openpty()
    environment = store.variables(TERM="xterm")
    if colours:
        del environment["NO_COLOR"]
    command = [*program(), "top", "--interval", "0.1"]
    with subprocess.Popen(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal) as top:
        os.close(terminal)
        seen = read_until(screen, lambda seen: seen.count(b"weir top") >= 3)
        top.send_signal(signal.SIGINT)
        seen += read_until(screen, lambda _: top.poll() is not None)
        seen += read_until(screen, lambda _: False, seconds=0.2)
    os.close(screen)
    assert top.returncode == 0
    text = seen.decode()
    assert text.startswith("\x1b[?1049h\x1b[?25l"), "its own screen, no cursor"
    assert text.rstrip().endswith("\x1b[?25h\x1b[?1049l"), "and back"
    assert "\x1b[2J" not in text, "a screen that is cleared first flickers"
    assert ("\x1b[1m" in text) == colours
    assert "Traceback" not in text


def test_keys_choose_a_job_open_it_sort_and_leave(store: Store) -> None:
    with jobs_at_work(store), top_on_a_terminal(store) as (top, screen, read):
        read(lambda seen: "large" in seen and "small" in seen)
        os.write(screen, b"\x1b[B")
        read(lambda seen: "\x1b[7m" in seen)
        os.write(screen, b"\r")
        details = read(lambda seen: "WAITS FOR  USER  DEVICE TIME" in seen)
        assert re.search(r"(large|small) of \S+ \(\d+\) in \S+", details)
        assert "waits since the job's begin: 50% " in details
        os.write(screen, b"\x1b")
        read(lambda seen: "DEVICE↓" in seen)
        os.write(screen, b"\x1b[D")
        read(lambda seen: "OP/S↓" in seen)
        os.write(screen, b"r")
        read(lambda seen: "OP/S↑" in seen)
        os.write(screen, b"q")
        left = read(lambda _: top.poll() is not None)
        assert left.rstrip().endswith("\x1b[?25h\x1b[?1049l")
        assert top.returncode == 0


def test_a_key_has_an_effect_before_the_interval_ends_and_the_terminal_is_given_back(store: Store) -> None:
    store.up(mount=False)
    with top_on_a_terminal(store, "--interval", "600") as (top, screen, read):
        read(lambda seen: "the first interval ends in 600 s" in seen)
        os.write(screen, b"\x1b[5~xq")
        read(lambda _: top.poll() is not None)
        assert top.returncode == 0


def test_choices_follow_the_job_and_not_the_line() -> None:
    view, jobs = View(column=6), ["a", "b", "c"]
    second = view.pressed("down", jobs, 11).pressed("down", jobs, 11)
    assert second.chosen == "b"
    assert second.pressed("down", ["b", "c", "a"], 11).chosen == "c"
    assert second.pressed("up", ["c"], 11).chosen == "c", "the chosen job is gone"
    assert second.pressed("down", [], 11).chosen == "b"
    assert view.pressed("open", jobs, 11) == view, "nothing is chosen"
    opened = second.pressed("open", jobs, 11)
    assert opened.pressed("right", jobs, 11) == opened
    assert opened.pressed("close", jobs, 11) == second
    assert view.pressed("left", jobs, 11).column == 5
    assert View(column=10, is_reversed=True).pressed("right", jobs, 11) == View(column=0)


def test_the_chosen_row_is_on_the_screen_and_no_line_is_longer_than_it() -> None:
    rows = [f"row {number}" for number in range(100)]
    for chosen in (0, 50, 99):
        text = Picture(["head", "second"], "title", rows, chosen).text(20, 10, keys=True)
        assert f"\x1b[7mrow {chosen}".ljust(24) in text
        lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).splitlines()
        assert len(lines) <= 10
        assert all(len(line) <= 20 for line in lines[:-1])


@contextmanager
def top_on_a_terminal(
    store: Store, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int, Callable[[Callable[[str], bool]], str]]]:
    """`weir top` on a terminal: its process, the terminal's other end, and a reader that waits until enough is seen."""
    screen, terminal = pty.openpty()
    settings = termios.tcgetattr(terminal)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    command = [*program(), "top", "--interval", "0.2", *options]
    top = subprocess.Popen(command, env=store.variables(TERM="xterm"), stdin=terminal, stdout=terminal, stderr=terminal)

    def read(is_enough: Callable[[str], bool]) -> str:
        return read_until(screen, lambda seen: is_enough(seen.decode(errors="replace"))).decode(errors="replace")

    try:
        yield top, screen, read
        assert termios.tcgetattr(terminal) == settings
    finally:
        top.kill()
        top.wait(PATIENCE_SECONDS)
        os.close(terminal)
        os.close(screen)


def read_until(screen: int, is_enough: Callable[[bytes], bool], *, seconds: float = PATIENCE_SECONDS) -> bytes:
    """What a terminal shows until it is enough, or until the time is over."""
    seen = b""
    deadline = time.monotonic() + seconds
    while not is_enough(seen) and time.monotonic() < deadline:
        ready, _, _ = select.select([screen], [], [], 0.05)
        if ready:
            try:
                seen += os.read(screen, 65536)
            except OSError:
                break
    return seen
