"""Who is charged for what: a user counts once, however its programs come, and claims that nobody granted count for nothing."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from store import Store, program, search_path
from waits import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("root_only")

NOBODY = 65534
"""A user whose name, `nobody`, every machine knows."""
CONFIGURATION = """\
version = 1
policy = "user-then-size-fair"
[[server]]
[[server.target]]
backend = "ram"
capacity = "64MiB"
speed = { write = "4MB/s", read = "4MB/s" }
"""
TWO_SERVERS = (
    """\
version = 1
policy = "size-fair"
"""
    + 2 * CONFIGURATION[CONFIGURATION.index("[[server]]") :]
)
SHARE = """\
[[share]]
user = "nobody"
weight = 3
"""
FLOOD = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
def write():
    while True:
        os.pwrite(file, bytes(1 << 16), 0)
for _ in range(4):
    threading.Thread(target=write).start()
"""
"""Keeps requests of its job queued at the target until it is killed."""
SPREAD_FLOOD = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
def write(at):
    while True:
        os.pwrite(file, bytes(1 << 16), at << 16)
for at in range(8):
    threading.Thread(target=write, args=(at,)).start()
"""
"""The same at every target of a file with stripes of 64 KiB."""


@pytest.fixture
def programs() -> Iterator[list[Popen[str]]]:
    started: list[Popen[str]] = []
    yield started
    for each in started:
        os.killpg(each.pid, signal.SIGKILL)
        each.communicate(timeout=PATIENCE_SECONDS)


def bring_up(store: Store, *, configuration: str = CONFIGURATION, shares: str = "", mount: bool) -> None:
    file = store.root / "cluster.toml"
    file.write_text(configuration + shares)
    store.up(file, mount=mount)
    store.weir("run", "--prefix", "/weir", "--", "chmod", "1777", "/weir")


def run(store: Store, environment: dict[str, str], *options: str, uid: int | None = None) -> Popen[str]:
    """Start a flood by `weir run`."""
    how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    variables = store.variables(**environment)
    if uid is not None:
        how |= {"user": uid, "group": uid, "extra_groups": []}
        variables.update(search_path())
    words = [*program(uid), "run", "--prefix", "/weir", *options, "--", "/usr/bin/python3", "-c", FLOOD]
    path = f"/weir/{uid}-{len(options)}"
    return Popen([*words, path], env=variables, text=True, cwd="/", start_new_session=True, **how)


def run_without_credential(folder: Path) -> Popen[str]:
    """Start a flood of nobody's through the mount, in an environment that knows of no store."""
    return Popen(
        ["/usr/bin/python3", "-c", FLOOD, folder / "plain"],
        env={"PATH": os.environ["PATH"]},
        text=True,
        cwd="/",
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )


def owed(store: Store, names: set[str]) -> dict[str, tuple[str, float]]:
    """The user of each job, and the share that the target owes it, at a moment when all of them have work there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = {}
        for job in store.json("jobs"):
            shares = [device["share_owed"] for device in job["devices"] if device["device"] == "0.0"]
            if job["active"] and sum(shares) > 0:
                found[job["job"]] = (job["user"], sum(shares))
        if set(found) == names:
            return found
        assert time.monotonic() < deadline, f"{names} are never active at once: {found}"
        time.sleep(0.05)


@pytest.mark.parametrize(("shares", "part"), [("", 1 / 2), (SHARE, 3 / 4)], ids=["policy", "share of the user"])
def test_a_user_with_and_without_a_credential_is_one_user(
    store: Store, fuse: None, programs: list[Popen[str]], shares: str, part: float
) -> None:
    """Without a credential the user was accounted as its number: another user for the policy, and out of its own share."""
    bring_up(store, shares=shares, mount=True)
    programs.append(run(store, store.grant(NOBODY, "--job", "granted"), uid=NOBODY))
    programs.append(run_without_credential(store.mount))
    programs.append(run(store, {}, "--job", "roots"))
    jobs = owed(store, {"granted", f"uid-{NOBODY}", "roots"})
    assert {user for user, _ in jobs.values()} == {"nobody", "root"}
    theirs = [share for user, share in jobs.values() if user == "nobody"]
    assert theirs == pytest.approx([part / 2] * 2, rel=0.01)
    assert jobs["roots"][1] == pytest.approx(1 - part, rel=0.01)
    listed = store.weir("jobs", "--all").stdout
    assert listed.count("nobody") == 2
    assert str(NOBODY) not in listed.replace(f"uid-{NOBODY}", "")


def test_claimed_nodes_win_nothing_from_another_user(store: Store, programs: list[Popen[str]]) -> None:
    """A thousand nodes that a job does not have count among its own user's jobs, where the user stands before the size."""
    bring_up(store, mount=False)
    programs.append(run(store, store.grant(NOBODY, "--job", "honest", "--nodes", "1"), uid=NOBODY))
    programs.append(run(store, {}, "--job", "claims", "--nodes", "999"))
    programs.append(run(store, {}, "--nodes", "1", "--job", "small"))
    jobs = owed(store, {"honest", "claims", "small"})
    assert jobs["honest"][1] == pytest.approx(0.5, rel=0.01)
    assert jobs["claims"][1] == pytest.approx(0.5 * 0.999, rel=0.01)


