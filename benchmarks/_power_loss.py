"""Power losses under a store: each state of the disk below the store is built, and the store started on it.

A program works on a mounted store of two servers whose home lies on a file system of its own; the device below that
records every write and barrier (`_block_record.py`). Then, as ALICE and CrashMonkey do, power is lost after a write:
the device has every write before it, or, of those since the last barrier, only some. The real servers start on each,
and each name is read. It has a content that it had since the last fsync, or was being given then; a name that was
being removed may be gone. All else is a violation.
"""

import bisect
import contextlib
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _block_record import RECORD_HEAD_BYTES, Operation, loop_device, mounted, operations, recorded
from _harness import WAIT_SECONDS, WEIR

STATES = 60
"""Number of states of each file system, unless WEIR_POWER_LOSS_STATES names another: each takes a second or two."""
SEED = 11
FILE_SYSTEMS = {
    "ext4": (64 << 20, ["mkfs.ext4", "-q", "-F", "-J", "size=4"]),
    "xfs": (320 << 20, ["mkfs.xfs", "-q", "-f"]),
}
"""Size of the device, near the smallest that the tool takes, and the program that makes the file system."""
_FOREIGN_BOOT = b"\x77" * 16
"""The journal's logs are told that the machine has started anew."""
_LOG_HEAD_BYTES, _BOOT, _CHECKED = 56, slice(32, 48), 52
_CLUSTER = (
    """version = 1
[layout]
stripe_size = "4KiB"
stripe_count = 2
"""
    + 2 * ("[[server]]\n" + 2 * '[[server.target]]\nbackend = "dir"\ncapacity = "16MiB"\n')
)


@dataclass(frozen=True)
class Version:
    """A content of a name, or none, and the part of the recording in which it was given."""

    content: bytes | None
    begun: int
    synced: bool
    """Whether the content was on stable storage before the name had it."""

    def allows(self, found: bytes | None) -> bool:
        """Whether a power loss may leave these bytes of it: bytes never synced may be zeros, or missing at the end."""
        if self.synced or self.content is None or found is None:
            return found == self.content
        return len(found) <= len(self.content) and all(
            byte in (0, given) for byte, given in zip(found, self.content, strict=False)
        )


@dataclass
class Model:
    """The contents that each name had, and those that fsync promised."""

    log: Path
    versions: dict[str, list[Version]] = field(default_factory=dict)
    promises: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    """Positions in the recording at which power is lost in any case."""

    def position(self) -> int:
        """Length of the recording so far."""
        return self.log.stat().st_size

    def begin(self, name: str, content: bytes | None, *, synced: bool = True) -> None:
        """A call begins that gives a name this content."""
        self.versions.setdefault(name, [Version(None, 0, True)]).append(Version(content, self.position(), synced))

    def promise(self) -> None:
        """An fsync of everything so far has returned."""
        last = {name: len(versions) - 1 for name, versions in self.versions.items()}
        self.promises.append((self.position(), last))

    def violations(self, position: int, found: dict[str, bytes | OSError]) -> list[str]:
        """The names whose content is none that a power loss at this position may leave."""
        kept = [last for at, last in self.promises if at <= position]
        wrong = []
        for name, versions in self.versions.items():
            least = kept[-1].get(name, 0) if kept else 0
            allowed = [one for index, one in enumerate(versions) if index >= least and one.begun <= position]
            content = found.get(name)
            if isinstance(content, OSError):
                wrong.append(f"{name}: {content.strerror}")
            elif not any(one.allows(content) for one in allowed):
                wrong.append(f"{name}: {_told(content)}, not {' or '.join(_told(one.content) for one in allowed)}")
        return wrong


def _told(content: bytes | None) -> str:
    if content is None:
        return "absent"
    kind = "zeros" if content and not any(content) else hashlib.sha256(content).hexdigest()[:8]
    return f"{len(content)} bytes ({kind})"


class _Program:
    """The program that works on the store."""

    def __init__(self, model: Model, root: Path, seed: int) -> None:
        self.model = model
        self.root = root
        self.choices = random.Random(seed)

    def content(self) -> bytes:
        return self.choices.randbytes(self.choices.randint(3_000, 20_000))

    def create(self, name: str, *, synced: bool = True) -> None:
        """Open with O_TRUNC, write, fsync."""
        content = self.content()
        self.model.begin(name, b"")
        self.model.begin(name, content, synced=False)
        with (self.root / name).open("wb") as file:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        if synced:
            self.model.promise()

    def replace(self, names: Sequence[str]) -> None:
        """Write new files, fsync them, rename them over the old ones; no directory is synced."""
        contents = {name: self.content() for name in names}
        for name, content in contents.items():
            with (self.root / f"{name}.new").open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        # An fsync brings the whole journal of the home to stable storage.
        self.model.promise()
        for name, content in contents.items():
            self.model.begin(name, content)
            (self.root / f"{name}.new").rename(self.root / name)

    def cut(self, name: str, length: int) -> None:
        before = self.model.versions[name][-1].content or b""
        self.model.begin(name, before[:length].ljust(length, b"\0"))
        os.truncate(self.root / name, length)

    def remove(self, name: str) -> None:
        self.model.begin(name, None)
        (self.root / name).unlink()

    def fsync(self) -> None:
        for folder in {self.root, *((self.root / name).parent for name in self.model.versions)}:
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        self.model.promise()


