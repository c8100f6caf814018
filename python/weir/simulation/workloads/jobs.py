"""The jobs of a scenario's file: `[[jobs]]` and `[[accounting]]` tables, each with its work and its arrivals."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from weir.plugins import PluginError
from weir.simulation.documents import Table, as_seconds
from weir.simulation.errors import ScenarioError
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Remarks, Work, Workload
from weir.simulation.workloads.logs import PROCESSES_PER_NODE, LoggedJob, LogOptions, logs_in, read_jobs
from weir.simulation.workloads.parameters import Generator, read_parameters
from weir.simulation.workloads.traces import read_traced_jobs

GENERATORS = {
    "ior": "benchmarks:Ior",
    "hacc-io": "benchmarks:HaccIo",
    "mdtest": "benchmarks:Mdtest",
    "checkpoints": "checkpoints:Checkpoints",
    "training": "training:Training",
    "scalability": "scalability:Scalability",
}
"""Generators by name, each with its module and class below `weir.simulation.workloads`."""
SOURCES = ("generator", "log", "trace")
"""Keys of which each table of jobs has one."""
UNREADABLE = ("error", "skip")
"""Logs that cannot be used are an error, or are left out."""
JOBS_MAX = 1_000_000
"""Jobs of a scenario: a mistyped count must not take the machine's memory."""
NODES_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class Template:
    """One job that a table describes, before its copies have their times."""

    name: str
    user: str
    offset_seconds: float
    """Time of its arrival after that of the table's first job."""
    make: Callable[[int], Work]
    """The work of a copy, by the number of the copy."""


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

    Raises:
        ScenarioError: There is no job, or one cannot be used; the error names the file, the line and the key.
    """
    from weir.simulation.workloads.matching import accounted_jobs

    jobs: list[tuple[Job, Work]] = []
    remarks = Remarks()
    entries = [(entry, _jobs) for entry in table.tables("jobs")]
    entries += [(entry, accounted_jobs) for entry in table.tables("accounting")]
    for number, (entry, read) in enumerate(entries):
        home = entry.whole("home", most=topology.servers - 1) if entry.has("home") else None
        found = read(entry, seed, number, remarks)
        jobs.extend((job, work if home is None else work.placed_by(home)) for job, work in found)
        if len(jobs) > JOBS_MAX:
            raise entry.error(None, f"with it there are more than {JOBS_MAX} jobs")
    if not jobs:
        raise table.error(None, "there are no jobs", "give [[jobs]] or [[accounting]] tables")
    _note_crowded(jobs, topology, remarks)
    return Workload.of(jobs, nodes=topology.nodes, remarks=remarks)


def _note_crowded(jobs: list[tuple[Job, Work]], topology: Topology, remarks: Remarks) -> None:
    """Remark on jobs with more nodes than the topology has."""
    crowded = [job for job, _ in jobs if job.nodes > topology.nodes]
    if crowded:
        most = max(crowded, key=lambda job: job.nodes)
        others = f" and {len(crowded) - 1} others have" if len(crowded) > 1 else " has"
        remarks.note(
            f"job {most.name} ({most.nodes} nodes){others} more nodes than the {topology.nodes} client nodes of "
            f"{topology.name}: processes of several nodes run on one, and share its link"
        )


def _jobs(table: Table, seed: int, number: int, remarks: Remarks) -> Iterator[tuple[Job, Work]]:
    """The jobs of one table: copies of each of its templates."""
    templates = templates_of(table, seed, number, remarks)
    count = table.whole("count", 1, least=1, most=JOBS_MAX)
    arrivals = _arrivals(table, count)
    pace = 1.0 if table.has("generator") else table.number("pace", 1.0)
    group = table.text("group", "group")
    priority = table.whole("priority", 1, least=1, most=2**31)
    nodes = table.whole("nodes", least=1, most=NODES_MAX) if table.has("nodes") else None
    names = [(table.text("name", template.name), table.text("user", template.user)) for template in templates]
    table.close()
    for copy, arrival in enumerate(arrivals):
        for template, (name, user) in zip(templates, names, strict=True):
            work = on_nodes(template.make(copy), nodes)
            moment = arrival + pace * template.offset_seconds
            yield Job(name, user, group, work.nodes, priority, moment), work


def on_nodes(work: Work, nodes: int | None) -> Work:
    """Spread the streams of a job evenly over another number of nodes.

    Args:
        nodes: The nodes; None leaves the work as it is.

    Returns:
        The work on these nodes.
    """
    if nodes is None or nodes == work.nodes:
        return work
    streams = len(work.stream_nodes)
    places = np.arange(streams, dtype=np.uint64) * np.uint64(nodes) // np.uint64(max(streams, 1))
    return dataclasses.replace(work, nodes=nodes, stream_nodes=places.astype(np.uint32))


def templates_of(table: Table, seed: int, number: int, remarks: Remarks) -> list[Template]:
    """Read the jobs that a table describes by a generator, logs or traces.

    Args:
        table: The table, which may have other keys.
        seed: Start of all dice.
        number: Number of the table in its scenario.
        remarks: Takes the remarks about logs and traces.

    Returns:
        The jobs, at least one.

    Raises:
        ScenarioError: The table has no source of work or several, or it cannot be used.
    """
    given = [key for key in SOURCES if table.has(key)]
    if len(given) != 1:
        fault = "its work is missing" if not given else f"it has {' and '.join(given)}, and may have one of them"
        raise table.error(None, fault, f"give {', '.join(SOURCES[:-1])} or {SOURCES[-1]}")
    if given == ["generator"]:
        name = table.text("generator", what="a generator such as ior, or a plug-in")
        return [Template(name, "user", 0.0, maker_of(_generator(name, table), seed, number))]
    return _logged(table, remarks) if given == ["log"] else _traced(table, remarks)


def _generator(name: str, table: Table) -> Generator:
    """The generator of a name, with the parameters of its table."""
    if name in GENERATORS:
        return read_parameters(generator_class(name), table)
    from weir.simulation.workloads.own import own_generator

    try:
        return own_generator(name, table, tuple(GENERATORS))
    except PluginError as error:
        raise table.error("generator", error.message, error.hint) from error


def log_options(table: Table) -> LogOptions:
    """Read the choices that logs leave open.

    Args:
        table: The table that names the logs.
    """
    return LogOptions(
        processes_per_node=table.whole("processes_per_node", PROCESSES_PER_NODE, least=1, most=1 << 20),
        keep_layouts=table.choice("layouts", "scenario", ("scenario", "log")) == "log",
    )


def logged_jobs(table: Table, key: str, remarks: Remarks) -> list[LoggedJob]:
    """Read the jobs of the logs that a table names.

    Args:
        table: The table, which may have other keys.
        key: The key with the log or the folder of logs.
        remarks: Takes the remarks about the logs.

    Raises:
        ScenarioError: A log cannot be used.
    """
    options = log_options(table)
    skips = table.choice("unreadable", "error", UNREADABLE) == "skip"
    path = table.path(key)
    try:
        jobs = read_jobs(logs_in(path), options, skip=remarks.skip if skips else None)
    except ScenarioError as error:
        raise table.error(key, error.message, error.hint) from error
    for job in jobs:
        if job.note:
            remarks.note(job.note)
    return jobs


def _logged(table: Table, remarks: Remarks) -> list[Template]:
    jobs = logged_jobs(table, "log", remarks)
    first = min(job.started for job in jobs)
    return [Template(job.name, job.user, job.started - first, _always(job.work)) for job in jobs]


def _traced(table: Table, remarks: Remarks) -> list[Template]:
    path = table.path("trace")
    try:
        jobs = read_traced_jobs([path], note=remarks.note)
    except ScenarioError as error:
        raise table.error("trace", error.message, error.hint) from error
    first = min(job.started for job in jobs)
    return [Template(job.name, "user", job.started - first, _always(job.work)) for job in jobs]


def _always(work: Work) -> Callable[[int], Work]:
    return lambda _: work


def maker_of(generator: Generator, seed: int, number: int) -> Callable[[int], Work]:
    """Find the maker of the work of a generator's jobs.

    Args:
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
        listed = [as_seconds(each) for each in (found if isinstance(found, list) else [found])]
        if not listed:
            raise ValueError
        return listed

    listed = table.value("arrival", [0.0], 'a time such as "10s", or a list of times', read)
    every = table.seconds("every", 0.0)
    if len(listed) == 1:
        return [listed[0] + copy * every for copy in range(count)]
    if table.has("count") and count != len(listed):
        raise table.error("arrival", f"it has {len(listed)} times, and count is {count}", "leave count out")
    if every:
        raise table.error("every", "arrival lists the times already", "leave every out")
    return listed
