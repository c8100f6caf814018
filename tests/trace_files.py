"""Traces that tests write byte by byte."""

import struct
import zlib
from pathlib import Path

MAGIC = b"\xb7WEIRTRC"
STARTED = 1_800_000_000
LAUNCHERS = {"pmi": 0, "openmpi": 1, "mvapich": 2, "pmix": 3, "slurm": 4}
OPENINGS = {"created": 0, "truncated": 1, "existing": 2, "inherited": 3}
SECOND = 10**9


def varint(number: int) -> bytes:
    """The number as the format has it: seven bits a byte, the lowest first."""
    parts = []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(len(content)) + content


def process(
    run: str = "run",
    program: str = "/usr/bin/model",
    *,
    number: int = 1,
    first: bool = False,
    rank: tuple[int, int, str] | None = None,
    started: float = STARTED,
) -> bytes:
    place = b"\0" if rank is None else b"\1" + varint(rank[0]) + varint(rank[1]) + varint(LAUNCHERS[rank[2]])
    arguments = f"{Path(program).name}\0input\0"
    return (
        b"\0" + text(run) + text("node") + varint(number) + varint(1) + bytes([first])
        + text(program) + text(arguments) + text("/work") + text("") + place + varint(int(started * SECOND))
    )  # fmt: skip


def opened(file: int, path: str | bytes, opening: str = "created", *, at: float = 0, true: str = "") -> bytes:
    return b"\1" + varint(file) + text(path) + text(true) + varint(OPENINGS[opening]) + varint(int(at * SECOND))


def written(file: int, end: int, count: int, *, estimate: bool = False, at: float = 1) -> bytes:
    return b"\2" + varint(file) + varint(end) + varint(count) + bytes([estimate, True]) + varint(int(at * SECOND))


def placed(file: int, layout: str) -> bytes:
    return b"\3" + varint(file) + text(layout)


def renamed(before: str, after: str, *, at: float = 2) -> bytes:
    return b"\4" + text(before) + text(after) + varint(int(at * SECOND))


def ended(at: float, missed: int = 0) -> bytes:
    return b"\6" + varint(int(at * SECOND)) + varint(missed)


def job(name: str = "job", *, store: int = 7, uid: int = 1000, window_seconds: float = 1.0) -> bytes:
    return b"\7" + varint(store) + varint(uid) + text(name) + varint(int(window_seconds * SECOND))


def window(number: int, target: tuple[int, int | None] = (0, 0), *, writes: int = 0, size: int = 0) -> bytes:
    """A window of writes of a size, each of which took a millisecond."""
    server, index = target
    device = varint(server) + (b"\0" if index is None else b"\1" + varint(index))
    counts = [0, 0, 0, writes, writes * size, writes * SECOND // 1000, *[0] * 5]
    return b"\x08" + varint(number) + device + b"".join(map(varint, counts)) + varint(SECOND)


def pattern(sizes: tuple[int, ...] = (0, 0, 0, 0, 0), size: int = 0, *, unaligned: int = 0, ahead: int = 0) -> bytes:
    """Accesses of one direction: their number in each class of sizes, and their bytes."""
    return b"".join(map(varint, (*sizes, size, unaligned, ahead, ahead)))


def accessed(path: str, layout: str, reads: bytes, writes: bytes, *, at: float = 1) -> bytes:
    return b"\x0a" + text(path) + text(layout) + reads + writes + varint(int(at * SECOND))


def uncounted(windows: int, operations: int) -> bytes:
    return b"\x09" + varint(windows) + varint(operations) + varint(SECOND)


def trace(*blocks: bytes, version: int = 2) -> bytes:
    content = MAGIC + struct.pack("<I", version)
    for payload in blocks:
        head = struct.pack("<II", len(payload), zlib.crc32(payload))
        content += head + struct.pack("<I", zlib.crc32(head)) + payload
    return content
