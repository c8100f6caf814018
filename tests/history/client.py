"""A client of a history: does random operations on shared files until a file tells it to stop.

`python client.py prepare FOLDER` makes the files, `python client.py work FOLDER HISTORY STOP SEED` does the operations,
and `python client.py tell FOLDER` prints the end. It imports nothing of the product: it is an ordinary program.
"""

import errno
import fcntl
import json
import os
import random
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

REGISTERS = 3
COUNTERS = 2
COUNTER_FILES = [f"{kind}-counter-{number}" for kind in ("fcntl", "flock") for number in range(COUNTERS)]
LOGS = 2
TICKETS = 150
NAMES = 100
VALUE_BYTES = 48
NUMBER_BYTES = 16
WIDE_BYTES = 128 << 10
"""Bytes of every second counter: more than comes to a server with its request."""
INITIAL = "none".ljust(VALUE_BYTES)
STRIPE_BYTES = 1 << 20
"""Stripe of the default layout: bytes on both sides of its end lie on two targets."""
LENGTH_MAX = 1 << 40
MALFORMED = -2
"""Error of a database whose bytes are another's."""
_PAUSE_SECONDS = 0.02
_HOLD_SECONDS = 0.02
_BUSY_SECONDS = 20.0
"""Longest time that SQLite waits for the locks of others."""


class Client:
    """One client, with its history and its dice."""

    def __init__(self, folder: Path, history: Path, seed: int) -> None:
        self.folder = folder
        self.name = history.stem
        self.history = history.open("w", buffering=1)
        self.random = random.Random(seed)
        self.number = 0

    def value(self) -> str:
        """A value that no other operation has."""
        return f"{self.name} {self.number}".ljust(VALUE_BYTES)

    def do(self, kind: str, file: str, value: str, operation: Callable[[str, str], str | None]) -> None:
        """Do one operation, and write its begin and its end into the history."""
        self.number += 1
        begun = {"number": self.number, "kind": kind, "file": file, "value": value.strip(), "begin": time.monotonic()}
        self.history.write(json.dumps(begun) + "\n")
        ended: dict[str, object] = {"number": self.number, "error": 0}
        try:
            told = operation(str(self.folder / file), value)
            if told is not None:
                ended["value"] = told.strip()
        except OSError as error:
            ended |= {"error": error.errno or errno.EIO, "said": str(error)}
        ended["end"] = time.monotonic()
        self.history.write(json.dumps(ended) + "\n")

    def step(self) -> None:
        """Do a random operation."""
        self.random.choice(
            (
                *[self.write_or_read] * 4,
                *[self.replace_or_read] * 2,
                self.straddle_or_read,
                self.resize_or_measure,
                *[self.append_or_glance] * 2,
                *[self.increment] * 2,
                self.hold,
                self.claim,
                self.make,
                self.insert,
            )
        )()

    def write_or_read(self) -> None:
        file = f"register-{self.random.randrange(REGISTERS)}"
        if self.random.random() < 0.4:
            self.do("write", file, self.value(), write)
        else:
            self.do("read", file, "", read)

    def replace_or_read(self) -> None:
        file = f"renamed-{self.random.randrange(REGISTERS)}"
        if self.random.random() < 0.5:
            self.do("replace", file, self.value(), replace)
        else:
            self.do("read", file, "", read)

    def straddle_or_read(self) -> None:
        file = f"straddle-{self.random.randrange(REGISTERS)}"
        if self.random.random() < 0.5:
            self.do("write", file, self.value(), write_both)
        else:
            self.do("read", file, "", read_both)

    def resize_or_measure(self) -> None:
        file = f"length-{self.random.randrange(REGISTERS)}"
        if self.random.random() < 0.5:
            self.do("write", file, str(self.random.randrange(1, LENGTH_MAX)), resize)
        else:
            self.do("read", file, "", measure)

    def append_or_glance(self) -> None:
        file = f"log-{self.random.randrange(LOGS)}"
        if self.random.random() < 0.7:
            self.do("append", file, self.value(), append)
        else:
            self.do("glance", file, "", glance)

    def increment(self) -> None:
        kind = self.random.choice(("fcntl", "flock"))
        self.do("increment", f"{kind}-counter-{self.random.randrange(COUNTERS)}", "", increment)

    def hold(self) -> None:
        kind = self.random.choice(("fcntl", "flock"))
        self.do("hold", f"{kind}-held", self.value(), hold)

    def claim(self) -> None:
        ticket = f"ticket-{self.random.randrange(TICKETS)}"
        self.do("claim", ticket, f"{ticket}.{self.name}", claim)

    def make(self) -> None:
        number = self.random.randrange(NAMES)
        # A directory in the root has a home of its own, so two servers make it together.
        file = self.random.choice((f"made-{number}", f"../{self.folder.name}-made-{number}"))
        self.do("make", file, "", make_directory if file.startswith("..") else make)

    def insert(self) -> None:
        self.do("insert", "database", self.value(), insert)