def _work(program: _Program, environment: dict[str, str], below: Path) -> None:
    """Files are replaced, removed, cut, placed and moved; others sync the file system below meanwhile."""
    (program.root / "folder").mkdir()
    (program.root / "placed").mkdir()
    layout = ["-E", "8k", "-c", "1", "-E", "-1", "-c", "3", "-S", "4k"]
    _weir(environment, "layout", "set", *layout, str(program.root / "placed"))
    names = [f"{folder}file-{number}" for number in range(20) for folder in ("", "folder/")]
    placed = [f"placed/file-{number}" for number in range(4)]
    for name in [*names, *placed]:
        program.create(name)
    program.fsync()
    _sync_below(program.model, below)
    program.replace([*names[:20], placed[0]])
    for name in [*names[20:30], placed[1]]:
        program.remove(name)
    _sync_below(program.model, below)
    for name in [*names[30:33], placed[2]]:
        program.create(name, synced=False)
    _sync_below(program.model, below)
    for name in [*names[33:35], placed[3]]:
        program.cut(name, 1500)
        _sync_below(program.model, below)
    program.cut(names[35], 0)
    program.cut(names[36], 30_000)
    _sync_below(program.model, below)
    _weir(environment, "rebalance", "--gather", "--to", "1.0,1.1", *(str(program.root / name) for name in names[37:40]))
    _sync_below(program.model, below)
    program.create(names[0])
    program.replace([placed[3], names[1], names[38]])
    program.remove(names[39])
    _sync_below(program.model, below)


def _sync_below(model: Model, below: Path) -> None:
    """Sync a file of one's own on the file system below, as another process would, and lose power; again later."""
    for wait_seconds in (0.05, 0.4):
        # Space that waits for the journals may be freed meanwhile.
        time.sleep(wait_seconds)
        with (below / "another").open("ab") as file:
            file.write(b"bytes of somebody else")
            file.flush()
            os.fsync(file.fileno())
        model.moments.append(model.position())


def _weir(environment: dict[str, str], *arguments: str) -> None:
    command = [str(WEIR), *arguments]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=WAIT_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


@contextlib.contextmanager
def _store(below: Path, mount: Path) -> Iterator[dict[str, str]]:
    """A store whose home lies on `below`; at the end its programs are killed."""
    home = below / "home"
    environment = {**os.environ, "WEIR_HOME": str(home), "NO_COLOR": "1"}
    cluster = mount.with_name("cluster.toml")
    cluster.write_text(_CLUSTER)
    try:
        _weir(environment, "up", str(cluster), "--mount", str(mount))
        yield environment
    finally:
        records = [*home.glob("servers/*/pid"), *home.glob("mounts/*.pid"), *home.glob("mounts/*.json")]
        pids = [int(record.read_text().split()[0]) for record in records if record.name == "pid"]
        subprocess.run(["umount", "--lazy", str(mount)], check=False, capture_output=True, timeout=WAIT_SECONDS)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def _record(kind: str, directory: Path) -> tuple[bytes, list[Operation], Model]:
    """The image before, all writes to it, and the promises."""
    size, make = FILE_SYSTEMS[kind]
    image, log = directory / "image", directory / "log"
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run([*make, str(image)], check=True, capture_output=True, timeout=WAIT_SECONDS)
    model = Model(log)
    with recorded(image, log, directory / "recorded") as device, mounted(device, directory / "below") as below:
        mount = directory / "mount"
        with _store(below, mount) as environment:
            _work(_Program(model, mount, SEED), environment, below)
    return image.read_bytes(), operations(log), model


@dataclass(frozen=True)
class State:
    """A power loss: the number of operations before it, and the missing writes since the last barrier."""

    operations: int
    missing: frozenset[int]


