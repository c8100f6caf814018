"""A random schedule: clients on several hosts, and faults of their network and servers, all chosen by one seed."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hosts import Host, Hosts
from store import program
from waits import PATIENCE_SECONDS

from history import client, operations
from history.checks import appends, bounded, increments, registers
from history.operations import Operation

STEPS = 5
"""Faults of one schedule."""
_FAULT_SECONDS = (0.5, 12.0)
"""Shortest and longest fault: some outlast the silence after which clients give up, 10 s."""
_QUIET_SECONDS = 1.5
"""Time between faults, in which the store works."""
_PREFIX = "/weir"


@dataclass
class Outcome:
    """A schedule's end."""

    history: list[Operation]
    faults: list[str]
    violations: list[str]


def run(network: Hosts, servers: list[str], seed: int) -> Outcome:
    """Run one schedule on a deployed store with durable targets.

    Args:
        network: The hosts; every one of `servers` mounts the store.
        servers: Names of the hosts that have servers, by the servers' numbers.
        seed: Seed of every choice.

    Returns:
        The history, the faults in words, and what was wrong.
    """
    dice = random.Random(seed)
    folder = f"schedule-{seed}"
    mount = network.home / "mnt" / folder
    first = network[servers[0]]
    _make_files(first, mount)
    stop = network.folder / f"{folder}.stop"
    histories = [network.folder / f"{folder}-{name}-{way}.jsonl" for name in servers for way in ("mount", "preload")]
    clients = [_start_client(network, path, folder, stop, dice.randrange(1 << 32)) for path in histories]
    faults = []
    try:
        for _ in range(STEPS):
            time.sleep(_QUIET_SECONDS)
            faults.append(_fault(network, servers, dice))
        time.sleep(_QUIET_SECONDS)
    finally:
        stop.touch()
        for each in clients:
            each.wait(PATIENCE_SECONDS)
    history = operations.read(histories)
    lines = first.run("cat", mount / "log").stdout
    contents = {"log": "".join(f"{line.rstrip()}\n" for line in lines.splitlines())}
    counters = [f"counter-{number}" for number in range(client.COUNTERS)]
    finals = {name: int(first.run("cat", mount / name).stdout.strip() or "0") for name in counters}
    violations = [
        *registers(history, client.INITIAL.strip()),
        *appends(history, contents),
        *increments(history, finals),
        *bounded(history, PATIENCE_SECONDS / 2),
    ]
    return Outcome(history, faults, violations)


def _make_files(host: Host, mount: Path) -> None:
    whole = [f"{kind}-{number}" for kind in ("register", "renamed") for number in range(client.REGISTERS)]
    empty = ["log", *(f"counter-{number}" for number in range(client.COUNTERS))]
    made = " ".join(f"printf '%s' '{client.INITIAL}' >{mount}/{name};" for name in whole)
    host.run("sh", "-ec", f"mkdir {mount}; {made} cd {mount}; touch {' '.join(empty)}; sync")


def _start_client(network: Hosts, history: Path, folder: str, stop: Path, seed: int) -> "subprocess.Popen[str]":
    _, _, name, way = history.stem.split("-")
    command = [sys.executable, client.__file__]
    root = str(network.home / "mnt")
    if way == "preload":
        root = _PREFIX
        command = [*program(), "run", "--prefix", _PREFIX, "--", *command]
    return network[name].start(*command, f"{root}/{folder}", str(history), str(stop), str(seed))


def _fault(network: Hosts, servers: list[str], dice: random.Random) -> str:
    """Let one fault happen and end; returns it in words."""
    kinds: tuple[Callable[[Hosts, list[str], random.Random], str], ...] = (_cut, _deafen, _split, _slow, _pause, _kill)
    return dice.choice(kinds)(network, servers, dice)


def _last(dice: random.Random) -> float:
    seconds = dice.uniform(*_FAULT_SECONDS)
    time.sleep(seconds)
    return seconds


def _cut(network: Hosts, servers: list[str], dice: random.Random) -> str:
    host = network[dice.choice(servers)]
    host.cut()
    try:
        return f"{host.name} without network for {_last(dice):.1f} s"
    finally:
        host.join()


def _deafen(network: Hosts, servers: list[str], dice: random.Random) -> str:
    host = network[dice.choice(servers)]
    others = [other for other in network.all if other is not host]
    deaf_to = dice.sample(others, dice.randint(1, len(others)))
    host.deafen(deaf_to)
    try:
        return f"{host.name} hears nothing of {', '.join(other.name for other in deaf_to)} for {_last(dice):.1f} s"
    finally:
        host.hear()


def _split(network: Hosts, servers: list[str], dice: random.Random) -> str:
    half = dice.sample(servers, dice.randint(1, len(servers) - 1))
    rest = [name for name in servers if name not in half]
    for names, others in ((half, rest), (rest, half)):
        for name in names:
            network[name].deafen([network[other] for other in others])
    try:
        return f"{', '.join(half)} apart from {', '.join(rest)} for {_last(dice):.1f} s"
    finally:
        for name in servers:
            network[name].hear()


def _slow(network: Hosts, servers: list[str], dice: random.Random) -> str:
    host = network[dice.choice(servers)]
    host.slow(dice.choice(("64kbit", "1mbit")))
    try:
        return f"{host.name} with a slow network for {_last(dice):.1f} s"
    finally:
        host.hasten()


def _pause(network: Hosts, servers: list[str], dice: random.Random) -> str:
    """A server that does nothing, as when its machine swaps or its device hangs."""
    number = dice.randrange(len(servers))
    host = network[servers[number]]
    pid = _server_pid(network, servers, number)
    host.run("kill", "-STOP", pid)
    try:
        return f"server {number} stopped for {_last(dice):.1f} s"
    finally:
        host.run("kill", "-CONT", pid)


def _kill(network: Hosts, servers: list[str], dice: random.Random) -> str:
    number = dice.randrange(len(servers))
    network[servers[number]].run("kill", "-KILL", _server_pid(network, servers, number))
    seconds = _last(dice)
    network["desk"].weir("deploy")
    return f"server {number} killed, and started again after {seconds:.1f} s"


def _server_pid(network: Hosts, servers: list[str], number: int) -> str:
    record = network.home / "servers" / str(number) / "pid"
    return network[servers[number]].run("cut", "-d ", "-f1", record).stdout.strip()
