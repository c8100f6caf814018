"""The files of a store in a Python process: as by every other way, from threads, forks and other processes."""

import errno
import io
import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import weir
from client_workers import read_on
from hypothesis import given, settings
from hypothesis import strategies as st
from store import Store, kill
from waits import PATIENCE_SECONDS
from weir.store import SettingsError, StoreError
from weir.store.access import servers_at
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.client import FileSystem

MIB = 1 << 20
RANDOM = os.urandom(3 * MIB)


@pytest.fixture
def files(shared_store: Store, request: pytest.FixtureRequest) -> Iterator["FileSystem"]:
    with weir.store.connect(shared_store.home) as files:
        yield files


@pytest.fixture
def folder(files: "FileSystem", request: pytest.FixtureRequest) -> Iterator[str]:
    name = "/" + re.sub(r"\W+", "-", request.node.name)
    files.mkdir(name)
    yield name
    files.remove_tree(name)


def in_run(store: Store, *words: str, code: int = 0) -> str:
    """The output of a program of `weir run`, which sees the store below /weir."""
    return store.weir("run", "--prefix", "/weir", "--", *words, code=code).stdout


def test_bytes_are_those_of_other_programs(shared_store: Store, files: "FileSystem", folder: str) -> None:
    files.write_bytes(f"{folder}/ours", b"words")
    in_run(
        shared_store, "sh", "-c", f"cat /weir{folder}/ours >/weir{folder}/theirs; printf more >>/weir{folder}/theirs"
    )
    assert files.read_bytes(f"{folder}/theirs") == b"wordsmore"
    assert files.read_bytes(f"{folder}/theirs", 2, -4) == b"rds"
    assert files.read_bytes(f"{folder}/theirs", -4) == b"more"
    assert files.read_bytes(f"{folder}/theirs", 100) == b""
    code = f"import os; s = os.stat('/weir{folder}/theirs'); print([s.st_mode, s.st_ino, s.st_mtime_ns])"
    seen = json.loads(in_run(shared_store, sys.executable, "-c", code))
    status = files.stat(f"{folder}/theirs")
    assert [status.st_mode, status.st_ino, status.st_mtime_ns] == seen


def test_a_file_has_the_methods_of_io(files: "FileSystem", folder: str) -> None:
    path = f"{folder}/file"
    with files.open(path, "wb", buffering=0) as raw:
        assert raw.write(RANDOM) == len(RANDOM)
        assert raw.pwrite(b"head", 0) == 4
        assert (raw.tell(), raw.size, raw.name) == (len(RANDOM), len(RANDOM), path)
        raw.sync()
        with pytest.raises(io.UnsupportedOperation, match="is open with mode 'wb'"):
            raw.read(1)
    expected = b"head" + RANDOM[4:]
    with files.open(path, buffering=0) as raw:
        memory = bytearray(MIB)
        assert (raw.readinto(memory), bytes(memory)) == (MIB, expected[:MIB])
        assert raw.pread(10, 5) == expected[5:15]
        assert raw.seek(-3, os.SEEK_END) == len(RANDOM) - 3
        assert raw.readall() == expected[-3:]
        assert (raw.read(5), raw.readinto(memory)) == (b"", 0)
        assert raw.seek(MIB) == MIB
        assert raw.readinto(memoryview(memory)[10:20]) == 10
        assert memory[10:20] == expected[MIB : MIB + 10]
        with pytest.raises(TypeError, match="cannot be written"):
            raw.readinto(b"constant")
        with pytest.raises(ValueError, match="negative"):
            raw.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        raw.tell()
    with files.open(path, "r+b") as both:
        both.seek(2)
        both.write(b"XY")
        both.seek(0)
        assert both.read(6) == b"heXY" + expected[4:6]
        both.truncate(3)
    assert files.read_bytes(path) == b"heX"
    with files.open(f"{folder}/lines", "wt") as text:
        text.write("één\ntwo\n")
    with files.open(f"{folder}/lines", "rt") as text:
        assert list(text) == ["één\n", "two\n"]
    with files.open(f"{folder}/lines") as lines:
        assert list(lines) == ["één\n".encode(), b"two\n"]


