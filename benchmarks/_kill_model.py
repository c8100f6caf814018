"""The model of files while servers, mounts and clients are killed: it knows every byte that a completed call promised.

A client's ledger says what it was about to do, and what was done. A call without an answer may have happened or not; a
write without an answer may have happened in part.
"""

import random
from dataclasses import dataclass, field
from typing import Any

RECORD_BYTES = 100
"""One record of the file that all clients append to."""
FILE_BYTES_MAX = 1 << 20
"""Most bytes of a file: files stay so small that reading all of them after each round takes no time."""
WRITE_BYTES_MAX = 200_000
"""A write covers several stripes on several servers."""
BESIDE = "beside"
"""Name of a replacement before it is renamed over the old file; no promise concerns it."""
NAMES = ("a", "b", "c", "sub/d", "sub/e")
VERBS = ("write", "write", "write", "append", "append", "truncate", "replace", "rename", "unlink", "sync", "record")

MAKING = ("write", "append", "replace", "record")
"""Verbs that make the file where there is none."""

Files = dict[str, bytes]
"""The files of one client's directory, by their names in it."""


@dataclass(frozen=True)
class Step:
    """One call, or a replacement of a file by another; everything follows from the seed and the number."""

    number: int
    verb: str
    name: str
    other: str
    """The new name of a rename."""
    offset: int
    length: int

    @staticmethod
    def draw(seed: int, number: int) -> "Step":
        """The step of this number."""
        choices = random.Random(f"{seed} {number}")
        return Step(
            number=number,
            verb=choices.choice(VERBS),
            name=choices.choice(NAMES),
            other=choices.choice(NAMES),
            offset=choices.randrange(FILE_BYTES_MAX - WRITE_BYTES_MAX),
            length=choices.randrange(1, choices.choice((200, 10_000, WRITE_BYTES_MAX))),
        )

    def payload(self, seed: int) -> bytes:
        """The bytes of the step. None of them is zero: lost bytes read as zeros."""
        return random.Random(f"{seed} {self.number} bytes").randbytes(self.length).replace(b"\0", b"\1")

    def record(self, client: int) -> bytes:
        """The step's record in the file of all clients."""
        return f"{client:04} {self.number:010} ".encode().ljust(RECORD_BYTES - 1, b".") + b"\n"


def apply(files: Files, step: Step, seed: int) -> Files:
    """The files after a step that was done."""
    after = dict(files)
    old = files.get(step.name)
    if step.verb == "write":
        data = (old or b"").ljust(step.offset, b"\0")
        after[step.name] = data[: step.offset] + step.payload(seed) + data[step.offset + step.length :]
    elif step.verb == "append":
        # A file that would grow beyond its bound is begun anew.
        keep = old if old is not None and len(old) + step.length <= FILE_BYTES_MAX else b""
        after[step.name] = keep + step.payload(seed)
    elif step.verb == "replace":
        after[step.name] = step.payload(seed)
    elif old is not None and step.verb == "truncate":
        after[step.name] = old[: step.offset].ljust(step.offset, b"\0")
    elif old is not None and step.verb == "rename":
        after[step.other] = after.pop(step.name)
    elif old is not None and step.verb == "unlink":
        del after[step.name]
    return after


def lost_bytes(files: Files, actual: Files, doubtful: Step | None, seed: int) -> int:
    """Count the bytes of the files that are not as promised; `doubtful` had no answer."""
    best = _differing(files, actual)
    if doubtful is not None and best:
        done = apply(files, doubtful, seed)
        best = min(best, _differing(done, actual))
        if best and doubtful.verb in ("write", "append"):
            best = min(best, _differing_in_part(files, done, actual, doubtful))
    return best


def _differing(wanted: Files, actual: Files) -> int:
    total = 0
    for name in wanted.keys() | actual.keys():
        if name not in actual:
            # A name that is gone is a loss, even of an empty file.
            total += max(1, len(wanted[name]))
        elif name not in wanted:
            total += max(1, len(actual[name]))
        elif wanted[name] != actual[name]:
            total += _differing_bytes(wanted[name], actual[name])
    return total


def _differing_bytes(wanted: bytes, actual: bytes) -> int:
    common = sum(one != other for one, other in zip(wanted, actual, strict=False))
    return common + abs(len(wanted) - len(actual))


def _differing_in_part(files: Files, done: Files, actual: Files, step: Step) -> int:
    """As `_differing`, where each byte of the one file may be the old or the new one, and its size between theirs."""
    others = {name: data for name, data in files.items() if name != step.name}
    rest = {name: data for name, data in actual.items() if name != step.name}
    total = _differing(others, rest)
    old, new, now = files.get(step.name, b""), done[step.name], actual.get(step.name, b"")
    if step.verb == "append" and not done[step.name].startswith(old):
        # The file is cut first.
        return total + min(_differing_bytes(old, now), _outside(b"", new, now))
    return total + _outside(old, new, now)


def _outside(old: bytes, new: bytes, now: bytes) -> int:
    """Bytes that are neither the old nor the new ones, nor zeros where neither file had any before."""
    low, high = sorted((len(old), len(new)))
    missing = max(0, low - len(now)) + max(0, len(now) - high)
    wrong = 0
    for position, byte in enumerate(now[:high]):
        was = old[position] if position < len(old) else 0
        if byte not in (was, new[position] if position < len(new) else 0):
            wrong += 1
    return missing + wrong


@dataclass
class Client:
    """Promises that a client's ledger holds."""

    number: int
    seed: int
    files: Files = field(default_factory=dict)
    records: set[int] = field(default_factory=set)
    """Steps whose records are in the file of all clients."""
    doubtful_records: set[int] = field(default_factory=set)
    doubtful: Step | None = None
    operations: int = 0
    next: int = 0
    _lines: int = 0

    def read(self, lines: list[dict[str, Any]]) -> None:
        """Take in the ledger's words since it was read last."""
        self.doubtful = None
        begun: Step | None = None
        for line in lines[self._lines :]:
            step = Step.draw(self.seed, line["number"])
            if line["says"] == "begin":
                begun, self.next = step, step.number + 1
            elif line["says"] == "done":
                begun = None
                self._done(step)
        self._lines = len(lines)
        if begun is not None and begun.verb == "record":
            self.doubtful_records.add(begun.number)
        elif begun is not None:
            self.doubtful = begun

    def _done(self, step: Step) -> None:
        self.operations += 1
        if step.verb == "record":
            self.records.add(step.number)
        else:
            self.files = apply(self.files, step, self.seed)


def judge_records(content: bytes, clients: list[Client]) -> tuple[int, int]:
    """Count the bytes of completed records that are lost, and the records that are there twice or that no client
    wrote.
    """
    promised = {Step.draw(each.seed, number).record(each.number) for each in clients for number in each.records}
    possible = {
        Step.draw(each.seed, number).record(each.number) for each in clients for number in each.doubtful_records
    }
    there: set[bytes] = set()
    strange = 0
    for start in range(0, len(content), RECORD_BYTES):
        record = content[start : start + RECORD_BYTES]
        if record in there or (record not in promised and record not in possible):
            strange += 1
        there.add(record)
    return len(promised - there) * RECORD_BYTES, strange
