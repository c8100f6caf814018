"""Faults of several hosts: of their network, servers, mounts, clocks and disks. Each begins, lasts and ends."""

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from hosts import Host, Hosts
from waits import PATIENCE_SECONDS

_FAULT_SECONDS = (0.5, 12.0)
"""Shortest and longest fault: some outlast the silence after which clients give up, 10 s."""
_ATTEMPTS = 20
"""Attempts of a command after a fault."""
_CLOCK_SECONDS = 100.0
"""Greatest difference of a clock: `weir deploy` refuses clocks that are 120 s apart."""


@dataclass
class Scene:
    """The hosts of a schedule, and the dice that choose what happens to them.

    Attributes:
        network: The hosts.
        servers: Names of the hosts that have servers, by the servers' numbers.
        dice: Source of all choices.
        restart: Starts the clients of a host again, whose processes were killed.
    """

    network: Hosts
    servers: Sequence[str]
    dice: random.Random
    restart: Callable[[str], None]
    told: list[str] = field(default_factory=list)

    def host(self) -> Host:
        """A host that has a server."""
        return self.network[self.dice.choice(self.servers)]

    def last(self) -> str:
        """Let a fault last; answers how long, in words."""
        seconds = self.dice.uniform(*_FAULT_SECONDS)
        time.sleep(seconds)
        return f"{seconds:.1f} s"

    def mend(self) -> None:
        """Start again what ended."""
        self.network["desk"].weir("deploy")

    def server_process(self, number: int) -> str:
        """The process of a server, as its host sees it."""
        record = self.network.home / "servers" / str(number) / "pid"
        return self.network[self.servers[number]].run("cut", "-d ", "-f1", record).stdout.strip()


def cut(scene: Scene) -> str:
    """A host loses its network in both directions."""
    host = scene.host()
    host.cut()
    try:
        return f"{host.name} without network for {scene.last()}"
    finally:
        host.join()


def deafen(scene: Scene) -> str:
    """A host no longer hears some others, which still hear it."""
    host = scene.host()
    others = [other for other in scene.network.all if other is not host]
    deaf_to = scene.dice.sample(others, scene.dice.randint(1, len(others)))
    host.deafen(deaf_to)
    try:
        return f"{host.name} hears nothing of {', '.join(other.name for other in deaf_to)} for {scene.last()}"
    finally:
        host.hear()


def split(scene: Scene) -> str:
    """The servers are in two halves that hear nothing of each other."""
    with _halves(scene) as halves:
        return f"{halves} for {scene.last()}"


def restart_while_split(scene: Scene) -> str:
    """A server ends and starts again while the servers are in two halves."""
    number = scene.dice.randrange(len(scene.servers))
    with _halves(scene) as halves:
        scene.network[scene.servers[number]].run("kill", "-KILL", scene.server_process(number))
        scene.mend()
        return f"{halves}, server {number} killed and started again, for {scene.last()} more"


def slow(scene: Scene) -> str:
    """A host's network is slow."""
    host = scene.host()
    rate = scene.dice.choice(("64kbit", "1mbit"))
    host.slow(rate)
    try:
        return f"{host.name} sends at most {rate} for {scene.last()}"
    finally:
        host.hasten()


def pause(scene: Scene) -> str:
    """A server does nothing, as when its machine swaps or its device hangs."""
    number = scene.dice.randrange(len(scene.servers))
    host = scene.network[scene.servers[number]]
    process = scene.server_process(number)
    host.run("kill", "-STOP", process)
    try:
        return f"server {number} stopped for {scene.last()}"
    finally:
        host.run("kill", "-CONT", process)


def kill(scene: Scene) -> str:
    """A server ends without a word, and starts again later."""
    number = scene.dice.randrange(len(scene.servers))
    scene.network[scene.servers[number]].run("kill", "-KILL", scene.server_process(number))
    lasted = scene.last()
    scene.mend()
    return f"server {number} killed, and started again after {lasted}"


def kill_mount(scene: Scene) -> str:
    """A mount ends without a word, and is made again later."""
    host = scene.host()
    host.run("pkill", "-KILL", "weir-mount", code=None)
    lasted = scene.last()
    scene.mend()
    return f"the mount of {host.name} killed, and made again after {lasted}"


def power_off(scene: Scene) -> str:
    """A host is gone with all its processes: nobody hears their connections end. Later it is back."""
    host = scene.host()
    host.cut()
    host.run("pkill", "-KILL", "weir-server|weir-mount", code=None)
    host.run("pkill", "-KILL", "-f", "history/client.py", code=None)
    try:
        lasted = scene.last()
    finally:
        host.join()
    scene.mend()
    scene.restart(host.name)
    return f"{host.name} lost its power, and had it again after {lasted}"


