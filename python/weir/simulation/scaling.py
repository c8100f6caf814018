"""ThemisIO's figure 7 in virtual time: aggregate rates of 1 to 128 servers, each with a client node of eight processes.

The paper (SC'23, section 5.2) states 11.7 GB/s for one server, 77.1 GB/s for eight, and 1,017 GB/s for 128: 68 % of
128 times the first. Its files lie on servers that a hash chooses (section 4.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir.experiments.scaling import PROCESSES_PER_NODE
from weir.simulation.runs import run
from weir.simulation.scenario import Scenario
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Steps, Work, Workload
from weir.simulation.workloads.benchmarks import Ior

SERVERS = (1, 2, 4, 8, 16, 32, 64, 128)
PAPER_BYTES_PER_SECOND = {1: 11.7e9, 8: 77.1e9, 128: 1017e9}
"""Rates that the paper's text states, by the number of servers."""
PAPER_LINK = 12.5e9
"""Rate of the paper's links: 100 Gb/s, of which one server reached 11.7 GB/s."""
REQUEST_BYTES = 1 << 20
FILE_BYTES = 256 << 20
"""A process' file: a quarter of the paper's, which takes a quarter of the time to simulate."""
_CAPACITY_BYTES = 1 << 50
_MEMORY_RATIO = 10
"""Speed of a node's memory beside its link, where nothing else is known: no target binds then."""
CREATES_EACH = 64
"""Files that a process makes in a simulated run."""
_HOPS_OF_ROUND_TRIP = 4
"""Links that a request and its answer pass: the client's and the server's, each twice."""


@dataclass(frozen=True)
class Placement:
    """The rule by which files find their targets."""

    name: str
    allocator: str
    stripe_count: int
    """Targets of a file; 0 is all."""


PLACEMENTS = (
    Placement("striped", "balanced", 0),
    Placement("whole", "balanced", 1),
    Placement("hash, 1 stripe", "random", 1),
    Placement("hash, 4 stripes", "random", 4),
)
"""Weir's default, a file on one target, and draws as a hash makes them."""


@dataclass(frozen=True)
class Costs:
    """The costs of a node and its server.

    Attributes:
        link_bytes_per_second: Rate of each node's link in each direction.
        request_seconds: Time of a request without payload, there and back.
        write_bytes_per_second: Rate at which one server takes writes; None leaves the link as the only bound.
        read_bytes_per_second: Rate at which one server answers reads; None likewise.
        create_seconds: Time of a server for one create.
    """

    link_bytes_per_second: float
    request_seconds: float
    write_bytes_per_second: float | None
    read_bytes_per_second: float | None
    create_seconds: float


@dataclass(frozen=True)
class Point:
    """A number of servers under one placement and policy."""

    servers: int
    placement: Placement
    policy: str
    write_bytes_per_second: float
    read_bytes_per_second: float

    @property
    def bytes_per_second(self) -> float:
        """The rate of the slower direction."""
        return min(self.write_bytes_per_second, self.read_bytes_per_second)


def simulated(
    servers: int,
    placement: Placement,
    policy: str,
    costs: Costs,
    *,
    homes: Sequence[int],
    file_bytes: int = FILE_BYTES,
    request_bytes: int = REQUEST_BYTES,
) -> Point:
    """Simulate a number of servers: all processes write a file, then all read the file of another node.

    Args:
        homes: The home of each process' tree, which places its file.

    Returns:
        The rates of all processes together, over the time of the slowest.
    """
    ior = Ior(
        processes=servers * PROCESSES_PER_NODE,
        processes_per_node=PROCESSES_PER_NODE,
        transfer=request_bytes,
        block=file_bytes,
        read=True,
        reorder=True,
    )
    work = replace(ior.work(np.random.default_rng(0)), homes=tuple(homes))
    scenario = Scenario(
        topology=_topology(servers, costs),
        workload=Workload.of([(Job("scaling", nodes=servers), work)], nodes=servers),
        mode="request",
        policy=policy,
        allocator=placement.allocator,
        stripe_count=placement.stripe_count,
    )
    job = run(scenario).jobs[0]
    return Point(
        servers,
        placement,
        policy,
        job.written_bytes / job.writing_seconds,
        job.read_bytes / job.reading_seconds,
    )


def creates_per_second(servers: int, homes: Sequence[int], costs: Costs, *, creates: int = CREATES_EACH) -> float:
    """Simulate processes that make files, each in a tree of its own.

    Args:
        homes: The home of each process' tree.
        creates: Files of each process.

    Returns:
        Creates of all processes together, over the time of the slowest.
    """
    processes = len(homes)
    file = np.arange(processes * creates, dtype=np.uint32)
    steps = Steps.of(len(file), stream=file // creates, kind=Kind.CREATE, file=file)
    nodes = np.arange(processes, dtype=np.uint32) * np.uint32(servers) // np.uint32(processes)
    work = Work(
        servers,
        nodes,
        np.zeros(len(file), dtype=np.uint64),
        steps,
        homes=tuple(int(home) for home in np.repeat(homes, creates)),
    )
    scenario = Scenario(
        topology=_topology(servers, costs),
        workload=Workload.of([(Job("creates", nodes=servers), work)], nodes=servers),
        mode="request",
        policy="job-fair",
        stripe_count=1,
    )
    job = run(scenario).jobs[0]
    return len(file) / (job.ended_seconds - job.started_seconds)


def drawn_homes(servers: int, seed: int) -> tuple[int, ...]:
    """Draw the homes of the trees of all processes, as a hash of their names does."""
    drawn = np.random.default_rng(seed).integers(servers, size=servers * PROCESSES_PER_NODE)
    return tuple(int(home) for home in drawn)


def even_homes(servers: int) -> tuple[int, ...]:
    """Spread the homes of the trees of all processes evenly."""
    return tuple(process % servers for process in range(servers * PROCESSES_PER_NODE))


def _topology(servers: int, costs: Costs) -> Topology:
    link = {
        "bytes_per_second": costs.link_bytes_per_second,
        "latency_seconds": costs.request_seconds / _HOPS_OF_ROUND_TRIP,
    }

    def transfer(rate: float | None) -> dict[str, float]:
        return {"bytes_per_second": rate or _MEMORY_RATIO * costs.link_bytes_per_second}

    target = {
        "capacity_bytes": _CAPACITY_BYTES,
        "read": transfer(costs.read_bytes_per_second),
        "write": transfer(costs.write_bytes_per_second),
    }
    server = {"link": link, "targets": [target], "metadata_seconds": costs.create_seconds}
    return Topology(
        {
            "name": f"{servers} servers",
            "clients": {"nodes": servers, "link": link},
            "routers": [],
            "servers": [server] * servers,
        }
    )
