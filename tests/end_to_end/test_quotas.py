"""Quotas: dd, cp and shells of several users meet their limits by each way in, and nothing that was refused keeps room."""

import errno
import json
import os
from pathlib import Path

import pytest
from store import Store, kill
from waits import wait_until
from ways import MOUNT, PREFIX, PRELOAD, Way, user_way

pytestmark = pytest.mark.usefixtures("root_only")

ALICE, BOB = 54321, 54322
TEAM = 54400
"""A group that Alice may be in."""
MIB = 1 << 20

STEPS = """
import errno, os, sys
os.chdir(sys.argv[1])
def refused(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == errno.EDQUOT, error
        return
    raise AssertionError(f"not refused: {function} {arguments}")
descriptor = os.open("full", os.O_RDWR)
size = os.fstat(descriptor).st_size
refused(os.pwrite, descriptor, b"x" * 4097, size)
refused(os.pwrite, descriptor, b"x", 1 << 40)
refused(os.ftruncate, descriptor, 1 << 40)
refused(os.posix_fallocate, descriptor, 0, 1 << 30)
assert os.fstat(descriptor).st_size == size
appending = os.open("full", os.O_WRONLY | os.O_APPEND)
refused(os.write, appending, b"x" * 8192)
os.pwrite(descriptor, b"y" * 8192, 0)
assert os.pread(descriptor, 8192, 0) == b"y" * 8192
os.ftruncate(descriptor, size - 65536)
os.write(appending, b"z" * 65536)
assert os.fstat(descriptor).st_size == size
"""
"""Run by a user with a file `full` that takes all that the user may have, up to less than a page."""


STRIPED = 'import os, sys; os.setxattr(sys.argv[1], "weir.layout", b"-c 4 -S 256k")'
"""Has a directory lay its files on four targets."""


def own(way: Way) -> dict[str, int]:
    """The use and limits of the user of a way, as the user sees them by `weir quota show`."""
    script = 'import os, sys; sys.stdout.write(os.getxattr(sys.argv[1], "weir.quota").decode())'
    answer = way.run("/usr/bin/python3", "-c", script, way.folder.parent)
    user: dict[str, int] = json.loads(answer.stdout)["user"]
    return user


def set_quota(store: Store, *arguments: str) -> None:
    store.weir("quota", "set", *arguments)


@pytest.fixture
def open_store(store: Store) -> Store:
    """A store of one server, whose root directory every user may write."""
    store.up()
    Way(PREFIX, store, Path("/weir")).run("chmod", "1777", "/weir")
    return store


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", [MOUNT, PRELOAD, PREFIX])
def test_a_user_meets_the_limit_of_bytes_by_every_call(open_store: Store, name: str) -> None:
    set_quota(open_store, "--user", str(ALICE), "--bytes", "8MiB")
    alice = user_way(name, open_store, "mine", ALICE)
    alice.run("mkdir", alice.folder)
    dd = alice.run("dd", "if=/dev/zero", f"of={alice.folder}/full", "bs=1M", code=1)
    assert os.strerror(errno.EDQUOT) in dd.stderr
    assert int(alice.run("stat", "-c", "%s", alice.folder / "full").stdout) == 8 * MIB
    alice.run("/usr/bin/python3", "-c", STEPS, alice.folder)
    assert own(alice)["bytes"] == 8 * MIB
    bob = user_way(name, open_store, "theirs", BOB)
    bob.run("dd", "if=/dev/zero", f"of={bob.folder}", "bs=1M", "count=10")
    set_quota(open_store, "--user", str(ALICE), "--bytes", "none")
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}/full", "bs=1M", "count=10")


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", [MOUNT, PREFIX])
def test_a_striped_write_that_is_refused_gives_its_room_back(store: Store, name: str) -> None:
    """The bytes lie on the targets of several servers before the home refuses to publish them."""
    store.up(servers=2, targets=2)
    Way(PREFIX, store, Path("/weir")).run("chmod", "1777", "/weir")
    set_quota(store, "--every-user", "--bytes", "4MiB")
    alice = user_way(name, store, "mine", ALICE)
    alice.run("mkdir", alice.folder)
    alice.run("/usr/bin/python3", "-c", STRIPED, alice.folder)
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}/full", "bs=3M", code=1)
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}/full", "bs=3M", "oflag=append", "conv=notrunc", code=1)

    def used() -> int:
        return int(store.json("df", "--output", "json")["used_bytes"])

    # The kernel hands a mount one MiB after the other, and the last write of dd is cut short.
    kept = 4 * MIB if name == MOUNT else 3 * MIB
    assert own(alice)["bytes"] == kept
    wait_until("the refused bytes are gone", lambda: used() <= kept + 65536)


