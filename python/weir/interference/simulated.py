"""Simulated runs of a plan: its kernels on its store in virtual time, with the windows that servers would tell.

The simulator runs the decisions of a server, so its windows count the same things. A program is one process that does
its operations one after the other. An operation takes the time of its requests and of the way to the server.
"""

import itertools
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.csv_table import CsvTable
from weir.interference.collector import JobWindow, joined
from weir.interference.errors import InterferenceError
from weir.interference.kernels import KERNELS, Step
from weir.interference.plan import Case, Loaded, Program
from weir.store.client_windows import WINDOW_SECONDS

if TYPE_CHECKING:
    from weir.simulation.outcome import DeviceWindow, Observed
    from weir.simulation.topology import Topology
    from weir.simulation.workload import Work
    from weir.store.observations import ObservedDevice, ObservedJob

ONE_WAY_SECONDS = 0.125e-3
"""Time from a program to a server of its host, or back. Quiet windows of `tests/data/interference` leave 0.2 to 0.4 ms
of each operation that no device accounts for."""
START_SECONDS = 0.5
"""Time in which interferers begin, each at a moment of its own; the target begins after it."""
STEPS_MAX = 5_000_000
"""Most operations of a simulated run: beyond it a run takes gigabytes of memory."""
_USER = "user"


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run in virtual time."""

    windows: list[JobWindow]
    """Windows of the target in the order of time, numbered from the begin of the run."""
    window_seconds: float


@dataclass(frozen=True, slots=True)
class _Store:
    """A store to simulate."""

    topology: "Topology"
    settings: dict[str, Any]
    window_seconds: float

    def least_seconds(self, step: Step) -> float:
        """A time below which no operation of this kind ends: its bytes may go to all targets at once."""
        servers = self.topology.document["servers"]
        if step.kind == "close":
            return 2 * ONE_WAY_SECONDS
        if step.kind not in ("read", "write"):
            return 2 * ONE_WAY_SECONDS + min(float(server["metadata_seconds"]) for server in servers)
        ways = [target[step.kind] for server in servers for target in server["targets"]]
        rate = sum(way["bytes_per_second"] for way in ways)
        fixed = min(float(way["fixed_seconds"]) for way in ways)
        return 2 * ONE_WAY_SECONDS + fixed + step.size_bytes / float(rate)


@dataclass(frozen=True, slots=True)
class _Timed:
    """An operation of a program, the pause before it, and whether its time counts."""

    step: Step
    pause_seconds: float
    is_timed: bool


def carry_out(loaded: Loaded, case: Case, own: Path, is_ended: Callable[[], bool]) -> SimulatedRun:
    """Do a run in virtual time, and write the times of the target's operations as a kernel writes them.

    Args:
        loaded: A plan with a seed.
        own: Folder of the run.
        is_ended: Tells whether the collection has ended.

    Raises:
        InterferenceError: The run takes longer than the plan allows, the plan's store cannot be simulated, or the
            collection has ended.
    """
    from numpy.random import default_rng

    store = _store_of(loaded)
    dice = default_rng([loaded.seed or 0, zlib.crc32(case.name.encode())])
    begin = START_SECONDS + dice.uniform(0, store.window_seconds)
    begins = [begin, *(dice.uniform(0, START_SECONDS) for _ in range(case.instances))]
    homes = dice.integers(store.topology.servers, size=len(begins)).tolist()
    longest = loaded.plan.timeout_seconds
    span = case.target.seconds or min(2 * _least_seconds(store, case.target), longest)
    while True:
        if is_ended():
            raise InterferenceError(f"{case.name} was ended", hint="the same command continues with the others")
        until = _end_of_window(begin + span, store.window_seconds)
        operations = list(_until(store, _rounds(case.target), until, 1 + case.instances))
        observed, is_complete = _observed(loaded, store, case, operations, begins, homes, until)
        if case.target.seconds or is_complete:
            break
        if span >= longest:
            raise InterferenceError(
                f"{case.name} takes longer than {longest} s",
                hint="give the target fewer rounds, or the plan more timeout_seconds",
            )
        span = min(2 * span, longest)
    _write_operations(operations, observed, own / "operations.csv")
    windows = _windows(case, operations, observed, homes[0], store.window_seconds)
    return SimulatedRun(windows, store.window_seconds)


def _store_of(loaded: Loaded) -> _Store:
    """The store of a plan; refuse one that cannot be simulated."""
    from weir.simulation.errors import ScenarioError

    try:
        return _simulated_store(loaded)
    except ScenarioError as error:
        raise InterferenceError(
            f"the store of the plan cannot be simulated: {error.message}",
            hint="give each of its targets a capacity and a speed, see docs/reference/configuration.md",
        ) from error


def _simulated_store(loaded: Loaded) -> _Store:
    """The store of a plan, with the way between programs and servers."""
    from weir.simulation.documents import Document, parse_document
    from weir.simulation.scenario import store_settings
    from weir.simulation.stores import settings_of_configuration, topology_of_configuration

    document = parse_document(loaded.store, origin="its cluster.toml", folder=Path())
    topology = topology_of_configuration(document)
    topology.document["clients"]["link"]["latency_seconds"] = ONE_WAY_SECONDS
    values = tomllib.loads(loaded.store)
    # Another policy has another scheduler.
    kept = ("policy", "scheduler", "allocator") if loaded.policy is None else ("allocator",)
    named = {key: values[key] for key in kept if key in values}
    if loaded.policy is not None:
        named["policy"] = loaded.policy
    settings = Document(settings_of_configuration(values) | named, {}, origin=document.origin, folder=Path())
    window = document.table().seconds("window", WINDOW_SECONDS)
    return _Store(topology, store_settings(settings.table(), topology), window)


def _end_of_window(moment: float, window_seconds: float) -> float:
    """The first end of a window that is not before a moment."""
    return -(-moment // window_seconds) * window_seconds


def _rounds(program: Program, *, is_endless: bool = False) -> Iterator[_Timed]:
    """The operations of a program; an endless one writes its files anew, as `kernels.main` does."""
    assert program.kernel is not None
    kernel = KERNELS[program.kernel]
    if kernel.prepare is not None:
        yield from (_Timed(step, 0.0, is_timed=False) for step in kernel.prepare(0))
    pause = 0.0
    for number in itertools.count() if is_endless else range(program.rounds):
        for step in kernel.round(number % 4 if is_endless else number):
            yield _Timed(step, pause, is_timed=True)
            pause = 0.0
        pause += program.pause_seconds


def _least_seconds(store: _Store, program: Program) -> float:
    """A time below which no run of a program ends."""
    return sum(store.least_seconds(each.step) + each.pause_seconds for each in _rounds(program))


def _until(store: _Store, operations: Iterator[_Timed], until: float, programs: int) -> Iterator[_Timed]:
    """The operations that may begin before a moment, counted from the program's begin, of one of some programs."""
    least = 0.0
    for number, each in enumerate(operations):
        if least >= until:
            return
        if number == STEPS_MAX // programs:
            raise InterferenceError(
                f"{programs} programs have more than {STEPS_MAX:,} operations in {until:g} s of the plan's store",
                hint="give its targets a speed, or the plan's targets fewer seconds, rounds or instances beside them",
            )
        least += store.least_seconds(each.step) + each.pause_seconds
        yield each


