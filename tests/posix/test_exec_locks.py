"""Locks and open files over an `exec`, and in programs that a process starts: they stay as long as a process has the descriptor."""

import ctypes
import errno
import fcntl
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from file_locks import KINDS, lock
from libc import refused
from waits import PATIENCE_SECONDS
from ways import ALL, PREFIX, Way

KEPT_SECONDS = 4.0
"""Longer than servers wait for a client without a connection."""
PR_SET_CHILD_SUBREAPER = 36
NUMBER = 9
"""The descriptor that the new program has."""

SHELL = "echo started; read line; exec 9<&-; echo closed; read line"
"""A program that does not touch the descriptor, then closes it, and then goes on."""
STATIC = """
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    char line[80];
    printf("started\\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    close(9);
    printf("closed\\n");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}
"""

STARTS = ("exec", "exec twice", "fork", "spawn", "subprocess")


def outlast(child: int) -> None:
    """Wait in the parent for all that the child starts: the credential of a run goes with its first process."""
    if child:
        while True:
            try:
                os.wait()
            except ChildProcessError:
                os._exit(0)


def begin(folder: Path, start: str, kind: str, keeps: bool, program: list[str]) -> None:
    """Lock a file, start a program that has the descriptor, and end, or become the program."""
    if not start.startswith("exec"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        outlast(os.fork())
    file = os.open(folder / f"{start} {kind}", os.O_RDWR | os.O_CREAT, 0o600)
    if file != NUMBER:
        os.dup2(file, NUMBER)
        os.close(file)
    lock(NUMBER, kind, exclusive=True)
    os.set_inheritable(NUMBER, keeps)
    if start == "exec":
        os.execv(program[0], program)
    elif start == "exec twice":
        os.execv("/bin/sh", ["/bin/sh", "-c", 'exec "$@"', "sh", *program])
    elif start == "fork":
        if os.fork() == 0:
            os.execv(program[0], program)
    elif start == "spawn":
        os.posix_spawn(program[0], program, os.environ)
    else:
        subprocess.Popen(program, pass_fds=[NUMBER] if keeps else [])
    os._exit(0)


@pytest.fixture(scope="module")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    (folder / "static.c").write_text(STATIC)
    subprocess.run(["gcc", "-static", "-o", folder / "static", folder / "static.c"], check=True)
    return folder / "static"


CASES = [
    (start, kind)
    for start in STARTS
    for kind in KINDS
    # Process locks stay those of the first process, which ends.
    if kind != "process" or start.startswith("exec")
]


def tries(folder: Path, cases: list[tuple[str, str]], refuses: bool, waits: bool) -> None:
    """See the locks for longer than servers wait for a client to come back, or take them."""
    files = [(os.open(folder / f"{start} {kind}", os.O_RDWR), start, kind) for start, kind in cases]
    deadline = time.monotonic() + KEPT_SECONDS
    while refuses and time.monotonic() < deadline:
        for file, _, kind in files:
            refused(errno.EAGAIN, lock, file, kind, exclusive=True)
        time.sleep(0.1)
    for file, _, kind in files if not refuses else []:
        lock(file, kind, exclusive=True, wait=waits)


class Started(ExitStack):
    """The new programs of many cases at once."""

    def __init__(self, way: Way, cases: list[tuple[str, str]], keeps: bool, program: list[str]) -> None:
        super().__init__()
        commands = [way.python(begin, start, kind, keeps, program) for start, kind in cases]
        self.children = [self.enter_context(way.start(*command)) for command in commands]
        self.expect("started")

    def go_on(self) -> None:
        for child in self.children:
            assert child.stdin
            child.stdin.write("\n")
            child.stdin.flush()

    def expect(self, word: str) -> None:
        for child in self.children:
            assert child.stdout
            assert child.stdout.readline() == f"{word}\n", child.communicate(timeout=PATIENCE_SECONDS)

    def end(self) -> None:
        self.go_on()
        for child in self.children:
            assert child.stdout
            assert child.stdout.read() == ""


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_a_lock_stays_with_the_descriptor(way: Way) -> None:
    """The new program keeps the lock untouched, also without its parent, until it closes the descriptor."""
    with Started(way, CASES, True, ["/bin/sh", "-c", SHELL]) as programs:
        way.call(tries, CASES, True, False)
        programs.go_on()
        programs.expect("closed")
        way.call(tries, CASES, False, False)
        programs.end()


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_a_static_program_keeps_the_lock(way: Way, static_program: Path) -> None:
    """Without a mount it keeps the lock of its own process until its end, as limits.md says."""
    cases = [(start, kind) for start, kind in CASES if way.name != PREFIX or start not in ("spawn", "subprocess")]
    with Started(way, cases, True, [str(static_program)]) as programs:
        way.call(tries, cases, True, False)
        programs.go_on()
        programs.expect("closed")
        if way.name != PREFIX:
            way.call(tries, cases, False, False)
        programs.end()
        way.call(tries, cases, False, True)


@pytest.mark.parametrize("way", ALL, indirect=True)
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_a_lock_goes_where_the_exec_closes_the_descriptor(way: Way, is_static: bool, static_program: Path) -> None:
    """Others have the lock while the new program runs."""
    program = [str(static_program)] if is_static else ["/bin/sh", "-c", SHELL]
    with Started(way, CASES, False, program) as programs:
        # A parent may still be about to end, and a static program of a prefix ends nothing itself.
        sure = [(start, kind) for start, kind in CASES if start.startswith("exec") and not (is_static and way.is_fast)]
        way.call(tries, sure, False, False)
        way.call(tries, [case for case in CASES if case not in sure], False, True)
        programs.go_on()
        programs.expect("closed")
        programs.end()


def nameless(folder: Path) -> None:
    """Execute a program that has a file without a name, and reads it after a while."""
    file = os.open(folder / "nameless", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(file, b"the bytes\n")
    os.unlink(folder / "nameless")
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, NUMBER)
    os.execv("/bin/sh", ["/bin/sh", "-c", f"sleep {KEPT_SECONDS}; exec cat <&{NUMBER}"])


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_a_file_without_a_name_outlives_an_exec(way: Way) -> None:
    assert way.call(nameless) == "the bytes\n"


def fails(folder: Path) -> None:
    """An exec that fails leaves everything as it was."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    before = sorted(os.listdir("/proc/self/fd"))
    refused(errno.ENOENT, os.execv, "/nowhere/at/all", ["all"])
    assert sorted(os.listdir("/proc/self/fd")) == before
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    told = subprocess.run([sys.executable, "-c", code, folder / "file"], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in told.stderr, told
    os.write(file, b"still")


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_an_exec_that_fails_changes_nothing(way: Way) -> None:
    way.call(fails)
