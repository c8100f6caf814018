"""`weir stage` by hand: paths of the store, rights of users, and signals."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from seeds import seeded
from staged import described, make_tree
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until
from weir.staging.large_files import PART_BYTES


def test_a_tree_goes_in_and_out(shared_store: Store, fuse: None, tmp_path: Path) -> None:
    make_tree(tmp_path / "tree", seeded(), large_bytes=PART_BYTES + 1)
    told = shared_store.json("stage", "in", tmp_path / "tree", "by-hand")
    assert told["files"] == told["copied_files"] > 60
    assert described(shared_store.mount / "by-hand") == described(tmp_path / "tree")
    shared_store.weir("stage", "out", shared_store.mount / "by-hand", tmp_path / "back")
    assert described(tmp_path / "back") == described(tmp_path / "tree")
    again = shared_store.json("stage", "out", "by-hand", tmp_path / "back", "--workers", "2")
    assert again["copied_files"] == 0


def test_a_store_without_a_mount(store: Store, tmp_path: Path) -> None:
    store.up(mount=False)
    make_tree(tmp_path / "tree", seeded(), files=12)
    store.weir("stage", "in", tmp_path / "tree", "tree")
    store.weir("stage", "out", "tree", tmp_path / "back")
    assert described(tmp_path / "back") == described(tmp_path / "tree")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in", "/etc/hostname", "/tmp/elsewhere"), "is outside of the store"),
        (("in", "/etc/hostname", "../elsewhere"), "leaves the store"),
        (("in", "/etc/absent", "copy"), "No such file"),
        (("in", "/etc/hostname", "absent/copy"), "cannot be opened"),
        (("out", "absent", "/tmp/copy"), "No such file"),
        (("out", "/etc", "/tmp/copy"), "is outside of the store"),
    ],
)
def test_paths_that_cannot_be(shared_store: Store, fuse: None, arguments: tuple[str, ...], words: str) -> None:
    answer = shared_store.weir("stage", *arguments, code=1)
    assert words in answer.stderr
    assert "hint:" in answer.stderr


def test_a_user_moves_what_the_user_may(shared_store: Store, user_fuse: None, tmp_path: Path) -> None:
    """By a grant, as in a job's script: the copy has this user's rights in the store, and outside of it."""
    variables = shared_store.grant(4242)
    own = Path(os.path.realpath(shared_store.root)) / "own"
    own.mkdir(exist_ok=True)
    (own / "data").write_bytes(b"mine")
    for path in (own / "data", own):
        os.chown(path, 4242, 4242)
    place = shared_store.mount / "of-4242"
    place.mkdir(mode=0o700)
    os.chown(place, 4242, 4242)
    shared_store.weir("stage", "in", own / "data", "of-4242/data", uid=4242, environment=variables)
    assert (place / "data").read_bytes() == b"mine"
    assert (place / "data").stat().st_uid == 4242
    (shared_store.mount / "of-root").mkdir(mode=0o700)
    (shared_store.mount / "of-root/secret").write_bytes(b"secret")
    for arguments in (("in", own / "data", "of-root/data"), ("out", "of-root", own / "stolen")):
        answer = shared_store.weir("stage", *arguments, uid=4242, environment=variables, code=1)
        assert "Permission denied" in answer.stderr
    assert [path.name for path in (shared_store.mount / "of-root").iterdir()] == ["secret"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_copy_that_goes_on_later(
    shared_store: Store, fuse: None, tmp_path: Path, number: signal.Signals
) -> None:
    source, place = tmp_path / "large", shared_store.mount / f"stopped-{number}"
    source.write_bytes(os.urandom(200 << 20))
    command = [*program(), "stage", "in", str(source), place.name, "--workers", "1"]
    child = subprocess.Popen(
        command, env=shared_store.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    record = place.with_name(f".{place.name}.weir-stage")
    wait_until("a part is written", lambda: child.poll() is not None or b"checksum" in read(record))
    child.send_signal(number)
    _, words = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode in (0, 128 + number), words
    if child.returncode:
        assert "was stopped" in words
        assert "are left" in words
        assert not place.exists()
    told = json.loads(shared_store.weir("stage", "in", source, place.name, "--output", "json").stdout)
    assert told["files"] == 1
    assert place.read_bytes() == source.read_bytes()
    assert not record.exists()
    place.unlink()


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_a_store_that_is_full_keeps_what_is_there(store: Store, tmp_path: Path) -> None:
    store.up(mount=False, capacity="8MiB", targets=1)
    (tmp_path / "tree").mkdir()
    for number in range(20):
        (tmp_path / f"tree/{number}").write_bytes(os.urandom(1 << 20))
    answer = store.weir("stage", "in", tmp_path / "tree", "tree", code=1)
    assert "is full" in answer.stderr
    assert "of 20 files" in answer.stderr
    assert "are left" in answer.stderr
    for number in range(4, 20):
        (tmp_path / f"tree/{number}").unlink()
    kept = store.weir("run", "--prefix", "/weir", "--", "ls", "/weir/tree").stdout.split()
    doomed = [f"/weir/tree/{name}" for name in kept if int(name) > 3]
    if doomed:
        store.weir("run", "--prefix", "/weir", "--", "rm", *doomed)
    store.weir("stage", "in", tmp_path / "tree", "tree")
    store.weir("stage", "out", "tree", tmp_path / "back")
    assert described(tmp_path / "back") == described(tmp_path / "tree")
