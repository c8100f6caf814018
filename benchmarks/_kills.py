"""Rounds of kills: servers, the mount and clients die by SIGKILL under load, and every promised byte is looked for.

.venv/bin/python benchmarks/_kills.py [--rounds N] [--seed S]      prints one JSON object

Clients go all three ways into a store of several servers on directories. They write over stripes of several servers,
append, cut, replace, rename, remove and synchronise; one file takes records from all of them. What a call promised
must be there after each round, synchronised or not: nothing but processes dies here. `_power_loss` is about the rest.
"""

import argparse
import errno
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from _harness import WEIR, announce
from _kill_model import BESIDE, FILE_BYTES_MAX, MAKING, RECORD_BYTES, Client, Files, Step, judge_records, lost_bytes

ROUNDS = 60
SERVERS = 3
STRIPE = "64K"
WAYS: tuple[tuple[str, ...], ...] = ((), ("--no-preload",), ("--prefix", "/weir"))
"""Options of `weir run`: the fast path beside the mount, the mount alone, the fast path alone."""
WAIT_SECONDS = 120.0
"""Longest wait until a client has stopped, or the store is up; both take seconds on a quiet machine."""
SETTLED_SECONDS = 0.1
"""Pause between two readings that must agree: a server carries out at once the requests that it received from a dead
client."""
VICTIMS = ("server", "server", "server", "server", "all servers", "mount", "client", "client")
RECORDS = "records"


def measure(rounds: int = ROUNDS, seed: int | None = None) -> dict[str, float]:
    """Kill in rounds; report the number of promised operations and of their lost bytes."""
    seed = random.randrange(1 << 31) if seed is None else seed
    print(f"kill rounds: seed {seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="weir-kills-", ignore_cleanup_errors=True) as name,
        _store(Path(name)) as arena,
    ):
        arena.start_clients(seed)
        choices = random.Random(seed)
        for number in range(rounds):
            arena.round(number, choices)
        operations = sum(client.operations for client in arena.clients)
    announce(
        "kill rounds", f"{rounds} rounds, {operations} operations", f"{arena.lost} bytes lost, 0 allowed", arena.lost
    )
    return {
        "kill_rounds": rounds,
        "kill_operations": operations,
        "kill_lost_bytes": arena.lost,
        "kill_doubled_records": arena.strange,
    }


