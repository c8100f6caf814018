"""A `weir` that is forked for a test is what a started one is; all tests that use the program rest on this."""

import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forks
import pytest
from store import Store

STARTS: tuple[Any, ...] = (forks.Start.__base__, forks.Start)
SHOW = """
import json, os, resource
umask = os.umask(0)
print(json.dumps([os.getcwd(), os.getpgrp() == os.getppid(), umask, resource.getrlimit(resource.RLIMIT_CORE),
    sorted(os.listdir("/proc/self/fd")), dict(os.environ), open(0).read()]))
"""


def answers(command: list[str], **options: Any) -> list[tuple[str, str, int]]:
    """Returns what a start and a fork answer."""
    found = []
    for kind in STARTS:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with kind([forks.PROGRAM, *command], text=True, **pipes, **options) as child:
            out, err = child.communicate("words")
            found.append((out, err, child.returncode))
    return found


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["--version"], 0),
        (["config", "show", "--output", "json"], 0),
        (["status"], 1),
        (["nothing"], 2),
        (["run", "--prefix", "/weir", "--no-preload", "--", "true"], 2),
    ],
)
def test_a_fork_answers_as_a_start(store: Store, command: list[str], code: int) -> None:
    started, forked = answers(command, env=store.variables())
    assert forked == started and forked[2] == code


def test_a_fork_has_the_place_the_limits_and_the_descriptors_of_a_start(store: Store, tmp_path: Path) -> None:
    store.up()
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    umask = os.umask(0o031)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))
    try:
        command = ["run", "--prefix", "/weir", "--job", "job", "--", sys.executable, "-c", SHOW]
        options: dict[str, Any] = {"cwd": tmp_path, "start_new_session": True, "env": store.variables(ASKED="1")}
        started, forked = answers(command, **options)
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_CORE, limit)
    assert str(tmp_path) in forked[0] and '"ASKED": "1"' in forked[0] and '"words"' in forked[0]
    assert without_credential(forked[0]) == without_credential(started[0]) and forked[1:] == started[1:]


def without_credential(words: str) -> list[str]:
    """Words of a program but the name of its credential, which is another one in each run."""
    return [word for word in words.split() if "/credentials/" not in word]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_fork_ends_by_a_signal_as_a_start(store: Store, number: signal.Signals) -> None:
    store.up()
    codes = []
    for kind in STARTS:
        command = [forks.PROGRAM, "run", "--prefix", "/weir", "--", "sh", "-c", "echo ready; exec sleep 600"]
        with kind(command, env=store.variables(), stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            assert child.poll() is None
            shown = Path(f"/proc/{child.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            assert shown[1:] == [word.encode() for word in command]
            child.send_signal(number)
            if number == signal.SIGKILL:
                child.stdout.close()
            codes.append(child.wait())
    assert codes[0] == codes[1]


def test_the_number_of_a_fork_is_its_own_until_it_is_waited_for(store: Store) -> None:
    for kind in STARTS:
        with kind([forks.PROGRAM, "--version"], env=store.variables(), stdout=subprocess.DEVNULL) as child:
            ended = os.pidfd_open(child.pid)
            assert select.select([ended], [], [], 60)[0]
            os.close(ended)
            assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
            assert child.wait() == 0
            assert not Path(f"/proc/{child.pid}").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"LD_PRELOAD": ""}},
        {"env": {"OMP_NUM_THREADS": "3"}},
        {"env": {"PYTHONPATH": "/x"}},
        {"user": os.getuid()},
        {"umask": 0o22},
        {"pass_fds": [1]},
        {"executable": forks.PROGRAM},
        {"preexec_fn": os.getpid},
    ],
    ids=str,
)
def test_what_a_start_alone_can_have_takes_a_start(store: Store, changes: dict[str, Any]) -> None:
    options = {"stdout": subprocess.PIPE, **changes, "env": store.variables(**changes.get("env", {}))}
    for asked, is_fork in ((options, False), ({"stdout": subprocess.PIPE, "env": store.variables()}, True)):
        with forks.Start([forks.PROGRAM, "--version"], **asked) as child:
            assert child.communicate()[0].startswith(b"weir ")
        assert (child._told is not None) == is_fork
