"""New files of a slowed job on a real store: they avoid the hog's target while the guard says so, and not after."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import weir.store
from hogged import HOGS, SPEED, WINDOW_SECONDS
from waits import wait_until
from weir.guard.journal import Journal
from weir.store.answers import LeasedJob

TARGETS = ("0.0", "0.1", "1.0", "1.1")
SEEN = 8
"""New files that are looked at: each home places its first stripes on all targets in turn."""
HOG = """
import os, sys
path = "/weir/hog/" + sys.argv[1]
file = os.open(path, os.O_RDWR | os.O_CREAT)
turn = 0
while True:
    os.pwrite(file, b"x" * (1 << 20), turn % 8 << 20)
    turn += 1
"""
VICTIM = """
import os, sys, time
turn = 0
while True:
    path = f"/weir/{sys.argv[1 + turn % 2]}/file-{turn}"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    print(os.getxattr(path, "weir.layout").decode(), flush=True)
    os.pwrite(file, b"x" * 65536, 0)
    os.close(file)
    os.unlink(path)
    turn += 1
    time.sleep(0.004)
"""
DIRECTORIES = """
import os, sys
os.mkdir("/weir/hog")
os.setxattr("/weir/hog", "weir.layout", b"-o 0.0")
homes = {}
for number in range(64):
    os.mkdir(f"/weir/of-{number}")
    homes.setdefault(os.stat(f"/weir/of-{number}").st_ino >> 48, f"of-{number}")
print(homes[0], homes[1])
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[weir.store.Store]:
    """A store of two servers with two targets each, under `fifo`."""
    file = tmp_path / "cluster.toml"
    target = f'[[server.target]]\nbackend = "ram"\ncapacity = "256MiB"\n{SPEED}\n'
    server = f"[[server]]\n{target}{target}"
    file.write_text(f'version = 1\npolicy = "fifo"\nwindow = "{WINDOW_SECONDS}s"\n{server}{server}')
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store:
        yield store
        if store.home.exists():
            store.down(discard=True)


@contextmanager
def at_work(store: weir.store.Store, job: str, program: str, *arguments: str) -> Iterator[None]:
    """Run a program of a job, which writes its words into `JOB.out` beside the home."""
    with store.job(job=job, user=f"user-{job}") as environment, out(store, job).open("a") as words:
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment, stdout=words)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def out(store: weir.store.Store, job: str) -> Path:
    """The file of a job's words."""
    return store.home.parent / f"{job}.out"


def layouts(store: weir.store.Store) -> list[str]:
    """The layouts of all files that the victim has made, but for a line that is not whole yet."""
    return out(store, "victim").read_text().split("\n")[:-1]


def targets_of(found: list[str]) -> set[str]:
    """The targets of layouts."""
    return {target for target in TARGETS for layout in found if target in layout.split("-o ")[1].split()[0].split(",")}


def next_files(store: weir.store.Store) -> set[str]:
    """The targets of files that the victim makes from now on; the file at hand may have been placed before."""
    before = len(layouts(store)) + 1
    wait_until("the victim makes files", lambda: len(layouts(store)) >= before + SEEN)
    return targets_of(layouts(store)[before : before + SEEN])


def avoided(store: weir.store.Store) -> set[tuple[str, ...]]:
    """The targets that new files of the victim avoid on each server."""
    leases = [server.lease() for server in store.servers]
    return {next((job.avoid for job in lease.jobs if job.job == "victim"), ()) for lease in leases}


def homes(store: weir.store.Store) -> list[str]:
    """Directories with their homes on both servers, beside that of the hog."""
    with store.job(job="maker") as environment:
        made = subprocess.run(
            [sys.executable, "-c", DIRECTORIES], env=environment, capture_output=True, text=True, check=True
        )
    return made.stdout.split()


def test_new_files_of_a_job_avoid_a_target_at_both_homes_while_the_lease_holds(store: weir.store.Store) -> None:
    directories = homes(store)
    with at_work(store, "victim", VICTIM, *directories):
        assert next_files(store) == set(TARGETS)
        named = [
            LeasedJob("victim", os.getuid(), avoid=("0.0", "1.1")),
            LeasedJob("victim", os.getuid() + 1, limit=0.5),
        ]
        for server in store.servers:
            told = server.set_lease("size-fair", named, 60)
            assert told.jobs == tuple(named), "a job may have an `avoid` alone, or a limit alone"
        assert next_files(store) == {"0.1", "1.0"}
        for server in store.servers:
            server.set_lease(None, [LeasedJob("victim", os.getuid() + 1, avoid=("0.0", "1.1"))], 60)
        assert next_files(store) == set(TARGETS), "the job of that name is another user's"


def test_the_guard_keeps_new_files_off_a_hogs_target_and_gives_it_back(store: weir.store.Store) -> None:
    directories = homes(store)
    words = ("--actions", "avoid", "--windows", "2", "--calm", "1000", "--dwell", "1000")
    command = [sys.executable, "-m", "weir.cli", "--home", str(store.home), "guard", *words]
    with at_work(store, "victim", VICTIM, *directories):
        guard = subprocess.Popen(command)
        try:
            with ExitStack() as hogs:
                for number in range(HOGS):
                    hogs.enter_context(at_work(store, "hog", HOG, str(number)))
                wait_until("the guard acts on all servers", lambda: avoided(store) == {("0.0",)})
                # A busy machine may hold the guard up for longer than its lease lasts.
                wait_until("new files avoid the target", lambda: next_files(store) == {"0.1", "1.0", "1.1"})
                assert {server.lease().policy for server in store.servers} == {"fifo"}
            guard.send_signal(signal.SIGTERM)
            assert guard.wait() == 0
        finally:
            guard.kill()
            guard.wait()
        assert avoided(store) == {()}
        assert next_files(store) == set(TARGETS)
    acted, undone = Journal(store.home / "guard").lines()
    jobs = ("victim", "user-victim", os.getuid(), "hog", "user-hog", os.getuid())
    keys = ("victim", "victim_user", "victim_uid", "culprit", "culprit_user", "culprit_uid")
    assert tuple(acted[key] for key in keys) == jobs
    assert (acted["did"], acted["kind"], acted["value"]) == ("acted", "avoid", "0.0")
    assert acted["reason"].endswith("received more than its owed share, and its demand is on 0.0")
    assert (undone["did"], undone["reason"]) == ("undone", "the guard ended")