class Arena:
    """The store, its clients, and the promises to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.mount = self.home / "mnt"
        self.clients: list[Client] = []
        self.workers: list[subprocess.Popen[str]] = []
        self.lost = 0
        self.strange = 0

    def weir(self, *words: object) -> None:
        """Run `weir`."""
        command = [str(word) for word in (WEIR, *words)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        if answer.returncode != 0:
            sys.exit(f"{command} failed with exit code {answer.returncode}: {answer.stderr}")

    def start_clients(self, seed: int) -> None:
        """Start one client for each way in."""
        for number in range(len(WAYS)):
            folder = self.mount / str(number)
            folder.mkdir()
            self.weir("layout", "set", "-c", "-1", "-S", STRIPE, folder)
            (folder / "sub").mkdir()
            self.clients.append(Client(number, seed + number))
            self.workers.append(self._start(number))

    def _start(self, number: int) -> subprocess.Popen[str]:
        client, options = self.clients[number], WAYS[number]
        root = Path("/weir") if options[:1] == ("--prefix",) else self.mount
        worker = [Path(__file__).resolve(), "--client", number, "--seed", client.seed, "--first", client.next]
        words = [WEIR, "run", *options, "--", sys.executable, *worker, "--root", root, "--ledger", self._ledger(number)]
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
            cwd="/",
        )
        if _answer(process) != "ready\n":
            sys.exit(f"{process.args!r} did not start")
        return process

    def _ledger(self, number: int) -> Path:
        return self.directory / f"ledger-{number}"

    def round(self, number: int, choices: random.Random) -> None:
        """Let the clients work, kill something in the middle, bring it back, and look for every promised byte."""
        for worker in self.workers:
            _say(worker, "go")
        time.sleep(choices.uniform(0.1, 0.6))
        victim = choices.choice(VICTIMS)
        self._kill(victim, choices)
        time.sleep(choices.uniform(0.1, 0.4))
        for index, worker in enumerate(self.workers):
            if not _stopped(worker):
                _end(worker)
                self.workers[index] = self._start_next(index)
        lost, strange = self._judge()
        if lost or strange:
            print(f"round {number}, a killed {victim}: {lost} bytes lost, {strange} strange records", flush=True)
        self.lost += lost
        self.strange += strange

    def _start_next(self, index: int) -> subprocess.Popen[str]:
        """A client in the place of a dead one, which goes on at the end of the ledger."""
        lines = _lines(self._ledger(index))
        self.clients[index].next = max((line["number"] + 1 for line in lines), default=0)
        return self._start(index)

    def _kill(self, victim: str, choices: random.Random) -> None:
        if victim == "client":
            _end(choices.choice(self.workers))
            return
        if victim == "mount":
            _kill(_pid(next(self.home.glob("mounts/*.pid"))))
            subprocess.run(["umount", "-l", self.mount], check=True, timeout=WAIT_SECONDS)
            self.weir("mount")
            return
        for _ in range(choices.choice((1, 1, 2))):
            pids = [_pid(path) for path in sorted(self.home.glob("servers/*/pid"))]
            for pid in pids if victim == "all servers" else [choices.choice(pids)]:
                with suppress(ProcessLookupError):
                    _kill(pid)
            self.weir("up", "--no-mount")

    def _judge(self) -> tuple[int, int]:
        """Look for the promises to every client; the next round begins with the present files."""
        lost = 0
        for client in self.clients:
            client.read(_lines(self._ledger(client.number)))
            actual = _settled(self.mount / str(client.number))
            wrong = lost_bytes(client.files, actual, client.doubtful, client.seed)
            if wrong:
                print(f"client {client.number}: {wrong} bytes lost before step {client.next}; doubt: {client.doubtful}")
            lost += wrong
            client.files = actual
        content = (self.mount / RECORDS).read_bytes() if (self.mount / RECORDS).exists() else b""
        missing, strange = judge_records(content, self.clients)
        return lost + missing, strange

    def end(self) -> None:
        """End every client."""
        for worker in self.workers:
            _end(worker)


@contextmanager
def _store(directory: Path) -> Iterator[Arena]:
    """A store of several servers on directories, mounted."""
    arena = Arena(directory)
    os.environ["WEIR_HOME"] = str(arena.home)
    arena.weir("up", "--servers", SERVERS, "--targets", 1, "--backend", "dir", "--capacity", "2GiB")
    try:
        yield arena
    finally:
        arena.end()
        arena.weir("down", "--force", "--discard", "--yes")


def _say(worker: subprocess.Popen[str], word: str) -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):
        worker.stdin.write(f"{word}\n")
        worker.stdin.flush()


def _stopped(worker: subprocess.Popen[str]) -> bool:
    """Whether a client has stopped in order after its order to stop; a dead one has not."""
    _say(worker, "stop")
    return _answer(worker) == "stopped\n"


def _answer(worker: subprocess.Popen[str]) -> str:
    """The next line of a client; empty where it is dead."""
    assert worker.stdout is not None
    ready, _, _ = select.select([worker.stdout], [], [], WAIT_SECONDS)
    if not ready:
        sys.exit(f"a client did not answer within {WAIT_SECONDS:.0f} s: {worker.args!r}")
    return worker.stdout.readline()


def _end(worker: subprocess.Popen[str]) -> None:
    """Kill a client: `weir run` and the program that it has started."""
    # After the wait its number may belong to a stranger's group.
    if worker.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(WAIT_SECONDS)


def _kill(pid: int) -> None:
    """Kill a process and wait until it has ended; until then, perhaps the end of an fsync, `weir up` finds it up."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            sys.exit(f"process {pid} did not end within {WAIT_SECONDS:.0f} s of SIGKILL")
    finally:
        os.close(descriptor)


