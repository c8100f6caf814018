"""Two processes, one on the fast path and one on the mount alone, change the same files in turns; a model says what each must see.

Stores through a shared mapping become visible at msync; everything else at once.
"""

import errno
import fcntl
import mmap
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Remote, TwoWays
from seeds import seeded
from ways import MOUNT, PREFIX, PRELOAD

STEPS = 400
SIZE_MAX = 3 << 20
NAMES = ("a", "b", "c")
LOCK_BYTES = 8


class Caller(Agent):
    """An agent whose every mapping ends with its call."""

    def do_open(self, handle: str, name: str, flags: int) -> None:
        self.files[handle] = os.open(name, flags, 0o600)

    def do_write(self, handle: str, offset: int, length: int, byte: int) -> int:
        return os.pwrite(self.files[handle], bytes([byte]) * length, offset)

    def do_append(self, handle: str, length: int, byte: int) -> int:
        return os.write(self.files[handle], bytes([byte]) * length)

    def do_read(self, handle: str, offset: int, length: int) -> str:
        return os.pread(self.files[handle], length, offset).hex()

    def do_size(self, handle: str) -> int:
        return os.fstat(self.files[handle]).st_size

    def do_size_by_name(self, name: str) -> int:
        return os.stat(name).st_size

    def do_rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def do_unlink(self, name: str) -> None:
        os.unlink(name)

    def do_names(self) -> list[str]:
        return sorted(os.listdir("."))

    def do_lock(self, handle: str, kind: int, start: int) -> None:
        """A lock of the process on one byte, without waiting."""
        request = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0)
        fcntl.fcntl(self.files[handle], fcntl.F_SETLK, request)

    def do_map_write(self, handle: str, offset: int, length: int, byte: int) -> None:
        page = offset - offset % mmap.PAGESIZE
        with mmap.mmap(self.files[handle], offset - page + length, offset=page) as mapped:
            mapped[offset - page :] = bytes([byte]) * length
            mapped.flush()

    def do_map_read(self, handle: str, offset: int, length: int) -> str:
        page = offset - offset % mmap.PAGESIZE
        with mmap.mmap(self.files[handle], offset - page + length, prot=mmap.PROT_READ, offset=page) as mapped:
            return mapped[offset - page :].hex()


def serve(folder: Path) -> None:
    Caller(folder).serve()


class Model:
    """What the files hold: a name leads to a file, which open handles keep alive."""

    def __init__(self) -> None:
        self.names: dict[str, bytearray] = {}
        self.handles: dict[tuple[int, str], bytearray] = {}
        self.locks: dict[tuple[int, int], dict[int, int]] = {}
        """By the file's identity and the byte: the kind that each agent holds."""

    def write(self, file: bytearray, offset: int, data: bytes) -> None:
        if offset > len(file):
            file.extend(bytes(offset - len(file)))
        file[offset : offset + len(data)] = data

    def conflicts(self, file: bytearray, start: int, agent: int, kind: int) -> bool:
        others = [held for who, held in self.locks.get((id(file), start), {}).items() if who != agent]
        return fcntl.F_WRLCK in others or (kind == fcntl.F_WRLCK and bool(others))

    def release(self, file: bytearray, agent: int) -> None:
        """Closing any descriptor of a file ends the process's locks on it; Python's mmap has one of its own."""
        for (which, _), holders in self.locks.items():
            if which == id(file):
                holders.pop(agent, None)


