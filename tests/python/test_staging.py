"""Copies into a store and out of it: whole, verified, resumed after each break, and not to be led elsewhere."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import disks
import pytest
from blake3 import blake3
from seeds import seeded
from staged import described, is_sparse, killed_at, make_sparse, make_tree, start
from store import Store
from waits import PATIENCE_SECONDS
from weir.staging import __main__ as copying_process
from weir.staging import contents, metadata, mover, record, small_files
from weir.staging.copying import copy
from weir.staging.errors import StagingError
from weir.staging.large_files import PART_BYTES


@pytest.fixture
def no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sources be proof at once that were made just now."""
    monkeypatch.setattr(metadata, "_DOUBT_NS", 0)


def leftovers(folder: Path) -> list[str]:
    """Unfinished files and records."""
    return sorted(path.name for path in folder.rglob("*") if "weir-stage" in path.name)


def test_a_copy_is_equal_in_everything(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree", seeded(), large_bytes=PART_BYTES + 77)
    report = copy(tmp_path / "tree", tmp_path / "copy")
    assert described(tmp_path / "copy") == described(tmp_path / "tree")
    assert is_sparse(tmp_path / "copy/sparse")
    assert not is_sparse(tmp_path / "copy/zeros")
    assert leftovers(tmp_path) == []
    again = copy(tmp_path / "tree", tmp_path / "copy")
    assert (again.files, again.size_bytes) == (report.files, report.size_bytes)
    assert again.copied_files == 0
    assert described(tmp_path / "copy") == described(tmp_path / "tree")


def test_single_files_are_copied(tmp_path: Path) -> None:
    make_sparse(tmp_path / "large", 3 * PART_BYTES, {PART_BYTES - 3: b"across parts"})
    (tmp_path / "small").write_bytes(b"small")
    for name in ("large", "small"):
        assert copy(tmp_path / name, tmp_path / f"{name}-copy").copied_files == 1
        assert (tmp_path / f"{name}-copy").read_bytes() == (tmp_path / name).read_bytes()
    assert is_sparse(tmp_path / "large-copy")


def test_files_of_the_destination_are_replaced_or_stay(tmp_path: Path) -> None:
    for name, text in (("tree/new", "n"), ("tree/changed", "after"), ("copy/changed", "befor"), ("copy/own", "o")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    copy(tmp_path / "tree", tmp_path / "copy")
    found = {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()}
    assert found == {"new": "n", "changed": "after", "own": "o"}


def test_a_checksum_does_not_depend_on_holes(tmp_path: Path) -> None:
    """The place of a block counts too, so that exchanged blocks are noticed."""
    block = contents.BLOCK_BYTES
    data = {0: b"a" * block, 2 * block: b"b" * 100}
    make_sparse(tmp_path / "sparse", 4 * block + 5, data)
    (tmp_path / "dense").write_bytes((tmp_path / "sparse").read_bytes())
    make_sparse(tmp_path / "exchanged", 4 * block + 5, {block: b"a" * block, 2 * block: b"b" * 100})
    found = {}
    for path in tmp_path.iterdir():
        with path.open("rb") as file:
            scratch = contents.Scratch(threading.Event())
            found[path.name] = contents.checksum(
                file.fileno(), 0, 4 * block + 5, sparse=path.name != "dense", scratch=scratch
            )
    assert found["sparse"] == found["dense"] != found["exchanged"]
    first = blake3((0).to_bytes(8, "little") + b"a" * block)
    first.update((2 * block).to_bytes(8, "little") + b"b" * 100 + bytes(block - 100))
    assert found["dense"] == first.digest()


def test_a_copy_that_is_killed_again_and_again_goes_on(tmp_path: Path) -> None:
    dice = seeded()
    make_tree(tmp_path / "tree", dice, files=150, large_bytes=4 * PART_BYTES + 5)
    total = sum(path.stat().st_size for path in (tmp_path / "tree").rglob("*") if path.is_file())
    was_killed = 0
    for position in sorted(dice.randrange(total // 2) for _ in range(4)):
        was_killed += killed_at(start(tmp_path / "tree", tmp_path / "copy"), position)
    assert was_killed
    report = copy(tmp_path / "tree", tmp_path / "copy")
    assert report.files
    assert described(tmp_path / "copy") == described(tmp_path / "tree")
    assert leftovers(tmp_path) == []


def test_parts_of_a_large_file_are_not_copied_twice(tmp_path: Path, no_doubt: None) -> None:
    (tmp_path / "large").write_bytes(os.urandom(4 * PART_BYTES))
    parts = threading.Event()

    def stop(progress: object) -> None:
        if (tmp_path / ".copy.weir-stage").read_bytes().count(b'"checksum"') >= 2:
            parts.set()

    with pytest.raises(StagingError, match="was stopped") as caught:
        copy(tmp_path / "large", tmp_path / "copy", workers=1, progress=stop, stop=parts)
    assert "are left" in caught.value.message
    (unfinished,) = tmp_path.glob(".weir-stage-*")
    inode = unfinished.stat().st_ino
    written = (tmp_path / ".copy.weir-stage").read_bytes().count(b'"checksum"')
    report = copy(tmp_path / "large", tmp_path / "copy")
    assert (report.copied_files, report.copied_bytes) == (1, (4 - written) * PART_BYTES)
    assert (tmp_path / "copy").stat().st_ino == inode
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "large").read_bytes()


@pytest.mark.parametrize("change", ["content", "lost part", "garbage in the record"])
def test_a_break_hides_no_change(tmp_path: Path, change: str) -> None:
    """The source changed after the break, the machine lost written parts, or the record has wrong words in it."""
    source = tmp_path / "large"
    source.write_bytes(os.urandom(4 * PART_BYTES))
    assert killed_at(start(source, tmp_path / "copy"), PART_BYTES)
    written = tmp_path / ".copy.weir-stage"
    if change == "content":
        status = source.stat()
        with source.open("r+b") as file:
            file.write(b"changed")
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "lost part":
        (unfinished,) = tmp_path.glob(".weir-stage-*")
        with unfinished.open("r+b") as file:
            file.write(bytes(4096))
    else:
        text = written.read_bytes()
        written.write_bytes(text[: len(text) - 9] + b"\0" * 7)
    copy(source, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert leftovers(tmp_path) == []


def test_a_done_file_whose_source_changed_since_is_copied_again(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for name in ("one", "two"):
        (tmp_path / "tree" / name).write_text("before")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/two").mkdir()
    with pytest.raises(StagingError, match="two"):
        copy(tmp_path / "tree", tmp_path / "copy")
    assert (tmp_path / "copy/one").read_text() == "before"
    status = (tmp_path / "tree/one").stat()
    (tmp_path / "tree/one").write_text("after!")
    os.utime(tmp_path / "tree/one", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "copy/two").rmdir()
    copy(tmp_path / "tree", tmp_path / "copy")
    assert (tmp_path / "copy/one").read_text() == "after!"


def test_bytes_that_are_read_back_wrongly_are_never_reported_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that lies: each fsync is followed by a change of a byte behind the copy's back."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/small").write_bytes(b"small")
    (tmp_path / "tree/large").write_bytes(b"l" * (PART_BYTES + 1))

    def spoil(file: int) -> None:
        os.pwrite(file, b"?", 2)

    for module in ("small_files", "large_files"):
        monkeypatch.setattr(f"weir.staging.{module}.forget_cache", spoil)
    with pytest.raises(StagingError, match="read back wrongly"):
        copy(tmp_path / "tree", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []
    monkeypatch.undo()
    copy(tmp_path / "tree", tmp_path / "copy")
    assert described(tmp_path / "copy") == described(tmp_path / "tree")


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_full_disk_keeps_what_is_there(tmp_path: Path, root_only: None, kind: str) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(40):
        (tmp_path / f"tree/{number}").write_bytes(os.urandom(1 << 20))
    with disks.small(tmp_path, kind) as disk:
        with pytest.raises(StagingError, match=r"is full: \d+ of 40 files .* are left") as caught:
            copy(tmp_path / "tree", disk.path / "copy")
        assert caught.value.is_full
        kept = [path for path in (disk.path / "copy").iterdir() if path.name.isdecimal()]
        for path in kept:
            assert path.read_bytes() == (tmp_path / "tree" / path.name).read_bytes()
        assert "weir-stage" in "".join(leftovers(disk.path))
        for number in range(30):
            (tmp_path / f"tree/{number}").unlink()
            (disk.path / f"copy/{number}").unlink(missing_ok=True)
        copy(tmp_path / "tree", disk.path / "copy")
        assert described(disk.path / "copy") == described(tmp_path / "tree")
        assert leftovers(disk.path) == ["lost+found"] or leftovers(disk.path) == []


def test_a_source_that_changes_all_the_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    source = tmp_path / "tree/log"
    source.write_bytes(b"x" * 1000)
    original = contents.copy_range

    def meanwhile(*arguments: int, **options: object) -> bytes:
        found = original(*arguments, **options)  # type: ignore[arg-type]
        with source.open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(small_files, "copy_range", meanwhile)
    with pytest.raises(StagingError, match="log: it changes while it is copied"):
        copy(tmp_path / "tree", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_file_that_comes_in_the_meantime_is_copied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/one").write_bytes(b"1")
    original = contents.copy_range

    def meanwhile(*arguments: int, **options: object) -> bytes:
        (tmp_path / "tree/two").write_bytes(b"2")
        monkeypatch.setattr(small_files, "copy_range", original)
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(small_files, "copy_range", meanwhile)
    assert copy(tmp_path / "tree", tmp_path / "copy").files == 2
    assert described(tmp_path / "copy") == described(tmp_path / "tree")


@contextlib.contextmanager
def exchanging(place: Path, other: Path) -> Iterator[None]:
    """Another program that puts a link into the place of a folder and back, again and again."""
    over = threading.Event()
    aside = place.with_name("aside")

    def run() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                place.rename(aside)
                place.symlink_to(other)
                place.unlink()
                aside.rename(place)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if aside.exists() and not place.exists():
            aside.rename(place)


def test_nothing_is_written_outside_of_the_destination(tmp_path: Path) -> None:
    """A folder of the destination becomes a link, before the copy and while it goes on."""
    for number in range(200):
        path = tmp_path / f"tree/a/b/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"secret")
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/a").symlink_to(outside)
    with pytest.raises(StagingError, match="no folder has its place"):
        copy(tmp_path / "tree", tmp_path / "copy")
    (tmp_path / "copy/a").unlink()
    for _ in range(5):
        (tmp_path / "copy/a").mkdir(exist_ok=True)
        with exchanging(tmp_path / "copy/a", outside), contextlib.suppress(StagingError):
            copy(tmp_path / "tree", tmp_path / "copy")
    assert [path for path in outside.rglob("*") if path.is_file()] == []


def test_a_link_in_the_source_is_not_followed_in_a_race(tmp_path: Path) -> None:
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    for number in range(100):
        (tmp_path / f"tree/a/{number}").write_bytes(b"own")
        (tmp_path / f"secret/{number}").write_bytes(b"secret")
    for _ in range(5):
        with exchanging(tmp_path / "tree/a", tmp_path / "secret"), contextlib.suppress(StagingError):
            copy(tmp_path / "tree", tmp_path / "copy")
    copied = [path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file() and not path.is_symlink()]
    assert set(copied) == {b"own"}


def test_links_and_records_of_other_users_are_refused(tmp_path: Path, root_only: None) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "own").symlink_to("real")
    copy(tmp_path / "tree", tmp_path / "own/copy")
    (tmp_path / "foreign").symlink_to("real")
    os.lchown(tmp_path / "foreign", 4242, 4242)
    for place in ("foreign", "foreign/copy"):
        with pytest.raises(StagingError, match="another user's link"):
            copy(tmp_path / "tree", tmp_path / place)
    (tmp_path / ".copy.weir-stage").touch()
    os.chown(tmp_path / ".copy.weir-stage", 4242, 4242)
    with pytest.raises(StagingError, match="no record of this user"):
        copy(tmp_path / "tree", tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["copy"]


def test_owners_are_kept_and_rights_are_not_given_away(tmp_path: Path, root_only: None) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/program").write_bytes(b"#!")
    os.chown(tmp_path / "tree/program", 4242, 4242)
    (tmp_path / "tree/program").chmod(0o6755)
    copy(tmp_path / "tree", tmp_path / "copy")
    status = (tmp_path / "copy/program").stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (4242, 0o6755)
    taken = metadata._mode(status, keeps_owner=False)
    assert taken == 0o755
    (tmp_path / "tree/program").chmod(0o1777)
    assert metadata._mode((tmp_path / "tree/program").stat(), keeps_owner=False) == 0o755


def test_the_root_of_a_store_opens_no_destination(tmp_path: Path) -> None:
    """It has the mode 01777, and a folder of results once became writable for all."""
    (tmp_path / "tree/below").mkdir(parents=True)
    for name in ("below", "."):
        (tmp_path / "tree" / name).chmod(0o1777)
    (tmp_path / "private").mkdir()
    (tmp_path / "private").chmod(0o700)
    before = os.umask(0o027)
    try:
        for name in ("private", "new"):
            copy(tmp_path / "tree", tmp_path / name)
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o750
    assert (tmp_path / "new/below").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "tree").chmod(0o700)
    copy(tmp_path / "tree", tmp_path / "narrow")
    assert (tmp_path / "narrow").stat().st_mode & 0o7777 == 0o700


def test_a_new_destination_has_its_mode_after_a_break(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree").chmod(0o755)
    (tmp_path / "tree/file").write_bytes(b"x" * PART_BYTES)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StagingError, match="was stopped"):
        copy(tmp_path / "tree", tmp_path / "copy", stop=stop)
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == 0o700
    copy(tmp_path / "tree", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == 0o755


def test_a_copy_whose_caller_is_gone_stops(tmp_path: Path) -> None:
    """A copy that reads back writes nothing to its caller, and so learned nothing of the caller's end."""
    reader, writer = os.pipe()
    stop = threading.Event()
    watch = threading.Thread(target=copying_process._await_hangup, args=(writer, stop), daemon=True)
    watch.start()
    assert not stop.is_set()
    os.close(reader)
    watch.join(PATIENCE_SECONDS)
    assert stop.is_set()
    os.close(writer)


def test_a_copy_that_does_not_stop_is_killed_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "_STOP_SECONDS", 0.01)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    mover._end(child)
    assert child.wait(PATIENCE_SECONDS) == -signal.SIGKILL


def test_one_process_copies_to_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LOCK_SECONDS", 0.1)
    (tmp_path / "large").write_bytes(b"x" * PART_BYTES)
    failures: list[str] = []

    def second(progress: object) -> None:
        if not failures:
            with pytest.raises(StagingError) as caught:
                copy(tmp_path / "large", tmp_path / "copy")
            failures.append(caught.value.message)

    copy(tmp_path / "large", tmp_path / "copy", progress=second)
    assert "another process copies to the same place" in failures[0]


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        ("absent", "copy", "No such file"),
        ("tree", "tree/inside", "lie in each other"),
        ("tree", "absent/copy", "cannot be opened"),
        ("tree/file", "file/copy", "cannot be opened"),
    ],
)
def test_copies_that_cannot_be(tmp_path: Path, source: str, destination: str, words: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").touch()
    (tmp_path / "file").touch()
    with pytest.raises(StagingError, match=words) as caught:
        copy(tmp_path / source, tmp_path / destination)
    assert caught.value.hint
    assert caught.value.is_missing == (source == "absent")


def test_unreadable_files_do_not_end_the_copy_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    for name in ("closed", "open"):
        (tmp_path / "tree" / name).write_text(name)
    original = small_files.open_source

    def refuse(folder: int, name: bytes) -> int:
        if name == b"closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return original(folder, name)

    monkeypatch.setattr(small_files, "open_source", refuse)
    with pytest.raises(StagingError, match="closed: Permission denied"):
        copy(tmp_path / "tree", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["open"]


@pytest.mark.parametrize("way", ["mount", "mount and preload", "prefix"])
def test_a_store_by_each_way(tmp_path: Path, shared_store: Store, fuse: None, way: str) -> None:
    """Into the store, and out of it again, with a break on each way."""
    from weir.store import launch
    from weir.store.home import Home

    dice = seeded()
    make_tree(tmp_path / "tree", dice, large_bytes=2 * PART_BYTES + 3)
    home = Home(shared_store.home)
    place = Path("/weir") if way == "prefix" else shared_store.mount
    name = f"staged-{way.replace(' ', '-')}"
    variables = launch.environment(
        shared_store.variables(), home.cluster, place, is_mounted=way != "prefix", is_preloaded=way != "mount"
    )
    variables["WEIR_CREDENTIAL"] = str(home.credentials / f"uid-{os.getuid()}.json")
    for source, target in ((tmp_path / "tree", place / name), (place / name, tmp_path / "back")):
        killed_at(start(source, target, variables), dice.randrange(PART_BYTES))
        child = start(source, target, variables)
        told = child.communicate()[0]
        assert child.returncode == 0, told
    expected = described(tmp_path / "tree")
    assert described(tmp_path / "back") == expected
    assert described(shared_store.mount / name) == expected
    assert is_sparse(tmp_path / "back/sparse")
    assert leftovers(shared_store.mount) == leftovers(tmp_path) == []


@pytest.mark.parametrize("kind", ["a file onto a folder", "a folder onto a file"])
def test_a_copy_that_cannot_be_leaves_the_place_to_others(tmp_path: Path, kind: str) -> None:
    """Its record stayed, and refused every later copy of another source as one that lies unfinished."""
    (tmp_path / "file").write_text("file")
    for folder in ("folder", "place"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in").write_text(folder)
    if kind == "a file onto a folder":
        source, destination, right = tmp_path / "file", tmp_path / "place", tmp_path / "folder"
    else:
        source, destination, right = tmp_path / "folder", tmp_path / "file", tmp_path / "place/in"
    with pytest.raises(StagingError, match=r"is (a|no) folder, and the source is") as caught:
        copy(source, destination)
    assert caught.value.hint
    assert leftovers(tmp_path) == []
    copy(right, destination)
    assert (destination / "in" if destination.is_dir() else destination).read_text() in ("folder", "place")


def test_a_copy_of_nothing_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").write_text("closed")

    def refuse(folder: int, name: bytes) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(small_files, "open_source", refuse)
    with pytest.raises(StagingError, match="Permission denied"):
        copy(tmp_path / "closed", tmp_path / "copy")
    assert leftovers(tmp_path) == []


def test_what_a_copy_left_behind_is_named_and_copied_nowhere(tmp_path: Path) -> None:
    """With its record removed, an unfinished file counted as one of the user's, in the next copies too."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/large").write_bytes(os.urandom(4 * PART_BYTES))
    assert killed_at(start(tmp_path / "tree", tmp_path / "copy"), PART_BYTES)
    (unfinished,) = (tmp_path / "copy").glob(".weir-stage-*")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("other")
    with pytest.raises(StagingError, match="an unfinished copy of") as caught:
        copy(tmp_path / "other", tmp_path / "copy")
    assert ".copy.weir-stage" in caught.value.hint
    assert unfinished.name.rpartition("-")[0].rpartition("-")[0] in caught.value.hint
    (tmp_path / ".copy.weir-stage").unlink()
    (tmp_path / "copy/own").write_text("own")
    report = copy(tmp_path / "other", tmp_path / "copy")
    assert (report.files, report.further, report.left_by_copies) == (1, 1, 1)
    (tmp_path / "copy/.x.weir-stage").touch()
    report = copy(tmp_path / "copy", tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["file", "own"]
    assert (report.files, report.further, report.left_by_copies) == (2, 0, 0)
    assert sorted(report.left_out) == sorted(f"{name} (left by another copy)" for name in leftovers(tmp_path / "copy"))
