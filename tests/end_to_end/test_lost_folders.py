"""A folder of a store that is gone, another's, older or doubled: refused at a start, and EIO while the store is up."""

import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import disks
import lost_folders
import pytest
from lost_folders import moved_away
from store import Store, fresh
from waits import wait_until
from weir import native


@pytest.fixture(scope="module")
def kept() -> Iterator[Store]:
    """A store of one server that is down, with files on two targets outside of its home; every damage is undone."""
    with fresh() as store:
        lost_folders.store_on(store, store.root / "one", store.root / "other")
        store.weir("down")
        yield store


@contextmanager
def emptied(path: Path) -> Iterator[None]:
    """An empty folder in place of one, as where a disk is not mounted."""
    with moved_away(path):
        path.mkdir(mode=0o700)
        yield


@contextmanager
def replaced(path: Path, other: Path) -> Iterator[None]:
    """A copy of another folder in place of one."""
    with moved_away(path):
        shutil.copytree(other, path)
        yield


@contextmanager
def of_another_store(kept: Store) -> Iterator[None]:
    other = Store(kept.root / "second")
    other.root.mkdir()
    lost_folders.store_on(other, other.root / "one", other.root / "other")
    other.weir("down")
    with replaced(kept.root / "one", other.root / "one"):
        yield
    other.weir("down", "--discard", "--yes")


@contextmanager
def older(kept: Store, path: Path) -> Iterator[None]:
    copy = kept.root / "copy"
    shutil.copytree(path, copy)
    kept.weir("up", "--no-mount")
    kept.weir("down")
    with replaced(path, copy):
        yield
    shutil.rmtree(copy)


