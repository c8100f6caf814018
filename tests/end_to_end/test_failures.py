"""Servers and clients that are killed under load: bounded errors, service afterwards, and nothing lost that was promised."""

import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store import Store, kill
from waits import PATIENCE_SECONDS, wait_until
from ways import ALL, MOUNT, MOUNTED, PREFIX, PRELOAD, Way, has_fuse, make_way

BOUND_SECONDS = 2
"""WEIR_TIMEOUT_SECONDS of clients whose servers are killed."""
BLOCK = 5000
FILES = 3
PAUSE_SECONDS = 0.002
"""Pause between two blocks: a writer without pauses takes a processor from the servers for as long as a test takes."""
CAPACITY_BYTES = 16 << 20
"""Of each of two targets."""


def write_for_ever(folder: Path) -> None:
    """Append numbered blocks to files and say which are there: written, and synchronised. Go on after errors.

    A block whose write failed may be there or not, so the same block is then written at the same place again.
    """

    def report(*words: object) -> None:
        print(json.dumps(words), flush=True)

    files: dict[int, int] = {}
    number = 0
    while True:
        which = number % FILES
        try:
            if which not in files:
                files[which] = os.open(folder / f"file-{which}", os.O_RDWR | os.O_CREAT, 0o600)
            block = f"{number:08}".encode() * (BLOCK // 8)
            offset = number // FILES * BLOCK
            # A write over two stripes is short when the server of the second is lost; the next one says why.
            done = 0
            while done < BLOCK:
                done += os.pwrite(files[which], block[done:], offset + done)
            report("written", number)
            if number % 20 == 0:
                for file in files.values():
                    os.fsync(file)
                report("synchronised", number)
            number += 1
            time.sleep(PAUSE_SECONDS)
        except OSError as error:
            report("failed", error.errno)
            if error.errno == errno.ESTALE:
                os.close(files.pop(which))
            time.sleep(0.05)


def check_blocks(folder: Path, last: int) -> None:
    """Every block up to this number is there with all its bytes."""
    contents = [(folder / f"file-{which}").read_bytes() for which in range(FILES)]
    for number in range(last + 1):
        offset = number // FILES * BLOCK
        block = contents[number % FILES][offset : offset + BLOCK]
        assert block == f"{number:08}".encode() * (BLOCK // 8), f"block {number} of {last}"


class Writer:
    """A client under load, and what it has said so far."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.said: list[list[object]] = []
        self.changed = threading.Condition()
        self.process = way.start(*way.python(write_for_ever), start_new_session=True)
        self.reader = threading.Thread(target=self.listen)
        self.reader.start()

    def listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self.changed:
                self.said.append(json.loads(line))
                self.changed.notify_all()

    def wait(self, word: str, since: int = 0, count: int = 1) -> int:
        """Wait until the word has come again so often; returns how much was said by then."""

        def there() -> bool:
            return sum(each[0] == word for each in self.said[since:]) >= count

        with self.changed:
            assert self.changed.wait_for(there, PATIENCE_SECONDS), f"no {word} in {self.said[since:][-5:]}"
            return len(self.said)

    def last(self, word: str) -> int:
        return max(int(str(each[1])) for each in self.said if each[0] == word)

    def failures(self) -> set[object]:
        return {each[1] for each in self.said if each[0] == "failed"}

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.reader.join(PATIENCE_SECONDS)
        self.process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def make_writer() -> Iterator[Callable[[Way], Writer]]:
    writers: list[Writer] = []

    def make(way: Way) -> Writer:
        writers.append(Writer(way))
        return writers[-1]

    yield make
    for writer in writers:
        if writer.process.poll() is None:
            writer.kill()


def bring_up(store: Store, name: str, *arguments: str, are_patient: bool = False) -> Way:
    """A store of its own, with clients that wait shortly for a server unless they are patient."""
    if name in MOUNTED and not has_fuse():
        pytest.skip("there is no /dev/fuse")
    if not are_patient:
        store.environment["WEIR_TIMEOUT_SECONDS"] = str(BOUND_SECONDS)
    store.json("up", "--servers", "2", "--targets", "1", *arguments, *([] if name in MOUNTED else ["--no-mount"]))
    return make_way(name, store, "load")


def kill_servers(store: Store, *which: int) -> None:
    for server in which:
        kill(store.server_pids()[server])


@pytest.mark.parametrize("name", ALL)
def test_killed_servers_on_directories_lose_nothing(
    store: Store, make_writer: Callable[[Way], Writer], name: str
) -> None:
    """What was synchronised is there, and what was acknowledged but not synchronised outlives the killed process.

    Worlds kill each server alone, and at each moment (`crates/world`).
    """
    way = bring_up(store, name, "--backend", "dir")
    writer = make_writer(way)
    writer.wait("synchronised", count=3)
    kill_servers(store, 0, 1)
    mark = writer.wait("failed", since=len(writer.said))
    store.weir("up", "--no-mount")
    writer.wait("written", since=mark, count=30)
    assert writer.failures() <= {errno.EIO}
    kill_servers(store, 0, 1)
    writer.kill()
    store.weir("up", "--no-mount")
    way.call(check_blocks, writer.last("written"))


@pytest.mark.parametrize("name", [MOUNT, PREFIX])
def test_killed_servers_in_memory_say_so(store: Store, make_writer: Callable[[Way], Writer], name: str) -> None:
    """What `ram` targets held is gone, and so are the files: old handles answer ESTALE; new ones work."""
    way = bring_up(store, name)
    writer = make_writer(way)
    writer.wait("synchronised", count=2)
    kill_servers(store, 0, 1)
    writer.wait("failed", since=len(writer.said))
    store.weir("up", "--no-mount")

    def said_stale() -> bool:
        return errno.ESTALE in writer.failures()

    with writer.changed:
        assert writer.changed.wait_for(said_stale, PATIENCE_SECONDS), writer.said[-3:]
    writer.kill()
    assert writer.failures() <= {errno.EIO, errno.ESTALE, errno.ENOENT}
    again = make_way(name, store, "again")
    again.shell("echo words > file && test $(cat file) = words")


@pytest.mark.parametrize("name", [MOUNT, PRELOAD, PREFIX])
def test_killed_clients_harm_nobody(store: Store, make_writer: Callable[[Way], Writer], name: str) -> None:
    """Clients die with requests in flight; the others' bytes are right and nothing of the dead is left."""
    way = bring_up(store, name, are_patient=True)
    survivor = make_writer(way)
    for _ in range(2):
        victims = [make_writer(make_way(name, store, f"victim-{time.monotonic_ns()}")) for _ in range(3)]
        for victim in victims:
            victim.wait("written", count=20)
            victim.kill()
            victim.way.call(check_blocks, victim.last("written"))
    mark = len(survivor.said)
    survivor.wait("synchronised", since=mark, count=2)
    survivor.kill()
    assert survivor.failures() == set()
    way.call(check_blocks, survivor.last("written"))
    assert store.weir("status").returncode == 0


def fill(folder: Path, room_bytes: int) -> None:
    """Write until the store is full. What is reported as written is there; what is refused leaves no trace."""
    file = os.open(folder / "large", os.O_RDWR | os.O_CREAT, 0o600)
    done = 0
    while True:
        try:
            count = os.write(file, bytes([1 + done % 251]) * 300_000)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            break
        done += count
        assert done < 1 << 30, "it must be full by now"
    assert os.fstat(file).st_size == done
    position = 0
    while position < done:
        part = os.pread(file, 1 << 20, position)
        assert part
        assert 0 not in part, "a hole in what was written"
        position += len(part)
    os.fsync(file)
    free = os.statvfs(folder)
    assert free.f_bavail * free.f_frsize <= room_bytes - done + 300_000 * 4
    os.ftruncate(file, 0)
    assert os.pwrite(file, b"again", 0) == 5
    os.close(file)
    print(done)


@pytest.mark.parametrize(("name", "backend"), [*((name, "dir") for name in ALL), (PREFIX, "ram")])
def test_a_full_store(store: Store, name: str, backend: str) -> None:
    way = bring_up(store, name, "--backend", backend, "--capacity", str(CAPACITY_BYTES))
    done = int(way.call(fill, 2 * CAPACITY_BYTES))
    assert 20_000_000 < done <= 2 * CAPACITY_BYTES
    # A file of one stripe may find its target full while there is room on others.
    way.shell("refused dd if=/dev/zero of=full bs=1M count=100 status=none; rm full; cp /bin/ls . && cmp /bin/ls ls")


def test_a_full_disk_below_a_directory_target(store: Store, root_only: None) -> None:
    """The disk is full before the capacity that was promised: the program is told, and the server lives on."""
    import subprocess

    disk = store.root / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=True, timeout=PATIENCE_SECONDS)
    try:
        config = store.root / "cluster.toml"
        config.write_text(
            f'version = 1\n[[server]]\n[[server.target]]\nbackend = "dir"\ncapacity = "1GiB"\npath = "{disk}/t"\n'
        )
        store.up(config, mount=False)
        way = make_way(PREFIX, store, "disk")
        # The capacity is what statfs goes by.
        done = int(way.call(fill, 1 << 30))
        assert done <= 8 << 20
        wait_until("it has room again", lambda: store.weir("status", code=None).returncode == 0)
    finally:
        store.weir("down", "--force", "--discard", "--yes", code=None)
        subprocess.run(["umount", "-l", disk], check=True, timeout=PATIENCE_SECONDS)


def test_a_wrong_credential_is_refused(store: Store) -> None:
    """Altered claims, a tag of another key, and a file that is none: one clear line or EACCES, and no access."""
    store.up(mount=False)
    way = make_way(PREFIX, store, "private")
    good = store.json("grant", "--uid", str(os.getuid()), "--to", str(store.root / "grant.json"))["credential"]
    document = json.loads(Path(good).read_text())
    attempt = [sys.executable, "-c", f"import os; os.listdir('{way.folder}')"]
    forged = store.root / "forged.json"
    for field, value in (("uid", 12345), ("nodes", 999), ("priority", 9), ("expires_seconds", 1 << 40)):
        forged.write_text(json.dumps({**document, "claims": {**document["claims"], field: value}}))
        answer = store.weir("run", "--prefix", "/weir", "--credential", forged, "--", *attempt, code=None)
        assert answer.returncode != 0, field
        assert "ermission denied" in answer.stderr, answer.stderr
    forged.write_text("{}")
    answer = store.weir("run", "--prefix", "/weir", "--credential", forged, "--", *attempt, code=None)
    assert answer.returncode in (1, 2)
    assert answer.stderr.startswith("error: ")
    assert store.weir("run", "--prefix", "/weir", "--credential", good, "--", *attempt).returncode == 0
    log = "".join(path.read_text() for path in store.home.glob("servers/*/log"))
    assert "refused" in log or "credential" in log, "a forged credential is logged"