def jump(scene: Scene) -> str:
    """The clock of a host jumps, and jumps back."""
    host = scene.host()
    seconds = scene.dice.uniform(-_CLOCK_SECONDS, _CLOCK_SECONDS)
    host.shift_clock(seconds)
    try:
        return f"the clock of {host.name} off by {seconds:+.0f} s for {scene.last()}"
    finally:
        host.shift_clock(0.0)


def fill(scene: Scene) -> str:
    """A host's disk is full: its server's journal and targets have no room."""
    host = scene.host()
    hog = scene.network.home / "hog"
    host.run("sh", "-c", f"cat /dev/zero >{hog}", code=None)
    try:
        return f"the disk of {host.name} full for {scene.last()}"
    finally:
        host.run("rm", "-f", hog)


def resize(scene: Scene) -> str:
    """A target joins a server, gets new files and moved ones, and retires again."""
    number = scene.dice.randrange(len(scene.servers))
    desk = scene.network["desk"]
    added = json.loads(desk.weir("target", "add", str(number), "--backend", "dir", "--output", "json").stdout)["target"]
    desk.weir("rebalance", "--until", "0", code=None)
    lasted = scene.last()
    desk.weir("target", "retire", added)
    return f"target {added} joined, and retired after {lasted}"


def grow_and_shrink(scene: Scene) -> str:
    """A server joins, gets trees and files, and retires to another host; commands and servers are killed meanwhile."""
    host = scene.host().name
    before = len(json.loads(scene.network["desk"].weir("status", "--output", "json", code=None).stdout)["servers"])
    troubles = [_interrupted(scene, ("server", "add", "--host", host))]
    added = _done(scene, "server", "add", "--host", host)
    scene.network["desk"].weir("rebalance", "--until", "0", code=None)
    lasted = scene.last()
    goal = scene.dice.choice([name for name in scene.servers if name != host])
    words = ("server", "retire", str(added["server"]), "--to", goal)
    troubles += [_interrupted(scene, words), _interrupted(scene, words)]
    # Where nothing went wrong the first command has added one, too.
    for number in range(before, int(added["server"]) + 1):
        _done(scene, "server", "retire", str(number), "--to", goal)
    met = ", ".join(trouble for trouble in troubles if trouble) or "nothing else"
    return f"server {added['server']} joined on {host}, and retired to {goal} after {lasted}; meanwhile: {met}"


def _interrupted(scene: Scene, words: Sequence[str]) -> str:
    """Begin a command, and let something go wrong at a random moment; answers what, in words."""
    trouble = scene.dice.choice(("", "kill the command", "kill a server", "cut a host"))
    if not trouble:
        return ""
    desk = scene.network["desk"]
    running = desk.start(scene.network.program, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(scene.dice.uniform(0.0, 8.0))
    if trouble == "kill the command":
        desk.run("pkill", "-KILL", "-f", " ".join(words), code=None)
    elif trouble == "kill a server":
        scene.host().run("pkill", "-KILL", "weir-server", code=None)
    else:
        host = scene.host()
        host.cut()
        try:
            scene.last()
        finally:
            host.join()
    running.wait(PATIENCE_SECONDS)
    scene.mend()
    return trouble


def _done(scene: Scene, *words: str) -> dict[str, Any]:
    """Give a command until it succeeds: after a fault the servers need a moment to hear of each other."""
    for attempt in range(_ATTEMPTS, 0, -1):
        answer = scene.network["desk"].weir(*words, "--output", "json", code=0 if attempt == 1 else None)
        if answer.returncode == 0:
            break
        time.sleep(1.0)
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


FAULTS: dict[str, Callable[[Scene], str]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(cut, deafen, split, restart_while_split, slow, pause, kill, kill_mount, power_off, jump, fill, resize),
        grow_and_shrink,
    )
}
"""Every kind of fault by its name. A schedule chooses among them; each answers in words what happened."""

NEEDS_DIRECTORIES = ("restart-while-split", "kill", "power-off", "grow-and-shrink", "resize")
"""Faults that end servers, which lose what they have in memory, and those that add targets in directories."""


@contextmanager
def _halves(scene: Scene) -> Iterator[str]:
    """Servers in two halves; the value says which."""
    half = scene.dice.sample(scene.servers, scene.dice.randint(1, len(scene.servers) - 1))
    rest = [name for name in scene.servers if name not in half]
    with ExitStack() as ends:
        for names, others in ((half, rest), (rest, half)):
            for name in names:
                ends.callback(scene.network[name].hear)
                scene.network[name].deafen([scene.network[other] for other in others])
        yield f"{', '.join(half)} apart from {', '.join(rest)}"
