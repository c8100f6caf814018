"""A client of a history: does random operations on shared files until a file tells it to stop.

Called as `python client.py FOLDER HISTORY STOP SEED`. It imports nothing of the product: it is an ordinary program.
"""

import errno
import fcntl
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

REGISTERS = 3
COUNTERS = 2
VALUE_BYTES = 48
INITIAL = "none".ljust(VALUE_BYTES)
_PAUSE_SECONDS = 0.02


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
        self.number += 1
        begun = {"number": self.number, "kind": kind, "file": file, "value": value.strip(), "begin": time.monotonic()}
        self.history.write(json.dumps(begun) + "\n")
        ended: dict[str, object] = {"number": self.number, "error": 0}
        try:
            told = operation(str(self.folder / file), value)
            if told is not None:
                ended["value"] = told.strip()
        except OSError as error:
            ended["error"] = error.errno or errno.EIO
        ended["end"] = time.monotonic()
        self.history.write(json.dumps(ended) + "\n")

    def step(self) -> None:
        kind = self.random.choice(
            ("write", "write", "read", "read", "read", "append", "increment", "replace", "reread")
        )
        if kind in ("write", "read"):
            file = f"register-{self.random.randrange(REGISTERS)}"
            self.do(kind, file, self.value() if kind == "write" else "", write if kind == "write" else read)
        elif kind in ("replace", "reread"):
            file = f"renamed-{self.random.randrange(REGISTERS)}"
            self.do(*(("replace", file, self.value(), replace) if kind == "replace" else ("read", file, "", read)))
        elif kind == "append":
            self.do("append", "log", self.value(), append)
        else:
            self.do("increment", f"counter-{self.random.randrange(COUNTERS)}", "", increment)


def write(path: str, value: str) -> None:
    with Opened(path, os.O_WRONLY) as descriptor:
        written = os.pwrite(descriptor, value.encode(), 0)
        if written != len(value):
            raise OSError(errno.EIO, "short write")


def read(path: str, _: str) -> str:
    with Opened(path, os.O_RDONLY) as descriptor:
        return os.pread(descriptor, 4096, 0).decode()


def replace(path: str, value: str) -> None:
    temporary = f"{path}.{value.strip().replace(' ', '-')}"
    with Opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        if os.pwrite(descriptor, value.encode(), 0) != len(value):
            raise OSError(errno.EIO, "short write")
        os.fsync(descriptor)
    Path(temporary).rename(path)


def append(path: str, value: str) -> None:
    with Opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
        line = (value[:-1] + "\n").encode()
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.EIO, "short append")


def increment(path: str, _: str) -> str:
    with Opened(path, os.O_RDWR) as descriptor:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        number = int(os.pread(descriptor, 64, 0).decode().strip() or "0") + 1
        os.pwrite(descriptor, str(number).rjust(16).encode(), 0)
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
    return str(number)


class Opened:
    """A descriptor whose close may fail, too."""

    def __init__(self, path: str, flags: int) -> None:
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def main() -> None:
    folder, history, stop, seed = sys.argv[1:]
    client = Client(Path(folder), Path(history), int(seed))
    while not Path(stop).exists():
        client.step()
        time.sleep(client.random.random() * _PAUSE_SECONDS)


if __name__ == "__main__":
    main()