def _observed(
    loaded: Loaded,
    store: _Store,
    case: Case,
    operations: list[_Timed],
    begins: list[float],
    homes: list[int],
    until: float,
) -> tuple["Observed", bool]:
    """Simulate the target beside its interferers; also tell whether the target ended."""
    from weir.simulation.errors import ScenarioError
    from weir.simulation.runs import observe
    from weir.simulation.scenario import Scenario
    from weir.simulation.workload import Job, Workload

    work: list[tuple[Job, Work]] = [(Job("target", arrival_seconds=begins[0]), _work(operations, homes[0]))]
    if case.interferer is not None:
        others = list(_until(store, _rounds(case.interferer, is_endless=True), until, 1 + case.instances))
        for number in range(case.instances):
            job = Job(f"{case.interferer.name}-{number}", arrival_seconds=begins[number + 1])
            work.append((job, _work(others, homes[number + 1])))
    scenario = Scenario(
        topology=store.topology,
        workload=Workload.of(work, nodes=store.topology.document["clients"]["nodes"]),
        seed=loaded.seed or 0,
        mode="request",
        until_seconds=until,
        **store.settings,
    )
    try:
        outcome = observe(scenario, 0, store.window_seconds)
    except ScenarioError as error:
        raise InterferenceError(
            f"{case.name} cannot be simulated: {error.message}",
            hint="give the plan's targets fewer rounds or seconds, or its store larger targets or longer windows",
        ) from error
    target = outcome.jobs[0]
    # An interferer without room would slow nobody.
    if any(job.refused_files or job.refused_bytes for job in outcome.jobs):
        raise InterferenceError(
            f"the files of {case.name} find no room on the simulated targets",
            hint="give the targets of the plan's store more capacity, or its programs fewer rounds or seconds",
        )
    assert outcome.observed is not None
    return outcome.observed, target.is_complete