def _states(recording: Sequence[Operation], model: Model, count: int) -> list[State]:
    """Power losses at the model's moments and anywhere else, half of all with some of the last writes missing."""
    choices = random.Random(SEED)
    positions = _positions(recording)
    first, last = bisect.bisect_left(positions, model.promises[0][0]), len(recording)
    points = {bisect.bisect_left(positions, moment) for moment in model.moments} | {last}
    points |= set(choices.sample(range(first, last), max(0, count // 2 - len(points))))
    states = {State(point, frozenset()) for point in points}
    barriers = [index for index, one in enumerate(recording) if one.is_barrier]
    for _ in range(10 * count):
        if len(states) >= count:
            break
        point = choices.randint(first, last)
        since = max((index + 1 for index in barriers if index < point), default=0)
        states.add(State(point, frozenset(index for index in range(since, point) if choices.random() < 0.5)))
    return sorted(states, key=lambda state: (state.operations, sorted(state.missing)))


def _built(image: bytes, recording: Sequence[Operation], states: Sequence[State]) -> Iterator[tuple[State, bytearray]]:
    """Each state's device."""
    device, done = bytearray(image), 0
    for state in states:
        since = max((index + 1 for index in range(done, state.operations) if recording[index].is_barrier), default=done)
        while done < since:
            _apply(device, recording[done])
            done += 1
        crashed = bytearray(device)
        for index in range(done, state.operations):
            if index not in state.missing:
                _apply(crashed, recording[index])
        yield state, crashed


def _apply(device: bytearray, operation: Operation) -> None:
    if operation.data is not None:
        device[operation.offset : operation.offset + len(operation.data)] = operation.data


def _found(crashed: bytearray, directory: Path, names: Sequence[str]) -> dict[str, bytes | OSError]:
    """Start the store on a device, and read every name."""
    image = directory / "crashed"
    image.write_bytes(crashed)
    with loop_device(image) as device, mounted(device, directory / "below", "-o", "rw") as below:
        _forget_run(below / "home")
        with _store(below, directory / "mount"):
            contents: dict[str, bytes | OSError] = {}
            for name in names:
                try:
                    contents[name] = (directory / "mount" / name).read_bytes()
                except FileNotFoundError:
                    pass
                except OSError as error:
                    contents[name] = error
            return contents


def _forget_run(home: Path) -> None:
    """Remove the marks of running servers, which a power loss ends, and date the journals' logs to another boot."""
    for leftover in [home / "cluster.json", *home.glob("mounts/*"), *home.glob("servers/*/pid")]:
        leftover.unlink(missing_ok=True)
    for log in home.glob("servers/*/journal/log-*"):
        with log.open("r+b") as file:
            head = bytearray(file.read(_LOG_HEAD_BYTES))
            if len(head) == _LOG_HEAD_BYTES and zlib.crc32(head[:_CHECKED]) == int.from_bytes(
                head[_CHECKED:], "little"
            ):
                head[_BOOT] = _FOREIGN_BOOT
                head[_CHECKED:] = zlib.crc32(head[:_CHECKED]).to_bytes(4, "little")
                file.seek(0)
                file.write(head)


def _positions(recording: Sequence[Operation]) -> list[int]:
    """Position in the log of each operation's begin, and of the end of the last one."""
    lengths = (RECORD_HEAD_BYTES + len(one.data or b"") for one in recording)
    return list(itertools.accumulate(lengths, initial=0))


def _judge(kind: str, count: int) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="weir-power-") as folder:
        directory = Path(folder)
        image, recording, model = _record(kind, directory)
        positions = _positions(recording)
        states = _states(recording, model, count)
        wrong: list[str] = []
        for number, (state, crashed) in enumerate(_built(image, recording, states)):
            try:
                found = _found(crashed, directory, list(model.versions))
                broken = model.violations(positions[state.operations], found)
            except (RuntimeError, OSError) as error:
                broken = [f"the store does not start: {error}"]
            wrong.extend(f"{kind}, after {state.operations} writes less {len(state.missing)}: {one}" for one in broken)
            print(f"{kind}: state {number + 1} of {len(states)}, {len(broken)} wrong", file=sys.stderr, flush=True)
    return len(states), wrong


def measure(states: int | None = None, file_systems: Sequence[str] = tuple(FILE_SYSTEMS)) -> dict[str, object]:
    """Lose power again and again.

    Args:
        states: Number of states of each file system.
        file_systems: Names out of `FILE_SYSTEMS`.

    Returns:
        `power_loss_states`, `power_loss_violations` (names in them that are neither old nor new), and the first few of
        these in words. Without root there are no states: mounting needs it.
    """
    if os.geteuid() != 0:
        return {"power_loss_states": 0, "power_loss_violations": 0, "power_loss_skipped": "mounting needs root"}
    count = states or int(os.environ.get("WEIR_POWER_LOSS_STATES", STATES))
    judged = [_judge(kind, count) for kind in file_systems]
    wrong = [one for _, violations in judged for one in violations]
    return {
        "power_loss_states": sum(states for states, _ in judged),
        "power_loss_violations": len(wrong),
        "power_loss_examples": wrong[:10],
    }


if __name__ == "__main__":
    print(json.dumps(measure(file_systems=sys.argv[1:] or tuple(FILE_SYSTEMS)), indent=2))
