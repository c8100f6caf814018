"""The planner while one user floods it, or kills the processes that work for the user."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import planner_flood
import pytest
from resident import GIB, ROOT, Planner, interpreter, nobody, planner, script
from waits import PATIENCE_SECONDS, wait_until
from weir.planner import protocol


@pytest.fixture
def folder() -> Path:
    return Path("/tmp") / f"weir-floods-{os.getpid()}"


@pytest.fixture
def running(folder: Path) -> Iterator[Planner]:
    with planner(folder) as made:
        yield made.start()


def test_a_flood_of_one_user_keeps_no_other_one_from_answers(folder: Path) -> None:
    """60 connections with invalid scripts made the others wait for half a second, and slurmctld gave up before."""
    uid = nobody()
    python = interpreter(uid)
    program = (ROOT / "tests" / "planner_flood.py").read_text()
    with planner(folder, program=python) as made:
        made.start()
        for kind in (*planner_flood.FLOODS, "connections"):
            flood = subprocess.Popen([python, "-c", program, "flood", str(made.socket), kind], user=uid, cwd="/")
            try:
                for user in ("root", "daemon"):
                    answers = subprocess.run(
                        [python, "-c", program, "ask", str(made.socket), "5"], user=user, cwd="/",
                        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
                    )  # fmt: skip
                    assert "inf" not in answers.stdout and len(answers.stdout.split()) == 5, (kind, answers)
                assert flood.poll() is None, kind
            finally:
                flood.kill()
                flood.wait()
        assert "Traceback" not in made.log


def test_a_script_is_read_in_bounded_work(running: Planner) -> None:
    """Each text was read for up to two seconds, in which nobody else's was."""
    refused = {
        "a long word": "65536 bytes above its first command",
        "misspelt names": "there is no directive",
        "lines that go on": "the line has more than 16384 characters",
        "empty lines": "65536 bytes above its first command",
        "options": "65536 bytes above its first command",
        "many nodes": "nodes are more than 4096",
    }
    for kind, words in refused.items():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(running.socket))
            connection.sendall(planner_flood.FLOODS[kind](1))
            answer = json.loads(connection.makefile().readline())
        assert answer["error"]["code"] == "invalid" and words in answer["error"]["message"], (kind, answer)
    # The rest of a script may be as long as it likes.
    long = script() + "data\n" * 80_000
    found = running.ask(protocol.Validate(script=long), protocol.Valid)
    assert found.nodes == 2 and found.directives.size_bytes == GIB
    assert running.ask(protocol.Validate(script="#!/bin/sh\nsrun " + "a 'b " * 9000), protocol.Valid).nodes is None


def test_a_helper_that_is_killed_again_and_again_starts_once_a_second(running: Planner) -> None:
    long = {"request": "validate", "script": "version: 1\nresources: [" + "{type: node}," * 1000 + "]"}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.socket))
        answers = connection.makefile()
        for _ in range(3):
            connection.sendall(json.dumps(long).encode() + b"\n")
            assert json.loads(answers.readline())["error"]["code"] == "invalid"
            for each in _helpers(running):
                os.kill(each, signal.SIGKILL)
            wait_until("they are gone", lambda: not _helpers(running))
        # Those for scripts start again, too.
        assert running.ask(protocol.Validate(script=script()), protocol.Valid).nodes == 2


def _helpers(made: Planner) -> list[int]:
    assert made.process is not None
    children = Path(f"/proc/{made.process.pid}/task").glob("*/children")
    pids = [int(pid) for each in children for pid in each.read_text().split()]
    return [pid for pid in pids if b"weir.planner.work" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        # It has ended meanwhile.
        return b""