def test_a_read_after_a_jump_asks_for_its_bytes_alone(files: "FileSystem", folder: str) -> None:
    files.write_bytes(f"{folder}/file", RANDOM)
    with files.open(f"{folder}/file") as file:
        before = files.counters()
        for place in range(2 * MIB, MIB, -8192):
            file.seek(place)
            assert file.read(4096) == RANDOM[place : place + 4096]
        after = files.counters()
        jumps = MIB // 8192
        assert after["read_bytes"] - before["read_bytes"] == jumps * 4096
        for place in range(MIB, 2 * MIB, 4096):
            if place == MIB:
                file.seek(place)
            assert file.read(4096) == RANDOM[place : place + 4096]
        assert files.counters()["read_calls"] - after["read_calls"] < MIB // 4096 / 10, "a stream is read ahead"


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.binary(max_size=700)),
            st.tuples(st.just("read"), st.integers(-1, 900)),
            st.tuples(st.just("seek"), st.integers(0, 2500)),
            st.tuples(st.just("truncate"), st.integers(0, 2500)),
            st.tuples(st.just("line"), st.none()),
        ),
        max_size=30,
    ),
    st.sampled_from([0, 16, 512]),
)
def test_calls_in_any_order_do_what_they_do_on_a_local_file(
    shared_store: Store, calls: list[tuple[str, Any]], buffering: int
) -> None:
    with weir.store.connect(shared_store.home) as files, tempfile.TemporaryFile(buffering=buffering) as model:
        with files.open("/model", "w+b", buffering=buffering) as file:
            for name, value in calls:
                assert outcome(file, name, value) == outcome(model, name, value), (name, value)
        model.seek(0)
        assert files.read_bytes("/model") == model.read()
        files.remove("/model")


def outcome(file: Any, name: str, value: Any) -> Any:
    if name == "truncate":
        return file.truncate(value), file.tell()
    if name == "line":
        return file.readline()
    return getattr(file, name)(value)


def test_names_are_those_of_a_file_system(files: "FileSystem", folder: str) -> None:
    files.mkdir(f"{folder}/a/b", parents=True)
    files.mkdir(f"{folder}/a/b", exist_ok=True)
    with pytest.raises(FileExistsError):
        files.mkdir(f"{folder}/a/b")
    files.write_bytes(f"{folder}/a/file", b"12345")
    files.symlink("file", f"{folder}/a/link")
    files.symlink("nowhere", f"{folder}/a/broken")
    described = {entry["name"]: entry for entry in files.ls(f"{folder}/a", detail=True)}
    kinds = {name.rpartition("/")[2]: entry["type"] for name, entry in described.items()}
    assert kinds == {"b": "directory", "file": "file", "link": "file", "broken": "other"}
    link = described[f"{folder}/a/link"]
    assert (link["size"], link["islink"], link["destination"]) == (5, True, "file")
    for name, entry in described.items():
        assert files.info(name) == entry
    assert files.readlink(f"{folder}/a/link") == "file"
    assert (files.exists(f"{folder}/a/broken"), files.is_file(f"{folder}/a/link")) == (False, True)
    walked = [(top, sorted(below), sorted(others)) for top, below, others in files.walk(f"{folder}/a")]
    assert walked == [(f"{folder}/a", ["b"], ["broken", "file", "link"]), (f"{folder}/a/b", [], [])]
    files.rename(f"{folder}/a/file", f"{folder}/a/b/moved")
    with pytest.raises(FileExistsError) as refused:
        files.rename(f"{folder}/a/b/moved", f"{folder}/a/link", replace=False)
    assert (refused.value.filename, refused.value.filename2) == (f"{folder}/a/b/moved", f"{folder}/a/link")
    files.setxattr(f"{folder}/a/b/moved", "user.unit", b"kelvin")
    assert (files.listxattr(f"{folder}/a/b/moved"), files.getxattr(f"{folder}/a/b/moved", "user.unit")) == (
        ["user.unit"],
        b"kelvin",
    )
    files.removexattr(f"{folder}/a/b/moved", "user.unit")
    files.chmod(f"{folder}/a/b/moved", 0o640)
    files.utime(f"{folder}/a/b/moved", 1, 1_000_000_001)
    files.truncate(f"{folder}/a/b/moved", 2)
    status = files.stat(f"{folder}/a/b/moved")
    assert (status.st_mode & 0o777, status.st_size) == (0o640, 2)
    assert files.copy(f"{folder}/a/b/moved", f"{folder}/copy") == 2
    with pytest.raises(OSError, match="Invalid argument"):
        files.copy(f"{folder}/copy", f"{folder}/copy")
    assert files.read_bytes(f"{folder}/copy") == b"12"
    files.remove(f"{folder}/copy")
    assert files.space().total_bytes > files.space().free_bytes > 0