def _pid(path: Path) -> int:
    return int(path.read_text().split()[0])


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a ledger."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _settled(folder: Path) -> Files:
    """The files of a client.

    What a dead client sent last may be carried out while they are read, so they are read until they stay the same.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    before: Files | None = None
    while True:
        files = _files(folder)
        if files is not None and files == before:
            return files
        if time.monotonic() > deadline:
            sys.exit(f"the files of {folder} changed for {WAIT_SECONDS:.0f} s, though no client worked")
        before = files
        time.sleep(SETTLED_SECONDS)


def _files(folder: Path) -> Files | None:
    """The files of a client, but for a replacement that was not finished; None where one went while they were read."""
    try:
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    except FileNotFoundError:
        return None
    files.pop(BESIDE, None)
    return files


class Worker:
    """A client's process: steps one after the other while it is told to go, each in the ledger before and after."""

    def __init__(self, number: int, seed: int, root: Path, ledger: Path, first: int) -> None:
        self.seed, self.number, self.step = seed, number, first
        self.folder, self.records = root / str(number), root / RECORDS
        self.ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.open: dict[str, int] = {}
        """Descriptors stay open over many steps, and over kills."""
        self.unread = b""

    def serve(self) -> None:
        """Obey until the input ends."""
        print("ready", flush=True)
        while word := self._word():
            if word == b"go":
                self._work()
            else:
                print("stopped", flush=True)

    def _word(self) -> bytes:
        """The next word; nothing at the end of the input."""
        while b"\n" not in self.unread:
            read = os.read(0, 4096)
            if not read:
                return b""
            self.unread += read
        word, _, self.unread = self.unread.partition(b"\n")
        return word

    def _work(self) -> None:
        """Go on until there is a word to be read, or a step has failed: it is then in doubt whether the step
        happened.
        """
        while not self.unread and not select.select([0], [], [], 0)[0]:
            step = Step.draw(self.seed, self.step)
            self.step += 1
            self._write_down(step, "begin")
            try:
                self._do_or_miss(step)
            except OSError as error:
                self._write_down(step, errno.errorcode.get(error.errno or 0, "error"))
                for name in list(self.open):
                    with suppress(OSError):
                        self._close(name)
                return
            self._write_down(step, "done")

    def _write_down(self, step: Step, says: str) -> None:
        os.write(self.ledger, json.dumps({"number": step.number, "says": says}).encode() + b"\n")

    def _do_or_miss(self, step: Step) -> None:
        """Do a step, or find that its name is not there: the model knows whether it should be.

        A mount point whose mount was killed has no names either. So a name is missing only if the step, done once more
        after the client's folder was seen, misses it again.
        """
        try:
            self._do(step)
        except FileNotFoundError:
            if step.verb in MAKING:
                raise
            self.folder.stat()
            with suppress(FileNotFoundError):
                self._do(step)

    def _do(self, step: Step) -> None:
        path, other = self.folder / step.name, self.folder / step.other
        match step.verb:
            case "write":
                _write_all(self._descriptor(step.name, os.O_CREAT), step.payload(self.seed), step.offset)
            case "append":
                self._append(step, path)
            case "truncate":
                os.truncate(path, step.offset)
            case "replace":
                self._replace(step, path)
            case "rename":
                path.replace(other)
                if step.name != step.other:
                    self._close(step.other)
                    if step.name in self.open:
                        self.open[step.other] = self.open.pop(step.name)
            case "unlink":
                path.unlink()
                self._close(step.name)
            case "sync":
                os.fsync(self._descriptor(step.name, 0))
            case "record":
                self._record(step)

    def _descriptor(self, name: str, flags: int) -> int:
        if name not in self.open:
            self.open[name] = os.open(self.folder / name, os.O_RDWR | flags, 0o600)
        return self.open[name]

    def _close(self, name: str) -> None:
        if name in self.open:
            os.close(self.open.pop(name))

    def _append(self, step: Step, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size + step.length > FILE_BYTES_MAX:
                os.ftruncate(descriptor, 0)
            data = step.payload(self.seed)
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)

    def _replace(self, step: Step, path: Path) -> None:
        beside = self.folder / BESIDE
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(descriptor, step.payload(self.seed), 0)
            if step.offset % 2:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
        self._close(step.name)

    def _record(self, step: Step) -> None:
        descriptor = os.open(self.records, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.write(descriptor, step.record(self.number)) != RECORD_BYTES:
                raise OSError(errno.EIO, "an append of a record was short")
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)


def main() -> None:
    """Kill in rounds, or be one of the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ledger", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is None:
        print(json.dumps(measure(options.rounds, options.seed)))
    else:
        Worker(options.client, options.seed, options.root, options.ledger, options.first).serve()


if __name__ == "__main__":
    main()
