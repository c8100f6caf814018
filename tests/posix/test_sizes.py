"""The size and the end of one file, by two mounts and by the library at once: a model of the file says what each must see.

The kernel of a mount places appends, ends copies and refuses pages by the size that it knows, and asks nobody. So each process
must find the file as long as the last one left it, whoever that was.
"""

import mmap
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agents import Agent, Remote
from seeds import seeded
from store import Store
from ways import MOUNT, PREFIX, PRELOAD, Way, make_way

STEPS = 700
SIZE_MAX = (1 << 20) + 50_000
"""Beyond the first stripe."""
NAME = "file"
FOREVER = 1 << 30


class Sizer(Agent):
    """An agent that moves bytes and reports where a descriptor stands."""

    def do_open(self, handle: str, flags: int) -> None:
        self.files[handle] = os.open(NAME, flags, 0o600)

    def do_write(self, handle: str, data: str) -> list[int]:
        written = os.write(self.files[handle], data.encode())
        return [written, os.lseek(self.files[handle], 0, os.SEEK_CUR)]

    def do_pwrite(self, handle: str, offset: int, data: str) -> int:
        return os.pwrite(self.files[handle], data.encode(), offset)

    def do_pread(self, handle: str, offset: int, length: int) -> str:
        return os.pread(self.files[handle], length, offset).decode()

    def do_read(self, handle: str, length: int) -> list[object]:
        data = os.read(self.files[handle], length).decode()
        return [data, os.lseek(self.files[handle], 0, os.SEEK_CUR)]

    def do_copy(self, handle: str, offset: int, length: int) -> str:
        """The bytes that copy_file_range brings into another file."""
        target = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            copied = os.copy_file_range(self.files[handle], target, length, offset, 0)
            return os.pread(target, copied, 0).decode()
        finally:
            os.close(target)

    def do_map(self, handle: str, offset: int, length: int) -> str:
        """The bytes that a mapping shows, without a question for the size between the mapping and the bytes."""
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        with mmap.mmap(
            self.files[handle], offset + length - start, mmap.MAP_SHARED, mmap.PROT_READ, offset=start
        ) as mapped:
            return mapped[offset - start : offset - start + length].decode()

    def do_size(self, handle: str) -> int:
        return os.fstat(self.files[handle]).st_size

    def do_end(self, handle: str) -> int:
        return os.lseek(self.files[handle], 0, os.SEEK_END)


def serve(folder: Path) -> None:
    Sizer(folder).serve()


@pytest.fixture
def agents(fuse: None, shared_store: Store, second_mount: Path) -> Iterator[list[Remote]]:
    """One agent by each mount, one with the library beside the first mount, and one with the library alone."""
    first = make_way(MOUNT, shared_store, "sizes")
    second = Way(MOUNT, shared_store, second_mount / first.folder.name)
    ways = [first, second, *(Way(name, shared_store, first.sibling(name)) for name in (PRELOAD, PREFIX))]
    started = [Remote(way, serve) for way in ways]
    yield started
    for agent in started:
        agent.kill()


