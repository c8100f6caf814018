"""Shared mappings beside calls on descriptors, by two processes: a model of one file says what each must see.

The bytes of a file are one, whoever stores or writes them, and however. One exception is stated: a process on the fast
path that does not map the file itself sees the stores of others from their msync on.
"""

import ctypes
import errno
import json
import mmap
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Remote, TwoWays
from seeds import seeded
from ways import ALL, MOUNT, MOUNTED, PREFIX, PRELOAD, Way

STEPS = 500
PAGE = mmap.PAGESIZE
SIZE_MAX = (1 << 20) + 40 * PAGE
"""Beyond the first stripe."""
NAME = "file"

MAP_SHARED, MAP_PRIVATE, MREMAP_MAYMOVE, MS_SYNC = 1, 2, 1, 4
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


class Memory:
    """Mapped memory, by the calls of libc that a preloaded library sees, and longer than the file where asked."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        word, number = ctypes.c_size_t, ctypes.c_int
        self.library = library
        library.mmap.argtypes, library.mmap.restype = [word, word, number, number, number, ctypes.c_long], word
        library.mremap.argtypes, library.mremap.restype = [word, word, word, number], word
        library.munmap.argtypes = [word, word]
        library.msync.argtypes = [word, word, number]

    def checked(self, result: int) -> int:
        if result in (-1, ctypes.c_size_t(-1).value):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def map(self, descriptor: int, length: int, flags: int) -> int:
        return self.checked(self.library.mmap(0, length, READ_WRITE, flags, descriptor, 0))

    def remap(self, address: int, old: int, new: int) -> int:
        return self.checked(self.library.mremap(address, old, new, MREMAP_MAYMOVE))

    def unmap(self, address: int, length: int) -> None:
        self.checked(self.library.munmap(address, length))

    def sync(self, address: int, length: int) -> None:
        self.checked(self.library.msync(address, length, MS_SYNC))


class Mapper(Agent):
    """An agent that also maps memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.memory = Memory()
        self.mappings: dict[str, int] = {}

    def do_open(self, handle: str, flags: int) -> None:
        self.files[handle] = os.open(NAME, flags, 0o600)

    def do_pwrite(self, handle: str, offset: int, data: str) -> int:
        return os.pwrite(self.files[handle], data.encode(), offset)

    def do_write(self, handle: str, offset: int, data: str) -> int:
        os.lseek(self.files[handle], offset, os.SEEK_SET)
        return os.write(self.files[handle], data.encode())

    def do_append(self, handle: str, data: str) -> int:
        return os.write(self.files[handle], data.encode())

    def do_pread(self, handle: str, offset: int, length: int) -> str:
        return os.pread(self.files[handle], length, offset).decode()

    def do_read(self, handle: str, offset: int, length: int) -> str:
        os.lseek(self.files[handle], offset, os.SEEK_SET)
        return os.read(self.files[handle], length).decode()

    def do_copy(self, handle: str, source: int, target: int, length: int) -> int:
        return os.copy_file_range(self.files[handle], self.files[handle], length, source, target)

    def do_truncate(self, size: int) -> None:
        os.truncate(NAME, size)

    def do_sizes(self, handle: str) -> list[int]:
        by_end = os.lseek(self.files[handle], 0, os.SEEK_END)
        return [by_end, os.fstat(self.files[handle]).st_size, os.stat(NAME).st_size]

    def do_map(self, mapping: str, handle: str, length: int, flags: int) -> None:
        self.mappings[mapping] = self.memory.map(self.files[handle], length, flags)

    def do_remap(self, mapping: str, old: int, new: int) -> None:
        self.mappings[mapping] = self.memory.remap(self.mappings[mapping], old, new)

    def do_unmap(self, mapping: str, offset: int, length: int) -> None:
        self.memory.unmap(self.mappings[mapping] + offset, length)

    def do_sync(self, mapping: str, length: int) -> None:
        self.memory.sync(self.mappings[mapping], length)

    def do_store(self, mapping: str, offset: int, data: str) -> None:
        ctypes.memmove(self.mappings[mapping] + offset, data.encode(), len(data))

    def do_load(self, mapping: str, offset: int, length: int) -> str:
        return ctypes.string_at(self.mappings[mapping] + offset, length).decode()

    def do_in_child(self, name: str, arguments: list[Any]) -> Any:
        """The call, by a child that has the descriptors and mappings of its parent."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = json.dumps(getattr(self, f"do_{name}")(*arguments)).encode()
                while answer:
                    answer = answer[os.write(writer, answer) :]
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer_text = pipe.read()
        assert os.waitpid(child, 0)[1] == 0
        return json.loads(answer_text)


def punched(folder: Path) -> None:
    """Stores into a hole that a call made in a page that is mapped."""
    import libc

    descriptor = os.open(folder / "punched", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(descriptor, b"." * PAGE, 0)
    with mmap.mmap(descriptor, PAGE) as mapped:
        mapped[0] = ord("s")
        libc.fallocate(descriptor, libc.PUNCH_HOLE | libc.KEEP_SIZE, 20, 2)
        assert mapped[19:23] == b".\0\0."
        mapped[20] = ord("q")
    assert os.pread(descriptor, 24, 0) == b"s" + b"." * 19 + b"q\0.."


RACING_ROUNDS = 8


def race(folder: Path) -> None:
    """A parent stores to the even bytes of a page while its child writes the odd ones, without a lock."""
    path = folder / "raced"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(descriptor, bytes(PAGE), 0)
    child = os.fork()
    if child == 0:
        descriptor = os.open(path, os.O_RDWR)
        lost = 0
        for turn in range(1, RACING_ROUNDS + 1):
            for at in range(1, PAGE, 2):
                os.pwrite(descriptor, bytes([turn]), at)
            lost += sum(byte != turn for byte in os.pread(descriptor, PAGE, 0)[1::2])
        os._exit(min(lost, 255))
    stored = bytearray(PAGE)
    with mmap.mmap(descriptor, PAGE) as mapped:
        turn = 0
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            for at in range(turn % 64 * 2, PAGE, 128):
                mapped[at] = stored[at] = turn % 256
            turn += 1
            # The child needs a processor, too.
            time.sleep(0.0002)
        seen = bytes(mapped)
        mapped.flush()
    assert os.waitstatus_to_exitcode(ended[1]) == 0, "bytes that were written were lost"
    assert os.pread(descriptor, PAGE, 0) == seen
    assert seen[0::2] == stored[0::2], "a store was lost"


def serve(folder: Path) -> None:
    Mapper(folder).serve()


@dataclass
class Mapping:
    """A mapping of the file's start, of which the pages before `start` are unmapped again."""

    length: int
    start: int = 0
    own: bytearray | None = None
    """What a private mapping shows."""
    is_dirty: bool = False