JOURNAL = "home/servers/0/journal"
DAMAGES: dict[str, tuple[Callable[[Store], AbstractContextManager[object]], str]] = {
    "target unmounted": (lambda kept: emptied(kept.root / "one"), "target 0.0 is refused"),
    "target gone": (lambda kept: moved_away(kept.root / "other"), "target 0.1 is refused"),
    "target of another store": (of_another_store, "another store"),
    "target older": (lambda kept: older(kept, kept.root / "other"), "an older copy"),
    "target doubled": (lambda kept: replaced(kept.root / "other", kept.root / "one"), "target 0.0, or a copy of it"),
    "journal gone": (lambda kept: moved_away(kept.root / JOURNAL), "--accept-journal-loss"),
    "journal emptied": (lambda kept: emptied(kept.root / JOURNAL), "--accept-journal-loss"),
    "journal older": (lambda kept: older(kept, kept.root / JOURNAL), "--accept-journal-loss"),
    "server's folder gone": (lambda kept: moved_away(kept.root / "home/servers/0"), "--accept-journal-loss"),
    "stamps of the home gone": (
        lambda kept: moved_away(kept.root / "home/identities"),
        "the home has no stamp of this server",
    ),
    "home gone": (lambda kept: moved_away(kept.root / "home"), "target 0.0 is refused"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_store_with_a_lost_folder_is_refused(kept: Store, damage: str) -> None:
    lose, words = DAMAGES[damage]
    file = kept.root / "cluster.toml"
    with lose(kept):
        targets = (kept.root / "one", kept.root / "other")
        before = {path: entries(path) for path in targets}
        for command in (("up", file, "--no-mount"), ("up", file, "--no-mount", "--check")):
            refused = kept.weir(*command, code=1)
            assert words in refused.stderr, (command, refused.stderr)
            assert "hint: " in refused.stderr, refused.stderr
        kept.weir("status", code=1)
        if damage != "home gone":
            program = [str(native.server_program()), "--config", str(kept.home / "cluster.toml"), "--server", "0"]
            started = subprocess.run(
                [*program, "--home", str(kept.home)], capture_output=True, text=True, timeout=60, check=False
            )
            assert started.returncode == 1, started.stderr
            assert "is refused" in started.stderr
        assert {path: entries(path) for path in targets} == before, "nothing is made in place of a disk"


def test_a_store_whose_folders_are_back_is_whole(kept: Store) -> None:
    kept.weir("up", "--no-mount")
    assert lost_folders.zero_bytes(kept) == 0
    counted = kept.weir(*lost_folders.PREFIX, "sh", "-c", "cat /weir/file-* | wc -c").stdout
    assert int(counted) == lost_folders.FILES * lost_folders.FILE_BYTES


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_a_disk_that_is_not_mounted_is_refused(store: Store, root_only: None) -> None:
    """`weir up` and `weir status` once ended with 0, and half of each file was zeros, without an error."""
    outcome = lost_folders.unmounted_disk(store)
    assert outcome.is_refused
    assert outcome.zero_bytes == 0
    assert "mount its disk" in outcome.words


def test_a_journal_that_is_gone_is_refused(store: Store) -> None:
    """An empty store once came up in its place."""
    outcome = lost_folders.lost_journal(store)
    assert outcome.is_refused
    accepted = store.weir("up", store.root / "cluster.toml", "--no-mount", "--accept-journal-loss")
    assert "accepted the loss of" in accepted.stderr
    store.weir("down")
    store.weir("up", store.root / "cluster.toml", "--no-mount")


@contextmanager
def unmounted(path: Path) -> Iterator[None]:
    """Nothing is mounted at a path, though files there are open; the same file system comes back."""
    kept = path.with_name("kept")
    kept.mkdir()
    disks.bind(path, kept)
    disks.unmount(path, "--lazy")
    yield
    disks.bind(kept, path)
    disks.unmount(kept, "--lazy")


VANISHINGS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "renamed": moved_away,
    "replaced": emptied,
    "mounted over": disks.over,
    "unmounted": unmounted,
}


@pytest.mark.parametrize("vanishing", VANISHINGS)
def test_a_target_that_vanishes_answers_eio_until_it_is_back(store: Store, vanishing: str, root_only: None) -> None:
    with disks.small(store.root, "tmpfs") as disk:
        folder = disk.path if vanishing == "unmounted" else disk.path / "target"
        lost_folders.store_on(store, folder, store.root / "other")

        def read() -> subprocess.CompletedProcess[str]:
            return store.weir(*lost_folders.PREFIX, "cat", "/weir/file-1", code=None)

        whole = read().stdout
        assert len(whole) == lost_folders.FILE_BYTES
        lose = VANISHINGS[vanishing]
        with ExitStack() as stack:
            stack.enter_context(lose(folder))
            wait_until("the target has failed", lambda: store.weir("status", code=None).returncode == 1)
            answer = read()
            assert answer.returncode != 0
            assert "Input/output error" in answer.stderr
            assert whole.startswith(answer.stdout), "not one byte is zero"
            [server] = store.json("status", code=1)["servers"]
            troubles = {target["target"]: target["trouble"] for target in server["targets"]}
            assert str(folder) in troubles["0.0"]
            assert troubles["0.1"] is None
            assert "[target-absent]" in store.weir("targets", code=1).stderr
            assert 'weir_target_failed{target="0.0",backend="dir"} 1' in metrics(server["metrics"])
            assert f"target {folder}" in (store.home / "servers/0/log").read_text()
            # New files go to the target that is left.
            store.weir(*lost_folders.PREFIX, "sh", "-c", "echo new > /weir/new; cat /weir/new")
            assert not folder.exists() or not any(folder.iterdir()), "nothing is made in its place"
        wait_until("the target is back", lambda: store.weir("status", code=None).returncode == 0)
        assert read().stdout == whole


def test_a_target_whose_files_are_removed_reads_no_zeros(store: Store) -> None:
    lost_folders.store_on(store, store.root / "one", store.root / "other")
    for path in (store.root / "one").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    assert lost_folders.zero_bytes(store) == 0
    wait_until("the target has failed", lambda: store.weir("status", code=None).returncode == 1)


def test_a_journal_that_vanishes_takes_no_changes_until_it_is_back(store: Store) -> None:
    lost_folders.store_on(store, store.root / "one", store.root / "other")
    with moved_away(store.home / "servers/0/journal"):
        wait_until("the journal has stopped", lambda: store.weir("status", code=None).returncode == 1)
        refused = store.weir(*lost_folders.PREFIX, "mkdir", "/weir/made", code=1)
        assert "Read-only file system" in refused.stderr
        assert "takes no changes" in store.weir("status", code=1).stderr
        assert not (store.home / "servers/0/journal").exists()
    wait_until("the journal works", lambda: store.weir("status", code=None).returncode == 0)
    store.weir(*lost_folders.PREFIX, "mkdir", "/weir/made")
    store.weir("down")
    store.weir("up", "--no-mount")
    assert "made" in store.weir(*lost_folders.PREFIX, "ls", "/weir").stdout


def metrics(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())