class Game:
    """Random calls by the agents in turns, and a check of every result."""

    def __init__(self, numbers: random.Random, agents: list[Remote]) -> None:
        self.random = numbers
        self.agents = agents
        self.file = bytearray()
        self.opened = 0
        self.positions: list[dict[str, int]] = [{} for _ in agents]
        self.shortened: set[int] = set()
        """Mounts whose kernels may not know that another made the file shorter (limits.md)."""
        for agent in range(len(agents)):
            self.open(agent)
            self.open(agent)

    def run(self) -> None:
        calls: list[Callable[[int], None]] = [
            self.append, self.append, self.append, self.write, self.pwrite, self.pread, self.read, self.copy, self.copy,
            self.map, self.size, self.end, self.cut, self.reopen,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(calls)(self.random.randrange(len(self.agents)))

    def handle(self, agent: int, kind: str = "") -> str:
        return self.random.choice([name for name in self.positions[agent] if name.startswith(kind)])

    def open(self, agent: int) -> None:
        kind = "file" if self.opened % 2 else "append"
        handle = f"{kind}-{self.opened}"
        self.opened += 1
        self.agents[agent]("open", handle, os.O_RDWR | os.O_CREAT | (os.O_APPEND if kind == "append" else 0))
        self.positions[agent][handle] = 0
        self.shortened.discard(agent)

    def reopen(self, agent: int) -> None:
        for handle in list(self.positions[agent]):
            self.agents[agent]("close", handle)
            del self.positions[agent][handle]
            self.open(agent)

    def data(self) -> str:
        length = self.random.choice([1, 7, 100, 4096, self.random.randrange(1, 30_000)])
        return self.random.choice("abcdefghijklmnopqrstuvwxyz") * length

    def place(self) -> int:
        edge = self.random.choice([0, len(self.file), len(self.file), self.random.randrange(len(self.file) + 1)])
        return max(0, edge + self.random.randrange(-5000, 100))

    def put(self, offset: int, data: str) -> None:
        self.file.extend(bytes(max(0, offset - len(self.file))))
        self.file[offset : offset + len(data)] = data.encode()

    def append(self, agent: int) -> None:
        data = self.data()
        if len(self.file) + len(data) <= SIZE_MAX:
            handle = self.handle(agent, "append")
            if agent in self.shortened:
                self.size(agent)
            self.put(len(self.file), data)
            self.positions[agent][handle] = len(self.file)
            assert self.agents[agent]("write", handle, data) == [len(data), len(self.file)]

    def write(self, agent: int) -> None:
        handle, data = self.handle(agent, "file"), self.data()
        offset = self.positions[agent][handle]
        if offset + len(data) <= SIZE_MAX:
            self.put(offset, data)
            self.positions[agent][handle] = offset + len(data)
            assert self.agents[agent]("write", handle, data) == [len(data), offset + len(data)]

    def pwrite(self, agent: int) -> None:
        offset, data = self.place(), self.data()
        if offset + len(data) <= SIZE_MAX:
            self.put(offset, data)
            assert self.agents[agent]("pwrite", self.handle(agent, "file"), offset, data) == len(data)

    def pread(self, agent: int) -> None:
        offset = self.place()
        found = self.agents[agent]("pread", self.handle(agent), offset, 10_000)
        assert found == self.file[offset : offset + 10_000].decode()

    def read(self, agent: int) -> None:
        handle = self.handle(agent)
        offset = self.positions[agent][handle]
        expected = self.file[offset : offset + 10_000].decode()
        self.positions[agent][handle] = offset + len(expected)
        assert self.agents[agent]("read", handle, 10_000) == [expected, offset + len(expected)]

    def copy(self, agent: int) -> None:
        offset = self.place()
        length = self.random.choice([10_000, FOREVER])
        found = self.agents[agent]("copy", self.handle(agent, "file"), offset, length)
        assert found == self.file[offset : offset + length].decode()

    def map(self, agent: int) -> None:
        offset = min(self.place(), len(self.file) - 1)
        if offset >= 0 and self.agents[agent].way.name != PREFIX:
            length = min(10_000, len(self.file) - offset)
            found = self.agents[agent]("map", self.handle(agent), offset, length)
            assert found == self.file[offset : offset + length].decode()

    def size(self, agent: int) -> None:
        assert self.agents[agent]("size", self.handle(agent)) == len(self.file)
        self.shortened.discard(agent)

    def end(self, agent: int) -> None:
        handle = self.handle(agent)
        self.positions[agent][handle] = len(self.file)
        assert self.agents[agent]("end", handle) == len(self.file)
        self.shortened.discard(agent)

    def cut(self, agent: int) -> None:
        size = min(self.random.choice([self.place(), self.random.randrange(len(self.file) + 1)]), SIZE_MAX)
        if size < len(self.file):
            self.shortened |= {other for other in (0, 1) if other != agent}
        self.agents[agent]("ftruncate", self.handle(agent), size)
        del self.file[size:]
        self.file.extend(bytes(size - len(self.file)))


def test_every_kernel_and_the_library_know_one_size(agents: list[Remote]) -> None:
    """After another's append, an append told the position 15 for 1015, and copy_file_range found the end of before."""
    game = Game(seeded(), agents)
    try:
        game.run()
    except BaseException:
        print("\n".join(line for agent in agents for line in agent.log[-3:]))
        raise
    for agent in agents:
        agent.end()
