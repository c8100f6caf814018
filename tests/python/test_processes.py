"""A process is stopped by its record, and only if it is the one recorded."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from weir.store import processes
from weir.store.processes import Process

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    child = processes.start(["sleep", "60"], record=tmp_path / "pid", log=tmp_path / "log", folder=tmp_path)
    yield child
    child.kill()
    child.wait()


def test_the_record_is_there_before_the_program_and_names_it(sleeper: subprocess.Popen[str], tmp_path: Path) -> None:
    process = Process.recorded(tmp_path / "pid")
    assert process is not None
    assert process.pid == sleeper.pid
    assert process.is_alive()
    assert os.getsid(process.pid) == process.pid, "it must outlive the terminal"


def test_a_stopped_process_is_gone(sleeper: subprocess.Popen[str], tmp_path: Path) -> None:
    process = Process.recorded(tmp_path / "pid")
    assert process is not None
    assert process.stop()
    assert not process.is_alive(), "a zombie counts as ended"
    assert process.stop(), "to stop it again changes nothing"


BUSY = """
import threading, time
for _ in range(8):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
memory = bytearray(30 << 20)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_process_that_was_killed_is_never_taken_for_alive(tmp_path: Path) -> None:
    """`weir up` right after `kill -9` left a dying server as it was, and the store was down a moment later."""
    for number in range(40):
        record = tmp_path / str(number)
        child = processes.start(
            [sys.executable, "-c", BUSY], record=record, log=tmp_path / "log", folder=tmp_path, read_output=True
        )
        process = Process.recorded(record)
        assert process is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert process.is_alive()
        os.kill(child.pid, signal.SIGKILL)
        assert not process.is_alive(), f"round {number}"
        child.wait()
        child.stdout.close()


LEADERLESS = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (time.sleep(1), os._exit(0))).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
"""Its first thread ends at once, by the system call exit, and another one second later."""


def test_a_process_whose_threads_end_after_its_first_one_is_reaped(tmp_path: Path) -> None:
    """A program that forgot its store was told at its end that a server still runs, which was a zombie by then."""
    child = processes.start(
        [sys.executable, "-c", LEADERLESS], record=tmp_path / "pid", log=tmp_path / "log", folder=tmp_path
    )
    process = Process.recorded(tmp_path / "pid")
    assert process is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert process.stop()
    assert child.returncode == 0


def test_another_process_under_the_same_number_is_left_alone(sleeper: subprocess.Popen[str]) -> None:
    earlier = Process(sleeper.pid, start_ticks=1, boot=Process.current().boot)
    assert not earlier.is_alive()
    assert earlier.stop()
    assert sleeper.poll() is None
    rebooted = Process(sleeper.pid, Process.current().start_ticks, boot="another")
    assert not rebooted.is_alive()


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    child = processes.start(
        ["sh", "-c", STUBBORN], record=tmp_path / "pid", log=tmp_path / "log", folder=tmp_path, read_output=True
    )
    assert child.stdout
    with child.stdout:
        assert child.stdout.readline() == "ready\n"
    process = Process.recorded(tmp_path / "pid")
    assert process is not None
    assert not process.stop(terminate_seconds=0.2)
    assert child.wait() == -9


def test_a_program_that_is_missing_leaves_no_living_record(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        processes.start(["/nonexistent"], record=tmp_path / "pid", log=tmp_path / "log", folder=tmp_path)
    process = Process.recorded(tmp_path / "pid")
    assert process is None or not process.is_alive()


@pytest.mark.parametrize("text", ["", "12", "a b c", "1 2 3 4"])
def test_a_damaged_record_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert Process.recorded(tmp_path / "pid") is None


def test_errors_of_programs_are_taken_apart() -> None:
    assert processes.error_in(["noise", "error: port in use; hint: take another", "more"]) == (
        "port in use",
        "take another",
    )
    assert processes.error_in(["error: a", "hint: b"]) == ("a", "b")
    assert processes.error_in(["error: a; b; try 7"]) == ("a; b", "try 7")
    assert processes.error_in(["error: a"]) == ("a", "")
    logged = "2026-11-24T11:30:45.123Z ERROR weir-server: port in use; hint: take another"
    assert processes.error_in([logged, logged.replace("ERROR", "WARNING")]) == ("port in use", "take another")
    assert processes.error_in(["nothing"]) is None


def test_a_server_does_not_become_a_client_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CLUSTER", "/somewhere")
    monkeypatch.setenv("WEIR_TRANSPORT", "tcp")
    monkeypatch.setenv("LD_PRELOAD", "/a/libweir_preload.abi3.so:/nonexistent-other.so")
    child = processes.start(
        ["/usr/bin/env"], record=tmp_path / "pid", log=tmp_path / "log", folder=tmp_path, read_output=True
    )
    seen = dict(line.split("=", 1) for line in child.communicate(timeout=PATIENCE_SECONDS)[0].splitlines())
    assert "WEIR_CLUSTER" not in seen
    assert seen["WEIR_TRANSPORT"] == "tcp"
    assert seen["LD_PRELOAD"] == "/nonexistent-other.so"