def test_new_files_have_the_mask_of_the_process(shared_store: Store, folder: str) -> None:
    before = os.umask(0o027)
    try:
        with weir.store.connect(shared_store.home) as files:
            files.write_bytes(f"{folder}/file", b"")
            files.mkdir(f"{folder}/folder")
            modes = [files.stat(f"{folder}/{name}").st_mode & 0o777 for name in ("file", "folder")]
    finally:
        os.umask(before)
    assert modes == [0o640, 0o750]


@pytest.mark.parametrize(
    ("call", "error", "number"),
    [
        (lambda files, folder: files.open(f"{folder}/none"), FileNotFoundError, errno.ENOENT),
        (lambda files, folder: files.open(folder), IsADirectoryError, errno.EISDIR),
        (lambda files, folder: files.open(f"{folder}/file", "xb"), FileExistsError, errno.EEXIST),
        (lambda files, folder: files.ls(f"{folder}/file"), NotADirectoryError, errno.ENOTDIR),
        (lambda files, folder: files.stat(f"{folder}/file/below"), NotADirectoryError, errno.ENOTDIR),
        (lambda files, folder: files.rmdir(folder), OSError, errno.ENOTEMPTY),
        (lambda files, folder: files.remove(folder), IsADirectoryError, errno.EISDIR),
        (lambda files, folder: files.stat(f"{folder}/{'n' * 300}"), OSError, errno.ENAMETOOLONG),
        (lambda files, folder: files.getxattr(f"{folder}/file", "user.none"), OSError, errno.ENODATA),
    ],
)
def test_errors_are_those_of_os(
    files: "FileSystem", folder: str, call: Callable[..., Any], error: type[OSError], number: int
) -> None:
    files.write_bytes(f"{folder}/file", b"")
    with pytest.raises(error) as raised:
        call(files, folder)
    assert raised.value.errno == number
    assert str(raised.value.filename).startswith(folder)
    assert os.strerror(number) in str(raised.value)


def test_a_path_that_is_none_and_a_mode_that_is_none_are_refused(files: "FileSystem") -> None:
    with pytest.raises(ValueError, match="null character"):
        files.stat("a\0b")
    for mode in ("", "rw", "rr", "rbt", "q"):
        with pytest.raises(ValueError, match="the mode is"):
            files.open("/file", mode)
    files.close()
    with pytest.raises(ValueError, match="are closed"):
        files.stat("/")


def jobs(store: Store) -> set[str]:
    return {job.job for server in servers_at(Home(store.home)) for job in server.jobs()}


def test_a_process_is_one_job_that_the_servers_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.up(servers=1, mount=False)
    monkeypatch.setattr(sys, "argv", ["/some/analysis.py"])
    with weir.store.connect(store.home) as one, weir.store.connect(store.home) as other:
        assert one.job == other.job
        assert one.job.startswith(f"analysis.py-{os.getpid()}")
        one.write_bytes("/file", b"words")
        with weir.store.connect(store.home, job="named", nodes=4) as named:
            assert named.job == "named"
            named.write_bytes("/other", b"words")
        assert {one.job, "named"} <= jobs(store)
    code = "import weir; f = weir.store.connect(); f.write_bytes('/third', b'words'); print(f.job)"
    told = in_run(store, sys.executable, "-c", code)
    assert told.strip() in jobs(store)
    told = store.weir("run", "--prefix", "/weir", "--job", "of-run", "--", sys.executable, "-c", code).stdout
    assert told == "of-run\n"


