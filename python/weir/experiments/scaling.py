"""Aggregate rates of a real store on nodes with networks of their own, for ThemisIO's figure 7.

Each server has a client node with eight processes, as in the paper (SC'23, section 5.2). What bounds a node is its
link, as there; the targets are memory.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir import native
from weir.experiments.networks import Nodes
from weir.experiments.scaling_load import PHASES, Specification
from weir.experiments.store import PREFIX, ExperimentError, Store

PROCESSES_PER_NODE = 8
"""Processes of a client node (SC'23, section 5.2)."""
_SERVER = """#!/bin/sh
# Runs weir-server in the network of its node; its checks run anywhere.
previous= node=
for argument; do
  [ "$previous" = --server ] && node=$argument
  previous=$argument
done
case " $* " in *" --check "*) node= ;; esac
[ -n "$node" ] && exec nsenter --net="{folder}/node-$node" -- "{program}" "$@"
exec "{program}" "$@"
"""
_READY_SECONDS = 60.0
_PHASE_SECONDS = 300.0
"""Longest time of a phase on a busy machine."""


@dataclass(frozen=True)
class Wanted:
    """One run."""

    servers: int
    bytes_per_second: float | None
    """Speed of each node's link in each direction; None leaves it to the machine."""
    request_bytes: int
    requests: int
    """Requests of each process, once to write and once to read."""
    files: int
    """Files that each process makes in a tree of its own."""
    create_seconds: float = 0.0
    """Emulated time of a metadata operation."""
    policy: str = "job-fair"
    clients: int | None = None
    """Client nodes; None is one for each server."""
    processes: int = PROCESSES_PER_NODE
    """Processes of a client node."""

    @property
    def client_nodes(self) -> int:
        """Number of client nodes."""
        return self.servers if self.clients is None else self.clients


@dataclass(frozen=True)
class Rates:
    """The rates of one run: the work of all processes over the time from the first begin to the last end."""

    servers: int
    write_bytes_per_second: float
    read_bytes_per_second: float
    creates_per_second: float
    homes: tuple[int, ...]
    """The home of each process' tree: the server that carries out its creates."""

    @property
    def bytes_per_second(self) -> float:
        """The rate of the slower direction."""
        return min(self.write_bytes_per_second, self.read_bytes_per_second)


def measure(wanted: Wanted) -> Rates:
    """Run a store with its clients on nodes of their own.

    Raises:
        ExperimentError: A node cannot be made, or a process of the load fails.
        StoreError: The store does not come up.
    """
    servers, clients = wanted.servers, wanted.client_nodes
    # The last node's network is that of this process, which asks the servers and starts the clients.
    with (
        Nodes(servers + clients + 1, bytes_per_second=wanted.bytes_per_second) as nodes,
        nodes.inside(servers + clients),
        _servers_on(nodes, servers),
        _variable("WEIR_TRANSPORT", "tcp"),
        _store(wanted, nodes) as store,
    ):
        return _run(store, wanted, nodes)


def _run(store: Store, wanted: Wanted, nodes: Nodes) -> Rates:
    each, folder = wanted.processes, f"{PREFIX}/tree"
    total = each * wanted.client_nodes
    with store.job("scaling", user="user", group="group", nodes=wanted.client_nodes, priority=1) as variables:
        with contextlib.ExitStack() as stack:
            loads = [
                stack.enter_context(
                    _load(
                        nodes.command(wanted.servers + client),
                        Specification(
                            folder, client * each, each, total, wanted.request_bytes, wanted.requests, wanted.files
                        ),
                        variables,
                        store.folder / f"client-{client}.log",
                    )
                )
                for client in range(wanted.client_nodes)
            ]
            for load in loads:
                _line(load, _READY_SECONDS)
            seconds = {phase: _phase(loads) for phase in PHASES}
        homes = _homes(variables, [f"{folder}-{process}" for process in range(total)])
    moved = total * wanted.requests * wanted.request_bytes
    return Rates(
        servers=wanted.servers,
        write_bytes_per_second=moved / seconds["write"],
        read_bytes_per_second=moved / seconds["read"],
        creates_per_second=total * wanted.files / seconds["creates"],
        homes=homes,
    )


def _store(wanted: Wanted, nodes: Nodes) -> Store:
    tables = ""
    for server in range(wanted.servers):
        address = f"{nodes.address(server)}:0"
        tables += f'[[server]]\nlisten = "{address}"\ncontrol = "{address}"\n[[server.target]]\n'
        if wanted.create_seconds:
            tables += f'[server.metadata_speed]\nfixed = "{round(wanted.create_seconds * 1e6)}us"\n'
    return Store(policy=wanted.policy, servers=None, targets=None, tables=tables)


@contextlib.contextmanager
def _servers_on(nodes: Nodes, servers: int) -> Iterator[None]:
    """Have each server that this process starts run on the node of its number."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        for server in range(servers):
            (Path(folder) / f"node-{server}").symlink_to(nodes.place(server))
        program = Path(folder) / "weir-server"
        program.write_text(_SERVER.format(folder=folder, program=native.server_program()))
        program.chmod(0o755)
        with _variable("WEIR_PROGRAMS", folder):
            yield


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _load(
    node: Sequence[str], specification: Specification, variables: dict[str, str], log: Path
) -> Iterator["subprocess.Popen[str]"]:
    """The processes of one client node. None of them is left behind the block."""
    with log.open("w+") as words:
        load = subprocess.Popen(
            [*node, sys.executable, "-m", "weir.experiments.scaling_load", json.dumps(vars(specification))],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        try:
            yield load
        finally:
            # The end of its input ends the load's processes, wherever they are.
            assert load.stdin is not None and load.stdout is not None, "both streams of a load are pipes"
            with contextlib.suppress(OSError):
                load.stdin.close()
            try:
                load.wait(timeout=_READY_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(load.pid, 9)
                load.wait()
            load.stdout.close()


def _phase(loads: Sequence["subprocess.Popen[str]"]) -> float:
    """Run a phase on all nodes; the time from its first begin to its last end."""
    for load in loads:
        assert load.stdin is not None, "the input of a load is a pipe"
        load.stdin.write("go\n")
        load.stdin.flush()
    times = [tuple(map(float, _line(load, _PHASE_SECONDS).split())) for load in loads]
    return max(end for _, end in times) - min(begin for begin, _ in times)


def _line(load: "subprocess.Popen[str]", patience_seconds: float) -> str:
    """The next line of a load."""
    assert load.stdout is not None, "the output of a load is a pipe"
    deadline = time.monotonic() + patience_seconds
    ready, _, _ = select.select([load.stdout], [], [], max(0.0, deadline - time.monotonic()))
    line = load.stdout.readline() if ready else ""
    if not line:
        raise ExperimentError(
            "a client node of the load ended, or did not answer in time", hint="choose fewer servers or slower targets"
        )
    return line


def _homes(variables: dict[str, str], trees: Sequence[str]) -> tuple[int, ...]:
    """The home of each tree: the upper 16 bits of the number of its inode."""
    program = "import json, os, sys; print([os.stat(tree).st_ino >> 48 for tree in json.load(sys.stdin)])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(trees),
        env=variables,
        capture_output=True,
        text=True,
        timeout=_PHASE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise ExperimentError(f"the trees of the load are not there any more: {done.stderr.strip()}")
    return tuple(json.loads(done.stdout))
