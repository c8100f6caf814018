"""Nodes with networks of their own on this machine: namespaces on one bridge, each with a link of a chosen speed.

Nothing of this machine's network is touched, and the namespaces end with the process that made them.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from weir.experiments.store import ExperimentError

_PROGRAMS = ("ip", "nsenter", "tc", "unshare")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""The folders of programs, also those of daemons, which a user's PATH may lack."""
_NETWORK = "10.78"
"""Upper half of the nodes' addresses, which meet no others in namespaces of their own."""
_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""
_PATIENCE_SECONDS = 20.0
_BURST_BYTES = 256 * 1024
"""Bytes that a link lets pass at once: some packets of the largest size, so that its rate is reached."""
_QUEUE = "200ms"
"""Longest wait of a packet in front of a link."""


def missing() -> str:
    """Tell why there can be no nodes here.

    Returns:
        The reason; empty where there can be nodes.
    """
    if os.geteuid() != 0:
        return "networks of their own need root"
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"there is no {', '.join(absent)} (packages iproute2 and util-linux)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"this machine makes no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Nodes:
    """Nodes by their numbers from 0: inside a `with` block they are there."""

    def __init__(self, count: int, *, bytes_per_second: float | None) -> None:
        """Describe the nodes.

        Args:
            count: Number of nodes, at most 60,000.
            bytes_per_second: Speed of each node's link in each direction; None leaves it to the machine.
        """
        self._count = count
        self._rate = bytes_per_second
        self._processes: list[int] = []
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> "Nodes":
        """Make the bridge, and the nodes with their links.

        Raises:
            ExperimentError: The system refuses a namespace or a link.
        """
        with contextlib.ExitStack() as ends:
            hub = ends.enter_context(_network())
            _run(hub, "ip", "link", "add", "bridge", "type", "bridge")
            _run(hub, "ip", "link", "set", "bridge", "up")
            for number in range(self._count):
                self._processes.append(ends.enter_context(_network()))
                self._connect(hub, number)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the namespaces, and with them the links."""
        self._ends.close()

    def address(self, number: int) -> str:
        """Name the address of a node."""
        return f"{_NETWORK}.{(number + 1) // 250}.{(number + 1) % 250 + 1}"

    def place(self, number: int) -> Path:
        """Find the file of a node's network namespace."""
        return Path(f"/proc/{self._processes[number]}/ns/net")

    def command(self, number: int) -> list[str]:
        """Make the words before a command that run it on a node."""
        return ["nsenter", f"--net={self.place(number)}", "--"]

    @contextlib.contextmanager
    def inside(self, number: int) -> Iterator[None]:
        """Put this thread, and what it starts, on a node for the length of a block.

        Raises:
            OSError: The system refuses.
        """
        with self.place(number).open() as there, Path("/proc/thread-self/ns/net").open() as here:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())

    def _connect(self, hub: int, number: int) -> None:
        """Hang a node on the bridge."""
        node, port = self._processes[number], f"port{number}"
        _run(hub, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(node))
        _run(hub, "ip", "link", "set", port, "master", "bridge", "up")
        _run(node, "ip", "link", "set", "lo", "up")
        _run(node, "ip", "address", "add", f"{self.address(number)}/16", "dev", "eth0")
        _run(node, "ip", "link", "set", "eth0", "up")
        if self._rate is not None:
            # A queue holds what leaves a device: at the node what it sends, at the bridge's port what it receives.
            shape = ("tbf", "rate", f"{round(8 * self._rate)}bit", "burst", f"{_BURST_BYTES}b", "latency", _QUEUE)
            _run(node, "tc", "qdisc", "add", "dev", "eth0", "root", *shape)
            _run(hub, "tc", "qdisc", "add", "dev", port, "root", *shape)


@contextlib.contextmanager
def _network() -> Iterator[int]:
    """A process with a network of its own, which ends with this one."""
    # `cat` ends when the last writer of its input is gone, also where this process is killed.
    process = subprocess.Popen(
        ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        own, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + _PATIENCE_SECONDS
        while process.poll() is None and Path(f"/proc/{process.pid}/ns/net").readlink() == own:
            if time.monotonic() > deadline:
                raise ExperimentError("the system makes no network namespace in time")
            time.sleep(0.005)
        if process.returncode is not None:
            raise ExperimentError("the system makes no network namespace", hint="run as root, outside of a container")
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def _run(process: int, *command: str) -> None:
    """Run a command in the network of a process."""
    done = subprocess.run(
        ["nsenter", f"--target={process}", "--net", "--", *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": _PATH},
    )
    if done.returncode:
        raise ExperimentError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")


def _enter(descriptor: int) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    if system.setns(descriptor, _NEW_NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