def test_a_credential_goes_with_its_process(store: Store) -> None:
    store.up(servers=1, targets=1, mount=False)
    code = "import sys, weir; print(weir.store.connect(sys.argv[1]).address.credential)"
    words = [sys.executable, "-c", code, str(store.home)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert said.stderr == ""
    assert not Path(said.stdout.strip()).exists()


@pytest.mark.usefixtures("root_only")
def test_another_user_goes_on_under_its_grant(store: Store) -> None:
    store.up(servers=1, targets=1, mount=False)
    granted = store.grant(4000001, "--job", "granted")
    store.weir("run", "--prefix", "/weir", "--", "sh", "-c", "mkdir -m 777 /weir/open; mkdir -m 700 /weir/closed")
    code = (
        "import weir; f = weir.store.connect(); f.write_bytes('/open/file', b'');"
        "print(f.job, f.stat('/open/file').st_uid)\n"
        "try: f.write_bytes('/closed/file', b'')\nexcept PermissionError as error: print(error.filename)\n"
        "try: weir.store.connect(job='other')\nexcept weir.store.StoreError as error: print(error.message)"
    )
    variables = {**store.variables(), **granted}
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        user=4000001,
        group=4000001,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    lines = said.stdout.splitlines()
    assert lines[:2] == ["granted 4000001", "/closed/file"], said.stderr
    assert "permission denied" in lines[2]
    assert "job other is asked for" in lines[2]


def test_what_cannot_be_used_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="no store is up in") as refused:
        weir.store.connect(store.home)
    assert refused.value.hint
    store.up(servers=1, targets=1, mount=False)
    with pytest.raises(SettingsError, match="timeout_seconds cannot be -1"):
        weir.store.connect(store.home, timeout_seconds=-1)
    with pytest.raises(SettingsError, match="WEIR_TRANSPORT"):
        weir.store.connect(store.home, transport="pigeon")
    with pytest.raises(StoreError, match="cannot use the credential"):
        weir.store.connect(store.home, credential=tmp_path / "none.json")
    foreign = tmp_path / "cluster.json"
    foreign.write_text(store.home.joinpath("cluster.json").read_text())
    with pytest.raises(StoreError, match="you have no credential for the store of"):
        weir.store.connect(foreign)
    monkeypatch.setenv("WEIR_CLUSTER", str(store.home / "cluster.json"))
    monkeypatch.setenv("WEIR_HOME", str(store.home))
    with weir.store.connect() as files:
        assert files.ls() == []


def test_threads_have_their_own_bytes(files: "FileSystem", folder: str) -> None:
    piece = MIB // 4
    with files.open(f"{folder}/file", "w+b", buffering=0) as file:

        def work(number: int) -> bool:
            data = bytes([number]) * piece
            for turn in range(8):
                place = (turn * 8 + number) * piece
                assert file.pwrite(data, place) == piece
                assert file.pread(piece, place) == data
                files.write_bytes(f"{folder}/{number}-{turn}", data)
                assert files.read_bytes(f"{folder}/{number}-{turn}") == data
            return True

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(8)))


def test_a_call_that_waits_holds_no_other_thread(store: Store) -> None:
    store.up(servers=1, targets=1, mount=False)
    (server,) = store.server_pids().values()
    with weir.store.connect(store.home) as files:
        files.write_bytes("/file", b"words")
        read: list[bytes] = []
        waiter = threading.Thread(target=lambda: read.append(files.read_bytes("/file")))
        os.kill(server, signal.SIGSTOP)
        try:
            waiter.start()
            # This thread would not come here while the other one had the interpreter's lock.
            time.sleep(0.2)
            assert not read
        finally:
            os.kill(server, signal.SIGCONT)
        waiter.join(PATIENCE_SECONDS)
        assert read == [b"words"]