def _work(operations: list[_Timed], home: int) -> "Work":
    """The operations of a program as steps of one stream, whose files lie in a folder of this server."""
    import numpy as np

    from weir.simulation.workload import Kind, Steps, Work

    kinds = {
        "make": Kind.CREATE,
        # A file that is there is opened by the same request, which changes the server's table of open files.
        "open": Kind.CREATE,
        "read": Kind.READ,
        "write": Kind.WRITE,
        "stat": Kind.METADATA,
        "remove": Kind.REMOVE,
        # A close waits for no device.
        "close": Kind.COMPUTE,
    }
    files: dict[str, int] = {}
    for each in operations:
        files.setdefault(each.step.file, len(files))
    way = [2 * ONE_WAY_SECONDS if each.step.kind == "close" else 0.0 for each in operations]
    steps = Steps.of(
        len(operations),
        kind=[kinds[each.step.kind] for each in operations],
        after_seconds=np.array([each.pause_seconds for each in operations]) + np.array(way),
        file=[files[each.step.file] for each in operations],
        offset=[each.step.offset for each in operations],
        bytes=[1 if each.step.kind == "stat" else each.step.size_bytes for each in operations],
    )
    made = Work(nodes=1, stream_nodes=np.zeros(1, np.uint32), file_bytes=np.zeros(len(files), np.uint64), steps=steps)
    return made.placed_by(home)


def _write_operations(operations: list[_Timed], observed: "Observed", path: Path) -> None:
    """Write the times of operations as `weir.interference.kernels` does, without closes, which take no device time."""
    with path.open("w", newline="") as file:
        table = CsvTable(file)
        for time in observed.steps:
            each = operations[time.step]
            if each.is_timed and each.step.kind != "close":
                place = f"{each.step.file}@{each.step.offset}"
                table.add((each.step.kind, place, f"{time.begin_seconds:.9f}", f"{time.seconds:.9f}"))


def _windows(
    case: Case, operations: list[_Timed], observed: "Observed", home: int, window_seconds: float
) -> list[JobWindow]:
    """The windows in which the target did something."""
    from weir.store.observations import Window

    counts = _metadata_counts(operations, observed, window_seconds)
    others = ["target"]
    if case.interferer is not None:
        others += [f"{case.interferer.name}-{number}" for number in range(case.instances)]
    found = []
    for number, devices in enumerate(observed.windows):
        jobs = [_job_at(device, others) for device in devices]
        own: dict[str, Any] = dict(counts.get(number, {}))
        jobs = [replace(job, **own) if job.device == f"{home}.metadata" else job for job in jobs]
        window = Window(number, tuple(_device(device) for device in devices), tuple(jobs), 0)
        made = joined(number, [window], "target", case.name, case.target.name)
        if made.device_seconds or any(row["client_closes"] for row in made.rows):
            found.append(made)
    return found


def _metadata_counts(
    operations: list[_Timed], observed: "Observed", window_seconds: float
) -> dict[int, dict[str, int]]:
    """Metadata operations by the window in which they ended, by the names of `ObservedJob`."""
    names = {"make": "opens", "open": "opens", "stat": "stats", "close": "closes", "remove": "removes"}
    counts: dict[int, dict[str, int]] = {}
    for time in observed.steps:
        name = names.get(operations[time.step].step.kind)
        if name is not None:
            of_window = counts.setdefault(int((time.begin_seconds + time.seconds) / window_seconds), {})
            of_window[name] = of_window.get(name, 0) + 1
    return counts


def _device(device: "DeviceWindow") -> "ObservedDevice":
    from weir.store.observations import ObservedDevice, Statistic

    counters = {name: Statistic(each.sum, each.mean, each.deviation) for name, each in device.counters.items()}
    return ObservedDevice(device.device, **counters)


def _job_at(device: "DeviceWindow", names: list[str]) -> "ObservedJob":
    """The target's work at a device, without its metadata operations by kind."""
    from weir.store.answers import WaitedFor
    from weir.store.observations import ObservedJob

    metadata = dict.fromkeys(("stats", "opens", "closes", "lists", "makes", "removes", "renames", "changes"), 0)
    return ObservedJob(
        job="target",
        user=_USER,
        uid=0,
        device=device.device,
        reads=device.reads,
        writes=device.writes,
        read_bytes=device.read_bytes,
        written_bytes=device.written_bytes,
        **metadata,
        request_seconds=device.request_seconds,
        device_seconds=device.device_seconds,
        waited_for=tuple(WaitedFor(names[each.job], _USER, 0, each.seconds) for each in device.waited_for),
        waited_for_others_seconds=0.0,
    )
