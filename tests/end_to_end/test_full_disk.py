"""Commands where the file system of the home is full: a store comes up again, and one that cannot leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, small
from store import Store, kept_for, kill

pytestmark = pytest.mark.usefixtures("root_only")

BLOCK = 4096
BLOCKS_MAX = 40
"""More than a store of one server in memory needs of a file system."""


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    with small(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def stored(disk: Disk) -> Iterator[Store]:
    """A store whose home is on the disk."""
    with kept_for(disk.path) as store:
        yield store


def processes_of(home: Path) -> list[str]:
    """The programs that were started with this home."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(home) in words:
                found.append(words.replace("\0", " "))
    return found


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed"])
def test_a_store_on_a_full_disk_comes_up(disk: Disk, stored: Store, stopped: bool) -> None:
    """Its servers have started on a full disk for long, but `weir up` had no room for what it writes."""
    stored.weir("up", "--backend", "dir", "--targets", "1", "--no-mount")
    stored.weir("run", "--prefix", "/weir", "--", "sh", "-c", "echo words >/weir/file && echo more >/weir/other")
    for _ in range(3):
        if stopped:
            stored.weir("down")
        else:
            for pid in stored.server_pids().values():
                kill(pid)
        disk.fill()
        stored.weir("up", "--no-mount")
        disk.fill()
        words = stored.weir("run", "--prefix", "/weir", "--", "cat", "/weir/file").stdout
        assert words == "words\n"
        assert "is full [journal-full]" in stored.weir("status", code=1).stderr
    # What brings room is possible.
    stored.weir("run", "--prefix", "/weir", "--", "rm", "/weir/other")
    disk.free()
    stored.weir("down")
    stored.weir("up", "--no-mount")
    assert stored.weir("run", "--prefix", "/weir", "--", "ls", "/weir").stdout == "file\n"
    assert not stored.weir("status").stderr


@pytest.mark.parametrize("disk", ["tmpfs"], indirect=True)
def test_a_store_that_finds_too_little_room_leaves_nothing_half_started(disk: Disk, stored: Store) -> None:
    """Where a server's record found no room there was a traceback; where cluster.json found none, the server went on."""
    outcomes = []
    for blocks in range(BLOCKS_MAX):
        disk.fill(blocks * BLOCK)
        answer = stored.weir("up", "--backend", "ram", "--targets", "1", "--capacity", "1MiB", "--no-mount", code=None)
        outcomes.append(answer.returncode)
        if answer.returncode == 0:
            break
        assert answer.returncode == 1, answer.stderr
        message, hint = answer.stderr.splitlines()
        assert message.startswith("error: "), answer.stderr
        assert hint.startswith("hint: "), answer.stderr
        assert str(disk.path) in answer.stderr
        assert "full" in hint or "No space left" in message, answer.stderr
        assert not (stored.home / "cluster.json").exists()
        assert not processes_of(stored.home)
        disk.free()
        assert stored.weir("down", "--discard", "--yes", code=None).returncode in (0, 1)
    assert outcomes[-1] == 0, "with all this room it comes up"
    assert len(outcomes) > 5, "the file system was full at several of its steps"
    assert stored.weir("status").returncode == 0
