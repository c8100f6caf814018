"""A backup of the metadata is taken while programs work, and a store whose journals are lost goes on from it."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from store import Store


@pytest.fixture
def durable(store: Store) -> Path:
    """The folder of a store of two servers, whose targets lie outside of its home; it is up."""
    folder = store.root / "site"
    folder.mkdir()
    targets = [f'[[server.target]]\nbackend = "dir"\npath = "target-{number}"\n' for number in range(4)]
    servers = "".join(f"[[server]]\n{targets[2 * number]}{targets[2 * number + 1]}" for number in range(2))
    (folder / "cluster.toml").write_text(f"version = 1\n{servers}")
    store.up(folder / "cluster.toml")
    return folder


def write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def test_a_store_whose_journals_are_lost_goes_on_from_its_backup(store: Store, durable: Path) -> None:
    for number in range(8):
        folder = store.mount / f"folder-{number}"
        folder.mkdir()
        write(folder / "before", f"words {number}")
    store.weir("policy", "set", "job-fair")

    over = threading.Event()
    made: list[int] = []

    def work() -> None:
        while not over.is_set():
            write(store.mount / f"folder-{len(made) % 8}" / f"meanwhile-{len(made)}", "x")
            made.append(len(made))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        certain = len(made)
        taken = store.json("backup", store.root / "backup.tar")
    finally:
        over.set()
        worker.join()
    assert taken["servers"] == [0, 1]
    assert (store.root / "backup.tar").stat().st_mode & 0o777 == 0o600
    write(store.mount / "folder-0" / "after", "lost")

    refused = store.weir("restore", store.root / "backup.tar", "--yes", code=1)
    assert "is up" in refused.stderr
    store.weir("down")
    shutil.rmtree(store.home)
    store.weir("restore", store.root / "backup.tar")
    store.weir("up")
    for number in range(8):
        assert (store.mount / f"folder-{number}" / "before").read_text() == f"words {number}"
    kept = sum(path.name.startswith("meanwhile") for path in store.mount.glob("*/*"))
    assert certain <= kept <= len(made)
    assert not (store.mount / "folder-0" / "after").exists()
    assert store.json("policy", "show")["policy"] == "job-fair"
    write(store.mount / "folder-0" / "new", "goes on")
    store.weir("down")
    store.weir("up")
    assert (store.mount / "folder-0" / "new").read_text() == "goes on"


def test_replaced_journals_are_kept_and_asked_for(store: Store, durable: Path) -> None:
    write(store.mount / "one", "1")
    store.weir("backup", store.root / "backup.tar")
    write(store.mount / "two", "2")
    store.weir("down")
    asked = store.weir("restore", store.root / "backup.tar", code=1)
    assert "add --yes" in asked.stderr
    store.weir("restore", store.root / "backup.tar", "--yes")
    store.weir("up")
    assert [path.name for path in store.mount.iterdir()] == ["one"]
    assert len(list((store.home / "servers" / "0").glob("journal.replaced-*"))) == 1


def test_what_cannot_be_backed_up_or_restored_changes_nothing(store: Store, durable: Path) -> None:
    file, older = store.root / "backup.tar", store.root / "older.tar"
    store.weir("backup", older)
    store.weir("target", "add", "0", "--backend", "dir")
    store.weir("backup", file)
    assert "is there already" in store.weir("backup", file, code=1).stderr
    store.weir("down")
    before = sorted(path for path in store.home.rglob("*"))

    assert "has changed since the backup" in store.weir("restore", older, "--yes", code=1).stderr
    whole = file.read_bytes()
    for place in (whole.index(b"sha256") + 20, whole.index(b"WEIRLOG") + 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "is no whole backup" in store.weir("restore", file, "--yes", code=1).stderr
    file.write_bytes(whole[: len(whole) // 2])
    assert "is no whole backup" in store.weir("restore", file, "--yes", code=1).stderr
    file.write_bytes(whole)
    (store.home / "site.key").write_text("07" * 32 + "\n")
    assert "another store" in store.weir("restore", file, "--yes", code=1).stderr
    assert sorted(path for path in store.home.rglob("*")) == before

    store.weir("down", "--discard", "--yes")
    store.weir("up", "--no-mount")
    assert "has a journal" in store.weir("backup", store.root / "memory.tar", code=1).stderr
    assert not (store.root / "memory.tar").exists()


def test_what_a_restore_of_one_server_cut_off_is_told_once(store: Store, durable: Path) -> None:
    """As after a restore on one host of several: the others went on meanwhile."""
    store.weir("down")
    journals = {number: store.home / f"servers/{number}/journal" for number in (0, 1)}
    for restored, told, words in ((0, 1, "inodes without a name are left"), (1, 0, "names lead to nothing")):
        other = 1 - restored
        aside = store.root / f"aside-{other}"
        journals[other].rename(aside)
        backup = store.root / f"backup-{restored}.tar"
        assert store.json("backup", backup)["servers"] == [restored]
        aside.rename(journals[other])
        store.weir("up")
        # New directories of the root have their homes on both servers.
        made = [store.mount / f"since-{restored}-{number}" for number in range(12)]
        for path in made:
            path.mkdir()
            write(path / "file", "words")
        homes = {path.name: path.stat().st_ino >> 48 for path in made}
        assert set(homes.values()) == {0, 1}
        store.weir("down")
        store.weir("restore", backup, "--yes")
        up = store.weir("up")
        lines = [line for line in up.stderr.splitlines() if words in line]
        assert len(lines) == 1 and f"at server {told}:" in lines[0], up.stderr
        count = list(homes.values()).count(1)
        assert f", {count} " in lines[0], (up.stderr, homes)
        store.weir("down")
        assert words not in store.weir("up").stderr
        # Objects of files that the restored server does not know are left, which are no matter of names.
        store.weir("fsck", "--repair", code=None)
        store.weir("down")
