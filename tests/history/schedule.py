"""A random schedule: clients on several hosts, and faults of these hosts, all chosen by one seed."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hosts import Host, Hosts
from waits import PATIENCE_SECONDS

from history import client, operations
from history.checks import appends, bounded, claims, glances, holds, increments, inserts, makes, registers
from history.faults import FAULTS, Scene
from history.operations import Operation

STEPS = 5
"""Faults of one schedule."""
BOUND_SECONDS = PATIENCE_SECONDS / 2
"""Longest time of one operation. Each of its calls ends within 13 s where the machine is not busy."""
ROOM = "192m"
"""Disk of a host whose disk is to be full now and then."""
_QUIET_SECONDS = 1.5
"""Time between faults, in which the store works."""
_ATTEMPTS = 20
"""Attempts to read the end of all files: a client may count a server as lost for a moment after the last fault."""
_PREFIX = "/weir"
_WAYS = ("mount", "preload", "prefix")
"""Ways of clients: through the kernel, by the preload library over a mount, and by the library alone."""


@dataclass
class Outcome:
    """A schedule's end.

    Attributes:
        history: All operations.
        faults: The faults in words.
        violations: Answers that no right store could have given.
        files: Files of the history, which the schedule leaves behind.
    """

    history: list[Operation]
    faults: list[str]
    violations: list[str]
    files: list[Path]

    @property
    def answered(self) -> int:
        """Operations without an error."""
        return sum(operation.error == 0 for operation in self.history)

    @property
    def longest_seconds(self) -> float:
        """Time of the longest operation that was answered."""
        times = [one.ended - one.begin for one in self.history if one.ended != operations.NEVER]
        return max(times, default=0.0)


@dataclass
class _Clients:
    """The clients of a schedule."""

    network: Hosts
    folder: str
    dice: random.Random
    running: dict[Path, "subprocess.Popen[str]"] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)

    @property
    def own(self) -> Path:
        """Folder of the histories on this machine."""
        return self.network.folder / self.folder

    def start(self, host: str, ways: Iterable[str]) -> None:
        """Start clients on a host, by each of the ways."""
        for way in ways:
            history = self.own / f"{host}-{way}-{len(self.running)}.jsonl"
            root = str(self.network.home / "mnt") if way != "prefix" else _PREFIX
            command = [sys.executable, client.__file__, "work"]
            run = [self.network.program, "run", *(["--prefix", _PREFIX] if way == "prefix" else []), "--"]
            words = [f"{root}/{self.folder}", str(history), str(self.own / "stop"), str(self.dice.randrange(1 << 32))]
            whole = [*(run if way != "mount" else []), *command, *words]
            with history.with_suffix(".errors").open("w") as errors:
                self.running[history] = self.network[host].start(*whole, stderr=errors)

    def restart(self, host: str) -> None:
        """Start clients again on a host whose processes were killed."""
        ways = [path.stem.split("-")[1] for path in self.running if path.stem.split("-")[0] == host]
        self.killed |= {path.stem for path in self.running if path.stem.split("-")[0] == host}
        self.start(host, dict.fromkeys(ways))

    def end(self) -> list[str]:
        """Let all clients end; answers in words which did not, and which ended otherwise."""
        (self.own / "stop").touch()
        problems = []
        for path, process in self.running.items():
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                problems.append(f"{path.stem} does not end")
                process.kill()
            if (process.returncode or not path.exists()) and path.stem not in self.killed:
                said = path.with_suffix(".errors").read_text().strip().splitlines()
                problems.append(f"{path.stem} ended with {process.returncode}: {said[-1] if said else ''}")
        return problems


def run(network: Hosts, servers: Sequence[str], seed: int, *, kinds: Sequence[str] = tuple(FAULTS)) -> Outcome:
    """Run one schedule on a deployed store with durable targets.

    Args:
        network: The hosts; every one of `servers` mounts the store.
        servers: Names of the hosts that have servers, by the servers' numbers.
        seed: Seed of every choice.
        kinds: Names of the faults to choose among.

    Returns:
        The history, the faults in words, and what was wrong.
    """
    dice = random.Random(seed)
    clients = _Clients(network, f"schedule-{seed}", dice)
    clients.own.mkdir()
    first = network[servers[0]]
    mount = network.home / "mnt" / clients.folder
    first.run(sys.executable, client.__file__, "prepare", mount)
    for name in servers:
        clients.start(name, dice.sample(_WAYS, 2))
    scene = Scene(network, servers, dice, clients.restart)
    faults = []
    try:
        for _ in range(STEPS):
            time.sleep(_QUIET_SECONDS)
            faults.append(FAULTS[dice.choice(list(kinds))](scene))
        time.sleep(_QUIET_SECONDS)
    finally:
        problems = clients.end()
    history = operations.read(path for path in clients.running if path.exists())
    ends: dict[str, Any] = {}
    for name in servers:
        said = _end_seen_by(network[name], mount)
        if isinstance(said, str):
            problems.append(f"{name} cannot use the store after the faults: {said}")
        else:
            ends[name] = said
    for name, told in ends.items():
        if told != next(iter(ends.values())):
            problems.append(f"{name} and {next(iter(ends))} see different files")
    for told in [*ends.values()][:1]:
        problems += _checked(history, told, clients.killed)
    first.run("sh", "-c", f"rm -rf {mount} {mount}-made-*")
    return Outcome(history, faults, problems, [path for path in clients.running if path.exists()])


def _end_seen_by(host: Host, mount: Path) -> dict[str, Any] | str:
    """The end of all files as a host sees it, once faults have no more effect; else the last words of the attempt."""
    said = ""
    for _ in range(_ATTEMPTS):
        answer = host.run(sys.executable, client.__file__, "tell", mount, code=None)
        if answer.returncode == 0:
            told: dict[str, Any] = json.loads(answer.stdout)
            return told
        said = answer.stderr.strip().splitlines()[-1]
        time.sleep(_QUIET_SECONDS)
    return said


def _checked(history: list[Operation], told: dict[str, Any], killed: set[str]) -> list[str]:
    """The violations of a history whose files ended so."""

    def of(*prefixes: str) -> list[Operation]:
        return [operation for operation in history if operation.file.startswith(prefixes)]

    whole = client.INITIAL.strip()
    names = {*told["names"], *(f"../{name}" for name in told["directories"])}
    lines = {name: "".join(f"{line.rstrip()}\n" for line in log.splitlines()) for name, log in told["logs"].items()}
    made = [_without_schedule(operation) for operation in history]
    return [
        *registers(of("register-", "renamed-"), whole),
        *registers(operations.halves(of("straddle-")), whole),
        *registers(of("length-"), "0"),
        *appends(history, lines),
        *glances(history, told["logs"]),
        *increments(history, told["counters"]),
        *holds(history),
        *claims(history, told["names"]),
        *makes(made, names),
        *inserts(history, told["rows"], told["integrity"], client.MALFORMED),
        *bounded(history, BOUND_SECONDS, killed),
    ]


def _without_schedule(operation: Operation) -> Operation:
    """The operation, with the name of a directory in the root as `tell` answers it."""
    if not operation.file.startswith("../"):
        return operation
    return replace(operation, file=f"../made-{operation.file.rpartition('-')[2]}")


def errors(history: Iterable[Operation]) -> Counter[int]:
    """Count the errors of a history.

    Args:
        history: Operations.

    Returns:
        The number of operations that ended with each error.
    """
    return Counter(operation.error for operation in history if operation.error)