WEIGHTS: dict[str, int] = {
    "pwrite": 5, "write": 3, "append": 3, "pread": 6, "read": 3, "ftruncate": 2, "truncate": 1, "sizes": 2, "copy": 1,
    "punch": 1, "map": 3, "unmap": 2, "unmap_part": 1, "remap": 1, "sync": 2, "store": 10, "load": 10, "reopen": 2,
}  # fmt: skip
"""How often the game makes each step."""


class Game:
    """Random calls by two agents in turns, and a check of every result."""

    def __init__(self, numbers: random.Random, agents: list[Remote]) -> None:
        self.random = numbers
        self.agents = agents
        self.file = bytearray()
        self.opened = 0
        self.handles: list[list[str]] = [[], []]
        self.mappings: list[dict[str, Mapping]] = [{}, {}]
        for agent in (0, 1):
            for _ in range(2):
                self.open(agent)

    def run(self) -> None:
        for _ in range(STEPS):
            agent = self.random.randrange(2)
            step = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            getattr(self, step)(agent)
        for agent in (0, 1):
            for name in list(self.mappings[agent]):
                self.unmap_one(agent, name)
        for agent in (0, 1):
            assert self.agents[agent]("pread", self.handles[agent][0], 0, SIZE_MAX * 2) == self.file.decode()

    def call(self, agent: int, name: str, *arguments: Any) -> Any:
        if self.random.random() < 0.05:
            return self.agents[agent]("in_child", name, list(arguments))
        return self.agents[agent](name, *arguments)

    def is_private(self, agent: int) -> bool:
        return self.agents[agent].way.name == PREFIX

    def extent(self) -> tuple[int, int]:
        """An offset and a length, often of a few bytes in a page that other calls touch too."""
        edge = self.random.choice([0, PAGE, len(self.file), 1 << 20, self.random.randrange(SIZE_MAX)])
        offset = min(max(0, edge + self.random.randrange(-60, 60)), SIZE_MAX - 1)
        length = self.random.choice([1, 1, 7, 100, self.random.randrange(1, 20_000)])
        return offset, min(length, SIZE_MAX - offset)

    def data(self, length: int) -> str:
        return self.random.choice("abcdefghijklmnopqrstuvwxyz") * length

    def put(self, offset: int, data: str) -> None:
        self.file.extend(bytes(max(0, offset - len(self.file))))
        self.file[offset : offset + len(data)] = data.encode()

    def open(self, agent: int) -> None:
        handle = f"{self.random.choice(['file', 'file', 'append'])}-{self.opened}"
        self.opened += 1
        flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if handle.startswith("append") else 0)
        self.agents[agent]("open", handle, flags)
        self.handles[agent].append(handle)

    def handle(self, agent: int, kind: str = "") -> str | None:
        fitting = [handle for handle in self.handles[agent] if handle.startswith(kind)]
        return self.random.choice(fitting) if fitting else None

    def sync_for(self, agent: int) -> None:
        """Before an agent reads that may be on the fast path: the others' stores become visible."""
        way = self.agents[agent].way.name
        if way == PREFIX or (way != MOUNT and not self.mappings[agent]):
            for name, mapping in list(self.mappings[1 - agent].items()):
                if mapping.is_dirty:
                    self.sync_one(1 - agent, name)

    def reopen(self, agent: int) -> None:
        if len(self.handles[agent]) > 2:
            handle = self.random.choice(self.handles[agent])
            self.handles[agent].remove(handle)
            self.agents[agent]("close", handle)
        self.open(agent)

    def pwrite(self, agent: int, name: str = "pwrite") -> None:
        if handle := self.handle(agent, "file"):
            offset, length = self.extent()
            data = self.data(length)
            assert self.call(agent, name, handle, offset, data) == length
            self.put(offset, data)

    def write(self, agent: int) -> None:
        self.pwrite(agent, "write")

    def append(self, agent: int) -> None:
        length = min(self.extent()[1], SIZE_MAX - len(self.file))
        if length and (handle := self.handle(agent, "append")):
            data = self.data(length)
            assert self.call(agent, "append", handle, data) == length
            self.put(len(self.file), data)

    def pread(self, agent: int, name: str = "pread") -> None:
        if handle := self.handle(agent):
            self.sync_for(agent)
            offset, length = self.extent()
            assert self.call(agent, name, handle, offset, length) == self.file[offset : offset + length].decode()

    def read(self, agent: int) -> None:
        self.pread(agent, "read")

    def copy(self, agent: int) -> None:
        handle = self.handle(agent, "file")
        (source, length), (target, _) = self.extent(), self.extent()
        length = min(length, len(self.file) - source, SIZE_MAX - target)
        if handle and length > 0 and abs(source - target) >= length:
            self.sync_for(agent)
            assert self.call(agent, "copy", handle, source, target, length) == length
            self.put(target, self.file[source : source + length].decode())

    def punch(self, agent: int) -> None:
        if handle := self.handle(agent):
            offset, length = self.extent()
            self.call(agent, "punch", handle, offset, length)
            end = min(offset + length, len(self.file))
            if offset < end:
                self.file[offset:end] = bytes(end - offset)

    def cut(self, size: int) -> None:
        del self.file[size:]
        self.file.extend(bytes(size - len(self.file)))

    def ftruncate(self, agent: int) -> None:
        if handle := self.handle(agent):
            size = self.extent()[0]
            self.call(agent, "ftruncate", handle, size)
            self.cut(size)

    def truncate(self, agent: int) -> None:
        size = self.extent()[0]
        self.call(agent, "truncate", size)
        self.cut(size)

    def sizes(self, agent: int) -> None:
        if handle := self.handle(agent):
            assert self.agents[agent]("sizes", handle) == [len(self.file)] * 3

    def map(self, agent: int) -> None:
        handle = self.handle(agent)
        if handle and len(self.mappings[agent]) < 3:
            name = f"map-{self.opened}"
            self.opened += 1
            # Sometimes beyond the end: what the file grows by shows there.
            length = -(-self.random.choice([SIZE_MAX, max(1, len(self.file)), 2 * PAGE]) // PAGE) * PAGE
            if self.is_private(agent):
                with pytest.raises(OSError) as caught:
                    self.agents[agent]("map", name, handle, length, MAP_SHARED)
                assert caught.value.errno == errno.ENODEV
                # The library reads a copy of the file.
                self.sync_for(agent)
                own = bytearray(self.file[:length])
                self.agents[agent]("map", name, handle, length, MAP_PRIVATE)
                self.mappings[agent][name] = Mapping(length, own=own)
            else:
                self.agents[agent]("map", name, handle, length, MAP_SHARED)
                self.mappings[agent][name] = Mapping(length)

    def mapping(self, agent: int) -> tuple[str, Mapping] | None:
        return self.random.choice(list(self.mappings[agent].items())) if self.mappings[agent] else None

    def unmap(self, agent: int) -> None:
        if found := self.mapping(agent):
            self.unmap_one(agent, found[0])

    def unmap_one(self, agent: int, name: str) -> None:
        mapping = self.mappings[agent].pop(name)
        self.agents[agent]("unmap", name, mapping.start, mapping.length - mapping.start)

    def unmap_part(self, agent: int) -> None:
        if (found := self.mapping(agent)) and found[1].length - found[1].start > PAGE:
            name, mapping = found
            self.agents[agent]("unmap", name, mapping.start, PAGE)
            mapping.start += PAGE

    def remap(self, agent: int) -> None:
        found = self.mapping(agent)
        if found and found[1].start == 0 and not self.is_private(agent):
            name, mapping = found
            length = self.random.randrange(1, SIZE_MAX // PAGE) * PAGE
            self.agents[agent]("remap", name, mapping.length, length)
            mapping.length = length

    def sync(self, agent: int) -> None:
        if found := self.mapping(agent):
            self.sync_one(agent, found[0])

    def sync_one(self, agent: int, name: str) -> None:
        mapping = self.mappings[agent][name]
        if mapping.start == 0:
            self.agents[agent]("sync", name, mapping.length)
            mapping.is_dirty = False
        else:
            # Only whole mappings are asked for; the end of one writes back all of it.
            self.unmap_one(agent, name)

    def reachable(self, mapping: Mapping) -> tuple[int, int] | None:
        """An extent that is mapped and inside the file."""
        shown = self.file if mapping.own is None else mapping.own
        end = min(mapping.length, len(shown))
        offset, length = self.extent()
        offset = max(mapping.start, min(offset, end - 1))
        return (offset, min(length, end - offset)) if offset < end else None

    def store(self, agent: int) -> None:
        if (found := self.mapping(agent)) and (extent := self.reachable(found[1])):
            offset, length = extent
            data = self.data(length)
            if found[1].own is None:
                self.call(agent, "store", found[0], offset, data)
                found[1].is_dirty = True
                self.put(offset, data)
            else:
                self.agents[agent]("store", found[0], offset, data)
                found[1].own[offset : offset + length] = data.encode()

    def load(self, agent: int) -> None:
        if (found := self.mapping(agent)) and (extent := self.reachable(found[1])):
            offset, length = extent
            shown = self.file if found[1].own is None else found[1].own
            assert self.call(agent, "load", found[0], offset, length) == shown[offset : offset + length].decode()


@pytest.mark.parametrize(
    ("one", "other"),
    [*((MOUNT, other) for other in (MOUNT, PREFIX)), *((PRELOAD, other) for other in ALL), (PREFIX, PREFIX)],
)
def test_stores_and_calls_change_one_file(two_ways: TwoWays, one: str, other: str) -> None:
    """A pwrite beside a dirty page of the same process lost a byte, and what a file grew by gave SIGBUS."""
    agents = two_ways(serve, one, other)
    game = Game(seeded(), agents)
    try:
        game.run()
    except BaseException:
        for agent in agents:
            print("\n".join(agent.log[-60:]))
        raise
    for agent in agents:
        agent.end()
        agent.way.check_served(["open"], {})


@pytest.mark.parametrize("one", [MOUNT, PRELOAD])
@pytest.mark.parametrize("other", [PRELOAD, PREFIX])
def test_a_write_beside_a_dirty_page_of_another_process_loses_nothing(two_ways: TwoWays, one: str, other: str) -> None:
    """The page was written back after the write of another process, and covered it with what was there before."""
    numbers = seeded()
    mapper, writer = two_ways(serve, one, other)
    flags = os.O_RDWR | os.O_CREAT
    for agent in (mapper, writer):
        agent("open", "f", flags)
    size = 4 * PAGE
    model = bytearray(b"." * size)
    mapper("pwrite", "f", 0, "." * size)
    mapper("map", "m", "f", size, MAP_SHARED)
    for _ in range(30):
        page = numbers.randrange(4) * PAGE
        stored, written = numbers.sample(range(page, page + PAGE), 2)
        mapper("store", "m", stored, "s")
        assert writer("pwrite", "f", written, "w") == 1
        model[stored], model[written] = ord("s"), ord("w")
        assert mapper("load", "m", 0, size) == model.decode()
        assert mapper("pread", "f", 0, size) == model.decode()
        mapper("sync", "m", size)
        assert writer("pread", "f", 0, size) == model.decode()


@pytest.mark.usefixtures("fuse")
def test_a_store_into_a_punched_hole_stays(way: Way) -> None:
    """The page of a hole is not read again, and what was stored there was left out when it was written back."""
    if way.name == PREFIX:
        pytest.skip("there are no shared, writable mappings without a mount")
    way.call(punched)


@pytest.mark.usefixtures("fuse")
def test_stores_and_writes_to_one_page_at_once_lose_nothing(way: Way) -> None:
    """A page that was read while a write call was under way was written back after it, with bytes from before."""
    if way.name == PREFIX:
        pytest.skip("there are no shared, writable mappings without a mount")
    way.call(race)


@pytest.mark.parametrize("one", MOUNTED)
@pytest.mark.parametrize("other", ALL)
def test_what_a_mapped_file_grows_by_is_there_before_a_page_was_touched(
    two_ways: TwoWays, one: str, other: str
) -> None:
    """The kernel did not hear of growth on the fast path, and gave SIGBUS beyond the size that it knew."""
    mapper, writer = two_ways(serve, one, other)
    for agent in (mapper, writer):
        agent("open", "f", os.O_RDWR | os.O_CREAT)
        agent("open", "a", os.O_RDWR | os.O_APPEND)
    writer("pwrite", "f", 0, "x")
    growths: dict[str, list[Any]] = {
        "pwrite": ["f", 5 * PAGE, "x"],
        "append": ["a", "x" * 5 * PAGE],
        "truncate": [99 * PAGE],
    }
    for name, arguments in growths.items():
        for grower in (mapper, writer):
            mapper("map", "m", "f", 200 * PAGE, MAP_SHARED)
            grower(name, *arguments)
            # Not the mapper's own question, by which its kernel learns the size.
            size = writer("sizes", "f")[0]
            assert len(mapper("load", "m", 0, size)) == size, name
            mapper("unmap", "m", 0, 200 * PAGE)
