"""The jobs of a scenario's file: `[[jobs]]` tables, each with its work and its times of arrival."""

import dataclasses
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from weir.simulation.documents import Table, as_seconds
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Work, Workload
from weir.simulation.workloads.parameters import Generator, read_parameters

GENERATORS = {
    "ior": "benchmarks:Ior",
    "hacc-io": "benchmarks:HaccIo",
    "mdtest": "benchmarks:Mdtest",
    "checkpoints": "checkpoints:Checkpoints",
    "training": "training:Training",
    "scalability": "scalability:Scalability",
}
"""Generators by name, each with its module and class below `weir.simulation.workloads`."""
JOBS_MAX = 1_000_000
"""Jobs of a scenario: a mistyped count must not take the machine's memory."""
_NODES_MAX = 1 << 24


def generator_class(name: str) -> type[Generator]:
    """Find a generator.

    Args:
        name: Its name, one of `GENERATORS`.

    Returns:
        Its dataclass, whose fields are the parameters.
    """
    module, attribute = GENERATORS[name].split(":")
    found: type[Generator] = getattr(import_module(f"weir.simulation.workloads.{module}"), attribute)
    return found


def workload_of(table: Table, topology: Topology, seed: int) -> Workload:
    """Read the jobs of a scenario.

    Args:
        table: The scenario's table.
        topology: The machines that the jobs run on.
        seed: Start of all dice.

    Returns:
        The workload.

    Raises:
        ScenarioError: There is no job, or one cannot be used; the error names the file, the line and the key.
    """
    jobs: list[tuple[Job, Work]] = []
    for number, entry in enumerate(table.tables("jobs")):
        jobs.extend(_jobs(entry, seed, number))
        if len(jobs) > JOBS_MAX:
            raise entry.error("count", f"with it there are more than {JOBS_MAX} jobs")
    if not jobs:
        raise table.error(None, "there are no jobs", "give [[jobs]] tables")
    return Workload.of(jobs, nodes=topology.nodes)


def _jobs(table: Table, seed: int, number: int) -> Iterator[tuple[Job, Work]]:
    """The jobs of one table: copies of one job that arrive one after the other."""
    name, make = _source(table, seed, number)
    count = table.whole("count", 1, least=1, most=JOBS_MAX)
    arrivals = _arrivals(table, count)
    job = Job(
        name=table.text("name", name),
        user=table.text("user", "user"),
        group=table.text("group", "group"),
        priority=table.whole("priority", 1, least=1, most=2**31),
    )
    nodes = table.whole("nodes", least=1, most=_NODES_MAX) if table.has("nodes") else None
    table.close()
    for copy, arrival in enumerate(arrivals):
        work = make(copy)
        yield dataclasses.replace(job, nodes=nodes or work.nodes, arrival_seconds=arrival), work


def _source(table: Table, seed: int, number: int) -> tuple[str, Callable[[int], Work]]:
    """The usual name of a table's jobs, and the maker of the work of each copy."""
    name = table.choice("generator", "", tuple(GENERATORS)) if table.has("generator") else ""
    if not name:
        raise table.error(None, "its work is missing", f"give generator = {' or '.join(GENERATORS)}")
    return name, maker_of(read_parameters(generator_class(name), table), seed, number)


def maker_of(generator: Generator, seed: int, number: int) -> Callable[[int], Work]:
    """Find the maker of the work of a generator's jobs.

    Args:
        generator: The generator.
        seed: Start of all dice.
        number: Number of the table that names the generator.

    Returns:
        A function from the number of a copy to its work; copies without dice share one work.
    """
    made: dict[int, Work] = {}

    def make(copy: int) -> Work:
        if generator.is_random:
            return generator.work(np.random.default_rng((seed, number, copy)))
        if not made:
            made[0] = generator.work(np.random.default_rng((seed, number)))
        return made[0]

    return make


def _arrivals(table: Table, count: int) -> list[float]:
    """The moment at which each copy of a job arrives."""

    def read(found: Any) -> list[float]:
        return [as_seconds(each) for each in (found if isinstance(found, list) else [found])]

    listed = table.value("arrival", [0.0], 'a time such as "10s", or a list of times', read)
    every = table.seconds("every", 0.0)
    if len(listed) == 1:
        return [listed[0] + copy * every for copy in range(count)]
    if table.has("count") and count != len(listed):
        raise table.error("arrival", f"it has {len(listed)} times, and count is {count}", "leave count out")
    return listed