class Game:
    """Random calls by two agents in turns, and a check of every result."""

    def __init__(self, random_numbers: random.Random, agents: list[Remote], can_map: bool) -> None:
        self.random = random_numbers
        self.agents = agents
        self.model = Model()
        self.log: list[str] = []
        self.kept: list[bytearray] = []
        steps: dict[str, int] = {
            "write": 6, "append": 4, "read": 6, "truncate": 3, "size": 3, "rename": 1, "unlink": 1, "reopen": 3,
            "punch": 1, "lock": 5, "names": 1,
        }  # fmt: skip
        if can_map:
            steps.update(map_write=3, map_read=3)
        self.steps = steps

    def run(self) -> None:
        for _ in range(STEPS):
            self.step(self.random.randrange(2))
        for agent in (0, 1):
            for handle, file in self.open_handles(agent):
                assert self.agents[agent]("read", handle, 0, SIZE_MAX * 2) == file.hex()

    def open_handles(self, agent: int) -> list[tuple[str, bytearray]]:
        return [(handle, file) for (who, handle), file in self.model.handles.items() if who == agent]

    def step(self, agent: int) -> None:
        handles = self.open_handles(agent)
        if not handles:
            self.reopen(agent)
            return
        kind = self.random.choices(list(self.steps), list(self.steps.values()))[0]
        if kind in ("reopen", "rename", "unlink", "names"):
            getattr(self, kind)(agent)
            return
        handle, file = self.random.choice(handles)
        getattr(self, kind)(agent, handle, file)

    def call(self, agent: int, name: str, *arguments: Any) -> Any:
        self.log.append(f"{self.agents[agent].way.name}: {name} {arguments}")
        return self.agents[agent](name, *arguments)

    def extent(self, file: bytearray) -> tuple[int, int, int]:
        """An offset near what is there, a length and a byte: often across the edges of pages and stripes."""
        edge = self.random.choice([0, len(file), len(file) // 2, 4096, 1 << 20, 2 << 20])
        offset = min(max(0, edge + self.random.randrange(-5000, 5000)), SIZE_MAX)
        length = self.random.choice([1, 10, 4096, self.random.randrange(1, 100_000), self.random.randrange(1, 1 << 20)])
        return offset, min(length, SIZE_MAX - offset + 1), self.random.randrange(1, 256)

    def reopen(self, agent: int) -> None:
        """Close a handle, and with it all the process's locks on that file; open another by name."""
        handles = self.open_handles(agent)
        if len(handles) > 3:
            handle, file = self.random.choice(handles)
            self.call(agent, "close", handle)
            del self.model.handles[agent, handle]
            self.model.release(file, agent)
        name = self.random.choice(NAMES)
        appending = self.random.random() < 0.3
        handle = f"{'append' if appending else 'file'}-{len(self.log)}"
        flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if appending else 0)
        if self.random.random() < 0.1:
            flags |= os.O_TRUNC
        self.call(agent, "open", handle, name, flags)
        if name not in self.model.names:
            self.model.names[name] = bytearray()
            self.kept.append(self.model.names[name])
        file = self.model.names[name]
        if flags & os.O_TRUNC:
            file.clear()
        self.model.handles[agent, handle] = file

    def write(self, agent: int, handle: str, file: bytearray) -> None:
        if handle.startswith("append"):
            self.append(agent, handle, file)
            return
        offset, length, byte = self.extent(file)
        assert self.call(agent, "write", handle, offset, length, byte) == length
        self.model.write(file, offset, bytes([byte]) * length)

    def append(self, agent: int, handle: str, file: bytearray) -> None:
        if not handle.startswith("append") or len(file) > SIZE_MAX:
            return
        _, length, byte = self.extent(file)
        assert self.call(agent, "append", handle, length, byte) == length
        file.extend(bytes([byte]) * length)

    def read(self, agent: int, handle: str, file: bytearray) -> None:
        offset, length, _ = self.extent(file)
        assert self.call(agent, "read", handle, offset, length) == file[offset : offset + length].hex()

    def truncate(self, agent: int, handle: str, file: bytearray) -> None:
        size = self.extent(file)[0]
        self.call(agent, "ftruncate", handle, size)
        del file[size:]
        file.extend(bytes(size - len(file)))

    def size(self, agent: int, handle: str, file: bytearray) -> None:
        assert self.call(agent, "size", handle) == len(file)
        for name, named in self.model.names.items():
            assert self.call(agent, "size_by_name", name) == len(named)

    def punch(self, agent: int, handle: str, file: bytearray) -> None:
        offset, length, _ = self.extent(file)
        self.call(agent, "punch", handle, offset, length)
        end = min(offset + length, len(file))
        if offset < end:
            file[offset:end] = bytes(end - offset)

    def rename(self, agent: int) -> None:
        old, new = self.random.sample(NAMES, 2)
        if old in self.model.names:
            self.call(agent, "rename", old, new)
            self.model.names[new] = self.model.names.pop(old)
        else:
            self.refused(agent, errno.ENOENT, "rename", old, new)

    def unlink(self, agent: int) -> None:
        name = self.random.choice(NAMES)
        if self.model.names.pop(name, None) is not None:
            self.call(agent, "unlink", name)
        else:
            self.refused(agent, errno.ENOENT, "unlink", name)

    def names(self, agent: int) -> None:
        assert self.call(agent, "names") == sorted(self.model.names)

    def lock(self, agent: int, handle: str, file: bytearray) -> None:
        start = self.random.randrange(LOCK_BYTES)
        kind = self.random.choice([fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_WRLCK, fcntl.F_UNLCK])
        holders = self.model.locks.setdefault((id(file), start), {})
        if kind == fcntl.F_UNLCK:
            self.call(agent, "lock", handle, kind, start)
            holders.pop(agent, None)
        elif self.model.conflicts(file, start, agent, kind):
            self.refused(agent, errno.EAGAIN, "lock", handle, kind, start)
        else:
            self.call(agent, "lock", handle, kind, start)
            holders[agent] = kind

    def map_write(self, agent: int, handle: str, file: bytearray) -> None:
        offset, length, byte = self.extent(file)
        length = min(length, len(file) - offset)
        if length > 0:
            self.call(agent, "map_write", handle, offset, length, byte)
            self.model.release(file, agent)
            self.model.write(file, offset, bytes([byte]) * length)

    def map_read(self, agent: int, handle: str, file: bytearray) -> None:
        offset, length, _ = self.extent(file)
        length = min(length, len(file) - offset)
        if length > 0:
            assert self.call(agent, "map_read", handle, offset, length) == file[offset : offset + length].hex()
            self.model.release(file, agent)

    def refused(self, agent: int, number: int, *arguments: Any) -> None:
        with pytest.raises(OSError) as caught:
            self.call(agent, *arguments)
        assert caught.value.errno == number, caught.value


@pytest.mark.parametrize(("one", "other"), [(PRELOAD, MOUNT), (PRELOAD, PRELOAD), (PREFIX, MOUNT), (PREFIX, PRELOAD)])
def test_both_ways_show_the_same(two_ways: TwoWays, one: str, other: str) -> None:
    agents = two_ways(serve, one, other)
    game = Game(seeded(), agents, can_map=PREFIX not in (one, other))
    try:
        game.run()
    except BaseException:
        print("\n".join(game.log[-60:]))
        raise
    for agent in agents:
        agent.end()
    agents[0].way.check_served(["read", "write", "open"], {})
    agents[1].way.check_served(["read", "write", "open"], {})