def write(path: str, value: str) -> None:
    with Opened(path, os.O_WRONLY) as descriptor:
        _write_whole(descriptor, value.encode(), 0)


def read(path: str, _: str) -> str:
    with Opened(path, os.O_RDONLY) as descriptor:
        return os.pread(descriptor, 4096, 0).decode()


def replace(path: str, value: str) -> None:
    temporary = f"{path}.{value.strip().replace(' ', '-')}"
    with Opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        _write_whole(descriptor, value.encode(), 0)
        os.fsync(descriptor)
    Path(temporary).rename(path)


def write_both(path: str, value: str) -> None:
    """Write one value to both sides of the end of a stripe, by one call."""
    with Opened(path, os.O_WRONLY) as descriptor:
        _write_whole(descriptor, (value * 2).encode(), STRIPE_BYTES - VALUE_BYTES)


def read_both(path: str, _: str) -> str:
    with Opened(path, os.O_RDONLY) as descriptor:
        both = os.pread(descriptor, 2 * VALUE_BYTES, STRIPE_BYTES - VALUE_BYTES).decode()
    return f"{both[:VALUE_BYTES].strip()}|{both[VALUE_BYTES:].strip()}"


def resize(path: str, value: str) -> None:
    os.truncate(path, int(value))


def measure(path: str, _: str) -> str:
    return str(Path(path).stat().st_size)


def append(path: str, value: str) -> None:
    with Opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
        line = (value[:-1] + "\n").encode()
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.EIO, "short append")


def glance(path: str, _: str) -> str:
    """Read a whole file; the value is the number of its bytes and their checksum."""
    with Opened(path, os.O_RDONLY) as descriptor:
        pieces = []
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
    content = b"".join(pieces)
    return f"{len(content)} {zlib.crc32(content)}"


def increment(path: str, _: str) -> str:
    with Opened(path, os.O_RDWR) as descriptor:
        lock = _lock_of(path)
        lock(descriptor, fcntl.LOCK_EX)
        width = WIDE_BYTES if path.endswith("1") else NUMBER_BYTES
        number = int(os.pread(descriptor, width, 0).decode().strip() or "0") + 1
        _write_whole(descriptor, str(number).rjust(width).encode(), 0)
        lock(descriptor, fcntl.LOCK_UN)
    return str(number)


def hold(path: str, value: str) -> str:
    """Write a value under a lock, and read it again a moment later; the value is both."""
    with Opened(path, os.O_RDWR) as descriptor:
        lock = _lock_of(path)
        lock(descriptor, fcntl.LOCK_EX)
        _write_whole(descriptor, value.encode(), 0)
        time.sleep(_HOLD_SECONDS)
        found = os.pread(descriptor, VALUE_BYTES, 0).decode()
        lock(descriptor, fcntl.LOCK_UN)
    return f"{value.strip()}|{found.strip()}"