def test_owners_see_their_own_and_the_holder_of_the_key_sets_and_sees_all(open_store: Store) -> None:
    """A user with a grant reads its own quotas alone, and sets none; limits and sums outlive a restart."""
    alice = user_way(PREFIX, open_store, "mine", ALICE, TEAM)
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}", "bs=1M", "count=3")
    set_quota(open_store, "--group", str(TEAM), "--bytes", "2MiB", "--inodes", "100")
    set_quota(open_store, "--group", str(TEAM), "--bytes", "1MiB")
    set_quota(open_store, "--every-user", "--inodes", "3")
    # The file is too large for the team already, so it stays with its owner's own group.
    assert "Disk quota exceeded" in alice.run("chgrp", str(TEAM), alice.folder, code=1).stderr
    alice.run("chown", str(BOB), alice.folder, code=1)
    refused = open_store.weir(
        "quota", "set", "--every-user", "--bytes", "1TiB", uid=ALICE, environment=alice.environment, code=None
    )
    assert refused.returncode != 0 and "permission denied" in refused.stderr

    def lines() -> dict[tuple[str, int | None], dict[str, object]]:
        owners = open_store.json("quota", "show")["owners"]
        return {(line["kind"], line["id"]): line for line in owners}

    before = lines()
    assert before["user", ALICE]["bytes"] == 3 * MIB
    assert before["user", ALICE]["inodes"] == 1
    assert before["user", ALICE]["inodes_max"] == 3
    assert before["group", TEAM] | {"name": None} == {
        "kind": "group", "id": TEAM, "name": None, "bytes": 0, "inodes": 0, "unpublished_bytes": 0, "bytes_max": MIB,
        "inodes_max": 100, "is_set": True,
    }  # fmt: skip
    for _ in range(2):
        alice.run("touch", f"{alice.folder}-{len(lines())}-{os.urandom(4).hex()}")
    assert "Disk quota exceeded" in alice.run("mkdir", f"{alice.folder}-more", code=1).stderr
    set_quota(open_store, "--group", str(TEAM), "--unset")
    assert ("group", TEAM) not in lines()


def test_limits_that_a_server_did_not_hear_of_are_told_by_the_exit_code(store: Store) -> None:
    """As `weir policy set` does: a script went on as if the limits held everywhere."""
    store.up(servers=2, mount=False)
    store.weir("quota", "set", "--every-user", "--bytes", "4MiB")
    kill(store.server_pids()[1])
    silent = store.weir("quota", "set", "--every-user", "--bytes", "5MiB", code=1)
    assert "with these limits" in silent.stderr
    assert "5.0 MiB" in silent.stdout


@pytest.mark.usefixtures("fuse")
def test_limits_and_sums_outlive_a_restart_of_a_store_that_keeps_files(store: Store) -> None:
    store.up(servers=2, backend="dir")
    Way(PREFIX, store, Path("/weir")).run("chmod", "1777", "/weir")
    set_quota(store, "--every-user", "--bytes", "4MiB")
    alice = user_way(PREFIX, store, "mine", ALICE)
    for number in range(3):
        alice.run("mkdir", f"{alice.folder}-{number}")
        alice.run("dd", "if=/dev/zero", f"of={alice.folder}-{number}/file", "bs=1M", "count=1", "conv=fsync")
    before = store.json("quota", "show")
    for pid in store.server_pids().values():
        kill(pid)
    store.up(servers=2, backend="dir")
    assert store.json("quota", "show") == before

    def is_known() -> bool:
        return own(alice)["bytes"] == 3 * MIB

    wait_until("the servers have told each other", is_known)
    alice = user_way(PREFIX, store, "mine", ALICE)
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}-0/file", "bs=1M", "count=1", "oflag=append", "conv=notrunc")
    alice.run("dd", "if=/dev/zero", f"of={alice.folder}-1/more", "bs=1M", "count=1", code=1)
    shown = store.json("quota", "set", "--user", str(ALICE), "--inodes", "100")["owners"]
    assert (shown[0]["inodes"], shown[0]["inodes_max"]) == (7, 100), "the use on both servers"
