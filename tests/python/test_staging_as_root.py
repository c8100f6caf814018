"""Copies by root to folders of a user who renames other users' files into the place of the copied ones."""

import contextlib
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waits import wait_until
from weir.staging import metadata
from weir.staging.copying import copy
from weir.staging.errors import StagingError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
USER, OTHER = 4242, 4343
"""The user who owns the tree and the destination, and the one whose files lie there, too."""
NAMES = 400


def made(path: Path, kind: str) -> None:
    if kind == "file":
        path.write_text("secret")
    elif kind == "link":
        path.symlink_to("secret")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "diary").write_text("secret")
        os.lchown(path / "diary", OTHER, OTHER)
    if kind != "link":
        path.chmod(0o700)
    os.lchown(path, OTHER, OTHER)


def owner(path: Path) -> int:
    return path.lstat().st_uid


@pytest.mark.parametrize("present", ["file", "link", "pipe", "folder"])
@pytest.mark.parametrize("wanted", ["link", "pipe"])
def test_a_name_gives_nothing_away(tmp_path: Path, wanted: str, present: str) -> None:
    """The owner was changed by the name of a link that the copy had made a moment before."""
    made(tmp_path / "source", wanted)
    os.lchown(tmp_path / "source", USER, USER)
    made(tmp_path / "there", present)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="something else has its name"):
            metadata.apply_to_link(folder, b"there", (tmp_path / "source").lstat())
        assert owner(tmp_path / "there") == OTHER
        own = tmp_path / "own"
        own.symlink_to("anywhere") if wanted == "link" else os.mkfifo(own, 0o600)
        metadata.apply_to_link(folder, b"own", (tmp_path / "source").lstat())
        assert owner(own) == USER and own.lstat().st_mtime_ns == (tmp_path / "source").lstat().st_mtime_ns
    finally:
        os.close(folder)


def test_files_and_folders_of_third_users_stay_theirs(tmp_path: Path) -> None:
    """An equal file, and any folder of the name, got the owner of the source."""
    for name in ("tree", "tree/below", "copy"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, USER, USER)
    (tmp_path / "tree/equal").write_text("secret")
    os.chown(tmp_path / "tree/equal", USER, USER)
    made(tmp_path / "copy/equal", "file")
    made(tmp_path / "copy/below", "folder")
    kept = os.open(tmp_path / "copy/equal", os.O_RDONLY)
    copy(tmp_path / "tree", tmp_path / "copy")
    assert os.fstat(kept).st_uid == OTHER and owner(tmp_path / "copy/equal") == USER
    os.close(kept)
    assert owner(tmp_path / "copy/below") == OTHER and (tmp_path / "copy/below").stat().st_mode & 0o777 == 0o700


def _exchange(folder: int, counted: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """Move the other user's file and folder over each name of the copy that shows up, and back."""
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    while True:
        for name in os.listdir(folder):
            if not name.startswith("."):
                continue
            for victim in ("secret", "secrets"):
                with contextlib.suppress(OSError):
                    os.rename(name, "aside", src_dir_fd=folder, dst_dir_fd=folder)
                    os.rename(victim, name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.rename(name, victim, src_dir_fd=folder, dst_dir_fd=folder)
                    counted.value += 1
                with contextlib.suppress(OSError):
                    os.rename("aside", name, src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def exchanging(folder: Path) -> Iterator[Callable[[], int]]:
    opened = os.open(folder, os.O_RDONLY)
    counted = multiprocessing.Value("l", 0)
    process = multiprocessing.get_context("fork").Process(target=_exchange, args=(opened, counted), daemon=True)
    process.start()
    try:
        yield lambda: int(counted.value)
    finally:
        process.kill()
        process.join()
        os.close(opened)


@pytest.mark.slow
def test_a_user_who_renames_while_root_copies_gets_nothing_of_others(tmp_path: Path) -> None:
    """What the copy made may be lost to the one who owns the folder; nothing of a third user changes its owner."""
    for name in ("tree", "copy"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, USER, USER)
    for number in range(NAMES):
        path = tmp_path / f"tree/{number}"
        path.symlink_to("anywhere") if number % 2 else os.mkfifo(path)
        os.lchown(path, USER, USER)
    made(tmp_path / "copy/secret", "file")
    made(tmp_path / "copy/secrets", "folder")
    # Open, so that their inodes are nobody else's, also where the owner of the folder lets them be replaced.
    held = [os.open(tmp_path / "copy" / name, os.O_PATH) for name in ("secret", "secrets")]
    victims = [os.fstat(each).st_ino for each in held]
    with exchanging(tmp_path / "copy") as count:

        def copied() -> bool:
            for path in (tmp_path / "copy").iterdir():
                if path.lstat().st_ino not in victims and not stat.S_ISDIR(path.lstat().st_mode):
                    with contextlib.suppress(OSError):
                        path.unlink()
            with contextlib.suppress(StagingError, FileNotFoundError):
                copy(tmp_path / "tree", tmp_path / "copy")
            return count() >= 20

        wait_until("names were exchanged while root copied", copied)
    for each in held:
        found = os.fstat(each)
        assert (found.st_uid, found.st_mode & 0o777) == (OTHER, 0o700)
        os.close(each)