def claim(path: str, name: str) -> None:
    Path(path).rename(Path(path).with_name(name))


def make(path: str, _: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def make_directory(path: str, _: str) -> None:
    folder, _, name = path.rpartition("/../")
    # From a descriptor of the folder: where the mount is gone, the name would be made below the mount point.
    with Opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.mkdir(f"../{name}", dir_fd=descriptor)


def insert(path: str, value: str) -> None:
    """Insert a row into a database by one transaction."""
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as database, database:
            database.execute("INSERT INTO history VALUES (?)", (value.strip(),))
    except sqlite3.DatabaseError as error:
        # SQLite answers SQLITE_CORRUPT to a read that failed with EIO, too. The end of the history tells.
        is_failed = isinstance(error, sqlite3.OperationalError) or error.sqlite_errorname == "SQLITE_CORRUPT"
        raise OSError(errno.EIO if is_failed else MALFORMED, f"{error.sqlite_errorname}: {error}") from error


def _write_whole(descriptor: int, value: bytes, offset: int) -> None:
    if os.pwrite(descriptor, value, offset) != len(value):
        raise OSError(errno.EIO, "short write")


def _lock_of(path: str) -> Callable[[int, int], object]:
    """The lock call of a file: its name tells."""
    return fcntl.flock if Path(path).name.startswith("flock") else fcntl.lockf


class Opened:
    """A descriptor whose close may fail, too."""

    def __init__(self, path: str, flags: int) -> None:
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def prepare(folder: Path) -> None:
    """Make the files, with their first values."""
    folder.mkdir()
    for number in range(REGISTERS):
        (folder / f"register-{number}").write_text(INITIAL)
        (folder / f"renamed-{number}").write_text(INITIAL)
        (folder / f"length-{number}").touch()
        (folder / f"straddle-{number}").touch()
        write_both(str(folder / f"straddle-{number}"), INITIAL)
    for name in (*(f"log-{number}" for number in range(LOGS)), *COUNTER_FILES, "fcntl-held", "flock-held"):
        (folder / name).touch()
    for number in range(TICKETS):
        (folder / f"ticket-{number}").touch()
    with closing(sqlite3.connect(folder / "database")) as database, database:
        database.execute("CREATE TABLE history (value TEXT)")
    os.sync()


def tell(folder: Path) -> dict[str, object]:
    """The end of all files whose end tells of lost and doubled operations."""
    with closing(sqlite3.connect(folder / "database", timeout=_BUSY_SECONDS)) as database:
        integrity = [row[0] for row in database.execute("PRAGMA integrity_check")]
        rows = sorted(row[0] for row in database.execute("SELECT value FROM history"))
    made = [path.name.removeprefix(f"{folder.name}-") for path in folder.parent.glob(f"{folder.name}-made-*")]
    return {
        "logs": {f"log-{number}": (folder / f"log-{number}").read_text() for number in range(LOGS)},
        "counters": {name: int((folder / name).read_text().strip() or "0") for name in COUNTER_FILES},
        "names": sorted(path.name for path in folder.iterdir() if path.name.startswith(("ticket-", "made-"))),
        "directories": sorted(made),
        "integrity": integrity,
        "rows": rows,
    }


def work(folder: Path, history: Path, stop: Path, seed: int) -> None:
    """Do operations until the file `stop` is there."""
    client = Client(folder, history, seed)
    while not stop.exists():
        client.step()
        time.sleep(client.random.random() * _PAUSE_SECONDS)


def main() -> None:
    """Do what the arguments say."""
    match sys.argv[1:]:
        case ["prepare", folder]:
            prepare(Path(folder))
        case ["tell", folder]:
            print(json.dumps(tell(Path(folder))))
        case ["work", folder, history, stop, seed]:
            work(Path(folder), Path(history), Path(stop), int(seed))
        case _:
            sys.exit(f"error: {__doc__}")


if __name__ == "__main__":
    main()