@pytest.mark.parametrize("has_credential", [False, True], ids=["user", "job"])
def test_a_caller_of_a_mount_that_was_forgotten_is_shown_when_it_works_again(
    store: Store, fuse: None, has_credential: bool
) -> None:
    """A mount names a caller once, so a caller that was idle for longer than a finished job is kept worked unseen."""
    bring_up(store, configuration='finished_jobs_kept = "2s"\n' + CONFIGURATION, mount=True)
    environment = store.grant(NOBODY, "--job", "granted", "--nodes", "2") if has_credential else {}
    name, nodes = ("granted", 2) if has_credential else (f"uid-{NOBODY}", 1)

    def write() -> None:
        subprocess.run(
            ["/bin/sh", "-c", 'echo word >> "$1"', "sh", store.mount / "file"],
            env={"PATH": os.environ["PATH"], **environment},
            cwd="/",
            check=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )

    def shown() -> list[dict[str, Any]]:
        return [job for job in store.json("jobs", "--all") if job["job"] == name]

    def is_shown_at_work() -> bool:
        write()
        return any(
            job["bytes_written"] > 0 and (job["user"], job["nodes"], job["uid"]) == ("nobody", nodes, NOBODY)
            for job in shown()
        )

    wait_until("the job is shown", is_shown_at_work)
    wait_until("the job is forgotten", lambda: not shown())
    wait_until("the job is shown again", is_shown_at_work)


def test_jobs_on_different_servers_are_owed_and_receive_the_whole_together(
    store: Store, programs: list[Popen[str]]
) -> None:
    """Each job's time was divided by that of the devices which it used alone, so these jobs had 150 % together."""
    bring_up(store, configuration=TWO_SERVERS, mount=False)
    how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    jobs = {"both": ("2", "0.0,1.0"), "first": ("1", "0.0"), "second": ("1", "1.0")}
    for name, (count, targets) in jobs.items():
        folder, within = f"/weir/{name}", ("run", "--prefix", "/weir")
        store.weir(*within, "--", "mkdir", folder)
        layout = ("-S", "64K", "-c", count, "-o", targets)
        store.weir(*within, "--", *program(), "layout", "set", *layout, folder)
        words = [*program(), *within, "--job", name, "--nodes", count, "--", "/usr/bin/python3", "-c"]
        flood = [*words, SPREAD_FLOOD, f"{folder}/file"]
        programs.append(Popen(flood, env=store.variables(), text=True, cwd="/", start_new_session=True, **how))

    def have_the_whole() -> bool:
        shown = [job for job in store.json("top", "--once", "--interval", "2")["jobs"] if job["job"] in jobs]
        sums = [sum(job[share] or 0.0 for job in shown) for share in ("share_owed", "share_received")]
        print(sums)
        # A busy machine may hold all threads of a job up for a while.
        return len(shown) == len(jobs) and sums == pytest.approx([1.0, 1.0], abs=0.03)

    wait_until("the jobs have the whole together", have_the_whole)


def test_nodes_that_were_not_granted_are_refused(store: Store) -> None:
    """The claims of a credential are signed: who changes them in its own file is nobody for the server."""
    bring_up(store, mount=False)
    environment = store.grant(NOBODY, "--job", "granted", "--nodes", "2")
    arguments = ("run", "--prefix", "/weir", "--", "stat", "/weir")
    store.weir(*arguments, uid=NOBODY, environment=environment)
    file = Path(environment["WEIR_CREDENTIAL"])
    document = json.loads(file.read_text())
    assert document["claims"]["nodes"] == 2
    document["claims"]["nodes"] = 999
    file.write_text(json.dumps(document))
    refused = store.weir(*arguments, uid=NOBODY, environment=environment, code=1).stderr
    assert "Permission denied" in refused, refused
    assert [job["nodes"] for job in store.json("jobs", "--all") if job["job"] == "granted"] == [2]
