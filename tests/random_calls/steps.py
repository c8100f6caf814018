"""Sequences of random calls: each step is a line for the program `tests/programs/random_calls.c` of one client.

No step depends on the outcome of another, so a part of a sequence is a sequence.
"""

import fcntl
import mmap
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NAMES = "abcd"
SLOTS = 4
"""Slots that steps use: fewer than the program has, so that most of them are filled."""
UPWARD_MAX = 8
"""`..` in one sequence: the root of a sequence lies as deep in a place of its own, so no step leaves the place."""
SIZES = (0, 1, 2, 10, 100, 1000, 4095, 4096, 4097, 8192, 65_535, 65_536, 100_000)
LARGE = ((1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 5)
"""Both sides of a stripe's end."""
MODES = (0o644, 0o600, 0o755, 0o700, 0, 0o7777, 0o4755)
OPEN_FLAGS = (
    *(0, 0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC, os.O_TRUNC),
    *(os.O_CREAT | os.O_APPEND, os.O_APPEND, os.O_NOFOLLOW, os.O_CREAT | os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK),
)
DIRECTORY_FLAGS = (os.O_DIRECTORY, os.O_DIRECTORY | os.O_NOFOLLOW, os.O_DIRECTORY | os.O_CLOEXEC, os.O_PATH, 0)
RESOLVE_FLAGS = (0, 1, 2, 4, 8, 0x10, 8 | 4)
SEEKS = (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE)
ALLOCATIONS = (0, 1, 3, 3, 3, 0x10, 0x11)
ATTRIBUTES = ("user.a", "user.b", "user.a", "trusted.c", "none")
MOMENTS = ((1, 0), (7, 5), (900_000_000, 999_999_999), (0, (1 << 30) - 1), (0, (1 << 30) - 2), (5, 10**9), (5, -1))
"""Seconds and nanoseconds: among the latter are UTIME_NOW, UTIME_OMIT and wrong ones."""
STREAM_MODES = ("r", "r+", "w", "w+", "a", "a+", "rx", "wx", "w+x", "re")
RENAME_FLAGS = (0, 0, 0, 1, 2, 2, 3, 8)
"""None, RENAME_NOREPLACE, RENAME_EXCHANGE, both, and one that does not exist."""
EMPTY_PATH, NO_FOLLOW, FOLLOW = 0x1000, 0x100, 0x400


@dataclass(frozen=True)
class Step:
    """A call by one client."""

    client: int
    words: str

    @property
    def command(self) -> str:
        """The name of the call."""
        return self.words.split()[0]

    def __str__(self) -> str:
        return f"{self.client} {self.words}"


class Steps:
    """The steps of one sequence."""

    def __init__(self, dice: random.Random, can_map: Sequence[bool]) -> None:
        """`can_map` says of each client whether it can have mappings that outlive a step."""
        self._dice = dice
        self._can_map = can_map
        self._clients = dice.sample(range(len(can_map)), dice.randint(min(2, len(can_map)), len(can_map)))
        self._client = 0
        self._upward = 0
        self._depths = [0] * len(can_map)
        self._favourite = f"/ {dice.choice(('c', 'a/c'))}"
        # What is probably there. Slots that are empty are named, too, but seldom.
        self._files: list[set[int]] = [set() for _ in can_map]
        self._streams: list[set[int]] = [set() for _ in can_map]
        self._mappings: list[set[int]] = [set() for _ in can_map]

    def sequence(self, length: int) -> list[Step]:
        """A sequence: a few names first, then calls of kinds that the sequence prefers, then what each client sees."""
        steps = [Step(self._dice.choice(self._clients), words) for words in self._beginning()]
        weights = [weight * self._dice.choice((0, 0.3, 1, 1, 3)) for _, weight in self._kinds()]
        weights = weights if any(weights) else [weight for _, weight in self._kinds()]
        while len(steps) < length:
            self._client = self._dice.choice(self._clients)
            kind = self._dice.choices([kind for kind, _ in self._kinds()], weights)[0]
            is_idle = not self._files[self._client] and self._dice.random() < 0.5
            steps.append(Step(self._client, self._open_favourite() if is_idle else kind()))
        return [*steps, *(Step(client, "tree") for client in range(len(self._can_map)))]

    def _kinds(self) -> list[tuple[Callable[[], str], float]]:
        return [
            (self._name, 10), (self._look, 6), (self._open, 6), (self._bytes, 10), (self._size, 5), (self._status, 4),
            (self._attribute, 2), (self._lock, 4), (self._process, 2), (self._stream, 6), (self._mapping, 3),
            (self._directory, 3),
        ]  # fmt: skip

    def _beginning(self) -> list[str]:
        made = ["mkdir . a 0755", "mkdir . a/b 0755", "mkdir . b 0755", "mknod . c 0644", "symlink a/b . d"]
        made += ["truncate . c 5000", f"mknod {self._favourite} 0644", f"truncate {self._favourite} 70000"]
        return [words for words in made if self._dice.random() < 0.7]

    def _of(self, *choices: object) -> str:
        return str(self._dice.choice(choices))

    def _slot(self) -> str:
        """The slot of a descriptor that is probably open."""
        return self._filled(self._files)

    def _filled(self, filled: list[set[int]]) -> str:
        mine = sorted(filled[self._client])
        return str(self._dice.choice(mine) if mine and self._dice.random() < 0.95 else self._dice.randrange(SLOTS))

    def _fill(self, filled: list[set[int]]) -> str:
        slot = self._dice.randrange(SLOTS)
        filled[self._client].add(slot)
        return str(slot)

    def _drain(self, filled: list[set[int]]) -> str:
        slot = self._filled(filled)
        filled[self._client].discard(int(slot))
        return slot

    def _plain_path(self) -> str:
        parts = [self._dice.choice(NAMES) for _ in range(self._dice.choices((1, 2, 3), (6, 4, 1))[0])]
        if self._upward < UPWARD_MAX and self._dice.random() < 0.15:
            self._upward += 1
            parts.insert(self._dice.randrange(len(parts) + 1), "..")
        if self._dice.random() < 0.05:
            parts.insert(self._dice.randrange(len(parts) + 1), ".")
        path = "/".join(parts)
        return path + "/" if self._dice.random() < 0.04 else path

    def _place(self) -> str:
        if self._dice.random() < 0.2:
            return self._favourite
        base = self._dice.choices((".", "/", "@", self._slot()), (10, 3, 2, 3))[0]
        path = "-" if self._dice.random() < 0.01 else self._plain_path()
        return f"{base} {path}"

    def _here(self) -> str:
        """A place for calls that have no form with a directory."""
        if self._dice.random() < 0.3:
            return self._favourite
        return f"{self._of('.', '.', '/')} {self._plain_path()}"

    def _count(self) -> str:
        return self._of(*SIZES, *SIZES, *LARGE)

    def _byte(self) -> str:
        return hex(self._dice.randrange(0x30, 0x5A))

    def _moments(self) -> str:
        return " ".join(f"{seconds} {nanoseconds}" for seconds, nanoseconds in self._dice.choices(MOMENTS, k=2))

    def _name(self) -> str:
        return self._dice.choice((
            lambda: f"mkdir {self._place()} {self._of('0755', '0700', '07777')}",
            lambda: f"rmdir {self._place()}",
            lambda: f"unlink {self._place()}",
            lambda: f"remove {self._here()}",
            lambda: f"mknod {self._place()} 0644",
            lambda: f"rename {self._place()} {self._place()} {self._of(*RENAME_FLAGS)}",
            lambda: f"rename {self._place()} {self._place()} {self._of(*RENAME_FLAGS)}",
            lambda: f"rename {self._place()} {self._place()} {self._of(*RENAME_FLAGS)}",
            lambda: f"link {self._place()} {self._place()} {self._of(0, 0, FOLLOW)}",
            lambda: f"symlink {self._plain_path()} {self._place()}",
        ))()  # fmt: skip

    def _look(self) -> str:
        return self._dice.choice((
            lambda: f"stat {self._place()} {self._of(0, NO_FOLLOW)}",
            lambda: f"stat {self._slot()} - {EMPTY_PATH}",
            lambda: f"statx {self._place()} {self._of(0, NO_FOLLOW)}",
            lambda: f"readlink {self._place()}",
            lambda: f"access {self._place()} {self._of(0, 1, 2, 4, 7)} 0",
            lambda: f"list {self._place()}",
            lambda: f"realpath {self._here()}",
            lambda: "getcwd",
        ))()  # fmt: skip

    def _open_favourite(self) -> str:
        flags = os.O_RDWR | os.O_CREAT | self._dice.choice((0, 0, 0, os.O_APPEND))
        return f"open {self._fill(self._files)} {self._favourite} {flags} 0644"

    def _open(self) -> str:
        mode = self._of("0644", "0600", "0444", "0")
        flags = self._dice.choice((0, 1, 2, 2, 2)) | self._dice.choice(OPEN_FLAGS)
        return self._dice.choice((
            lambda: f"open {self._fill(self._files)} {self._place()} {flags} {mode}",
            self._open_favourite,
            self._open_favourite,
            lambda: f"open {self._fill(self._files)} {self._place()} {self._dice.choice(DIRECTORY_FLAGS)} 0",
            lambda: f"openat2 {self._fill(self._files)} {self._place()} {flags} {mode if flags & os.O_CREAT else 0} "
            f"{self._of(*RESOLVE_FLAGS)}",
            lambda: f"open {self._fill(self._files)} {self._here()} {os.O_TMPFILE | flags & 3} 0600",
            lambda: f"close {self._drain(self._files)}",
            lambda: f"dup {self._fill(self._files)} {self._slot()}",
            lambda: f"dup2 {self._slot()} {self._slot()}",
            lambda: f"getfl {self._slot()}",
            lambda: f"setfl {self._slot()} {self._of(0, os.O_APPEND, os.O_NONBLOCK)}",
        ))()  # fmt: skip

    def _bytes(self) -> str:
        return self._dice.choice((
            lambda: f"read {self._slot()} {self._count()}",
            lambda: f"readv {self._slot()} {self._count()}",
            lambda: f"pread {self._slot()} {self._count()} {self._count()}",
            lambda: f"write {self._slot()} {self._count()} {self._byte()}",
            lambda: f"write {self._slot()} {self._count()} {self._byte()}",
            lambda: f"writev {self._slot()} {self._count()} {self._byte()}",
            lambda: f"pwrite {self._slot()} {self._count()} {self._count()} {self._byte()}",
            lambda: f"lseek {self._slot()} {self._of('', '-')}{self._count()} {self._of(*SEEKS)}",
            lambda: f"copy {self._slot()} {self._of(-1, self._count())} {self._slot()} {self._of(-1, self._count())} "
            f"{self._count()}",
            lambda: f"sendfile {self._slot()} {self._slot()} {self._of(-1, self._count())} {self._count()}",
        ))()  # fmt: skip

    def _size(self) -> str:
        return self._dice.choice((
            lambda: f"ftruncate {self._slot()} {self._count()}",
            lambda: f"truncate {self._here()} {self._of('', '', '', '-')}{self._count()}",
            lambda: f"fallocate {self._slot()} {self._of(*ALLOCATIONS)} {self._count()} {self._count()}",
            lambda: f"fsync {self._slot()} {self._of(0, 1)}",
            lambda: f"advise {self._slot()} {self._count()} {self._count()} {self._of(0, 1, 4, 9)}",
            lambda: f"lseek {self._slot()} {self._count()} {self._of(os.SEEK_DATA, os.SEEK_HOLE)}",
        ))()  # fmt: skip

    def _status(self) -> str:
        return self._dice.choice((
            lambda: f"fstat {self._slot()}",
            lambda: f"fstat {self._slot()}",
            lambda: f"chmod {self._place()} {self._dice.choice(MODES):#o}",
            lambda: f"fchmod {self._slot()} {self._dice.choice(MODES):#o}",
            lambda: f"chown {self._place()} {self._of(0, 1000, -1)} {self._of(0, 1000, -1)} {self._of(0, NO_FOLLOW)}",
            lambda: f"fchown {self._slot()} {self._of(0, 1000, -1)} {self._of(0, 1000, -1)}",
            lambda: f"utimens {self._place()} {self._moments()} {self._of(0, NO_FOLLOW)}",
            lambda: f"futimens {self._slot()} {self._moments()}",
            lambda: f"umask {self._of('022', '077', '0')}",
        ))()  # fmt: skip

    def _attribute(self) -> str:
        value = f"{self._byte()} {self._of(0, 1, 100, 4096)} {self._of(0, 0, 1, 2)}"
        return self._dice.choice((
            lambda: f"setxattr {self._here()} {self._of(*ATTRIBUTES)} {value}",
            lambda: f"fsetxattr {self._slot()} {self._of(*ATTRIBUTES)} {value}",
            lambda: f"getxattr {self._here()} {self._of(*ATTRIBUTES)} {self._of(4096, 10, 0)}",
            lambda: f"removexattr {self._here()} {self._of(*ATTRIBUTES)}",
            lambda: f"listxattr {self._here()}",
        ))()  # fmt: skip

    def _lock(self) -> str:
        part = f"{self._of(*range(6))} {self._of(0, 1, 2, 4)}"
        kind = self._of(fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_WRLCK, fcntl.F_UNLCK)
        command = self._of(fcntl.F_SETLK, fcntl.F_SETLK, fcntl.F_GETLK, fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK)
        return self._dice.choice((
            lambda: f"lock {self._slot()} {kind} {part} {command}",
            lambda: f"lock {self._slot()} {kind} {part} {command}",
            lambda: f"flock {self._slot()} {self._of(fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN)}",
        ))()  # fmt: skip

    def _process(self) -> str:
        if self._depths[self._client] and self._dice.random() < 0.5:
            self._depths[self._client] -= 1
            return "exit"
        kind = self._of("fork", "fork", "spawn", "exec")
        if kind != "exec":
            self._depths[self._client] += 1
        return kind

    def _stream(self) -> str:
        if not self._streams[self._client]:
            return f"fopen {self._fill(self._streams)} {self._here()} {self._of(*STREAM_MODES)}"
        again = self._of("r", "r+", "w", "a", "a+")
        return self._dice.choice((
            lambda: f"fopen {self._fill(self._streams)} {self._here()} {self._of(*STREAM_MODES)}",
            lambda: f"fopen {self._fill(self._streams)} {self._here()} {self._of(*STREAM_MODES)}",
            lambda: f"fdopen {self._fill(self._streams)} {self._drain(self._files)} {again}",
            lambda: f"fclose {self._drain(self._streams)}",
            lambda: f"fread {self._filled(self._streams)} {self._count()}",
            lambda: f"fwrite {self._filled(self._streams)} {self._count()} {self._byte()}",
            lambda: f"fwrite {self._filled(self._streams)} {self._count()} {self._byte()}",
            lambda: f"fgets {self._filled(self._streams)} {self._of(2, 10, 100)}",
            lambda: f"fprintf {self._filled(self._streams)} {self._of(1, 5, 100)}",
            lambda: f"getc {self._filled(self._streams)} {self._of(0, 0, 1)}",
            lambda: f"fseek {self._filled(self._streams)} {self._of('', '', '-')}{self._count()} {self._of(0, 1, 2)}",
            lambda: f"ftell {self._filled(self._streams)}",
            lambda: f"fflush {self._filled(self._streams)}",
        ))()  # fmt: skip

    def _mapping(self) -> str:
        if not self._can_map[self._client]:
            return self._bytes()
        part = f"{self._of(0, 0, 4096, 65_536)} {self._of(1, 4096, 5000, 100_000)}"
        protection = self._of(mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)
        stored = f"{self._of(0, 10, 4000)} {self._of(1, 100, 5000)} {self._byte()}"
        return self._dice.choice((
            lambda: f"mmap {self._fill(self._mappings)} {self._slot()} {part} {protection} {mmap.MAP_SHARED}",
            lambda: f"mapped-read {self._filled(self._mappings)} {self._count()} {self._count()}",
            lambda: f"mapped-write {self._filled(self._mappings)} {stored}",
            lambda: f"munmap {self._drain(self._mappings)}",
        ))()  # fmt: skip

    def _directory(self) -> str:
        return self._dice.choice((
            lambda: f"chdir {self._here()}",
            lambda: f"fchdir {self._slot()}",
            lambda: "chdir / .",
            lambda: f"open {self._fill(self._files)} {self._place()} {os.O_DIRECTORY} 0",
            lambda: f"stat @ {self._plain_path()} 0",
        ))()  # fmt: skip