def test_a_child_of_a_fork_has_connections_of_its_own(files: "FileSystem", folder: str) -> None:
    """Parent and children shared the sockets, so that the bytes of one came to the other."""
    pieces = {number: bytes([number]) * 50_000 for number in range(6)}
    for number, piece in pieces.items():
        files.write_bytes(f"{folder}/{number}", piece)
    inherited = files.open(f"{folder}/0", buffering=0)
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        for _ in range(50):
            assert files.read_bytes(f"{folder}/{number}") == pieces[number]
            assert inherited.pread(50_000, 0) == pieces[0]
        files.write_bytes(f"{folder}/done-{number}", b"")
        os._exit(0)

    # Threads of the parent are in the midst of calls when it forks.
    ended = threading.Event()
    busy = [threading.Thread(target=read_until, args=(ended, files, f"{folder}/0", pieces[0])) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        children = [context.Process(target=work, args=(number,)) for number in range(1, 5)]
        for child in children:
            child.start()
        inherited.close()
        for child in children:
            child.join(PATIENCE_SECONDS)
    finally:
        ended.set()
        for thread in busy:
            thread.join(PATIENCE_SECONDS)
    assert [child.exitcode for child in children] == [0] * 4
    assert all(files.exists(f"{folder}/done-{number}") for number in range(1, 5))


def read_until(ended: threading.Event, files: "FileSystem", path: str, expected: bytes) -> None:
    while not ended.is_set():
        assert files.read_bytes(path) == expected


def test_another_process_goes_on_as_the_same_job(files: "FileSystem", folder: str) -> None:
    files.write_bytes(f"{folder}/file", b"0123456789")
    with files.open(f"{folder}/file") as file, files.open(f"{folder}/other", "wb") as written:
        file.seek(4)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            answer = pool.apply_async(read_on, (files, file)).get(PATIENCE_SECONDS)
        assert answer == (files.job, b"456789")
        with pytest.raises(TypeError, match="only files that are read"):
            pickle.dumps(written)


def test_a_server_that_is_killed_fails_calls_in_bounded_time_until_it_is_back(store: Store) -> None:
    store.up(servers=1, targets=1, backend="dir", mount=False)
    (server,) = store.server_pids().values()
    with weir.store.connect(store.home, timeout_seconds=1) as files:
        files.write_bytes("/file", b"words")
        with files.open("/file", buffering=0) as file:
            kill(server)
            with pytest.raises(OSError, match="has been silent for 1 s") as lost:
                file.pread(5, 0)
            assert (lost.value.errno, lost.value.filename) == (errno.EIO, "/file")
            assert any("weir status" in note for note in lost.value.__notes__)
            with pytest.raises(OSError, match="silent"):
                files.exists("/file")
            store.weir("up")
            assert file.pread(5, 0) == b"words"
        assert files.read_bytes("/file") == b"words"


def test_a_program_ends_with_a_file_open_whose_server_is_gone(store: Store) -> None:
    store.up(servers=1, targets=1, mount=False)
    (server,) = store.server_pids().values()
    code = (
        "import sys, weir; files = weir.store.connect(sys.argv[1], timeout_seconds=1); files.write_bytes('/file', b'');"
        "file = files.open('/file'); print('open', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(store.home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        kill(server)
        _, told = program.communicate(timeout=PATIENCE_SECONDS)
    assert (program.returncode, told) == (0, "")


def test_a_full_store_says_so_and_takes_bytes_again(store: Store) -> None:
    store.up(servers=1, targets=1, capacity="8MiB", mount=False)
    with weir.store.connect(store.home) as files:
        with pytest.raises(OSError, match="No space left") as full:
            files.write_bytes("/large", bytes(16 * MIB))
        assert (full.value.errno, full.value.filename) == (errno.ENOSPC, "/large")
        files.remove("/large")
        buffered = files.open("/third", "wb")
        buffered.write(bytes(4096))
        with files.open("/other", "wb", buffering=0) as raw, pytest.raises(OSError, match="No space left"):
            while raw.write(bytes(MIB)):
                pass
        with pytest.raises(OSError, match="No space left"):
            buffered.close()
        for name in ("/other", "/third"):
            files.remove(name)
        files.write_bytes("/small", bytes(MIB))
        assert files.stat("/small").st_size == MIB


def test_appends_of_several_processes_are_whole(files: "FileSystem", folder: str) -> None:
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        with files.open(f"{folder}/log", "ab", buffering=0) as log:
            for _ in range(100):
                log.write(bytes([number]) * 100)

    children = [context.Process(target=work, args=(number,)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_SECONDS)
    assert [child.exitcode for child in children] == [0] * 4
    data = files.read_bytes(f"{folder}/log")
    lines = [data[place : place + 100] for place in range(0, len(data), 100)]
    assert sorted(lines) == [bytes([number]) * 100 for number in range(4) for _ in range(100)]
