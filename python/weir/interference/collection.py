"""Collection of a labelled data set: the runs of a plan on stores of their own, real or simulated.

A run that is complete has a file `done.json`, so a collection that was ended goes on where it stopped.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.csv_table import CsvTable
from weir.interference import labels as labelling
from weir.interference import real_time, simulated
from weir.interference.agreement import Quality, compare, described, read_windows
from weir.interference.collector import Collector, JobWindow, joined
from weir.interference.errors import InterferenceError
from weir.interference.labels import Label
from weir.interference.plan import Case, Loaded, Program, cases, references
from weir.interference.processor_waits import ProcessWaits, Sampling
from weir.store.home import Home
from weir.store.observations import measured_slowdown
from weir.ways import make_work_folder, write_whole

if TYPE_CHECKING:
    from weir.store import Store

_TARGET = "target"
"""Name of the target's job."""
_PREFIX = "/weir"
_POLL_SECONDS = 0.25
_WINDOWS_SECONDS_MAX = 150.0
"""Longest time until the servers have told a window: two windows of the greatest length, and patience."""
_FAILURES_MAX = 3
"""Times that one instance of an interferer may fail."""
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one run."""

    name: str
    target: str
    interferer: str
    instances: int
    is_reference: bool
    """Whether it is a run alone with which others are compared."""
    windows: int
    """Labelled windows; of the reference all."""
    dropped: int
    """Windows without a match."""
    label: float | None
    """Mean label."""
    truth: float | None
    """Mean truth of the store in the same windows."""
    slowdown: float | None
    """Time of all operations over their times alone; None for a command."""
    agreement: float | None
    """Part of the windows whose label and truth are both below 2, or both not."""
    labelled_by: str
    """`operations`, or `store` for a command, which tells no times of its operations."""
    notices: tuple[str, ...]
    """Losses of the collector."""
    noisy: int = 0
    """Windows that were dropped because the machine was busy with other things."""
    noise: float | None = None
    """Mean of the windows' noise: time for which processors were waited for, over the time alone; also of those that
    were dropped. None for a command."""
    is_real_time: bool = False
    """Whether store and kernels had a real-time priority."""


def collect(loaded: Loaded, folder: Path, tell: Callable[[str], None]) -> list[Run]:
    """Carry out the runs of a plan that are not complete, and describe the data set.

    Args:
        tell: Takes a line about each run.

    Returns:
        All runs of the plan.

    Raises:
        InterferenceError: The folder has the data of another plan, or a program fails.
        StoreError: A store does not come up.
    """
    make_work_folder(folder)
    _claim(folder, loaded)
    every = cases(loaded.plan)
    # The others are compared with the references, which are whole before any other run begins.
    for is_reference in (True, False):
        _carry_out_all(loaded, [case for case in every if case.is_reference == is_reference], folder, tell)
    runs = [_read_run(_done(folder, case)) for case in every]
    write_whole(folder / "README.md", _card(loaded, runs, folder), mode=None)
    return runs


def quality(runs: Sequence[Run], folder: Path) -> Quality:
    """Compare the labels of a data set with the truth of the store, and the two kinds of label with each other.

    Returns:
        The agreements over all windows that have a label by their operations, and the labels of the quiet repeats.
    """
    windows = [
        (run, window)
        for run in runs
        if not run.is_reference and run.labelled_by == "operations"
        for window in read_windows(folder / "runs" / run.name / "labels.csv")
    ]
    return Quality(
        truth=compare([(window.label, window.truth) for _, window in windows if window.truth is not None]),
        weighting=compare([window.weightings for _, window in windows if window.weightings is not None]),
        quiet=[window.label for run, window in windows if not run.interferer],
    )


def _done(folder: Path, case: Case) -> Path:
    """The file of a run that is complete."""
    return folder / "runs" / case.name / "done.json"


def _read_run(done: Path) -> Run:
    document = json.loads(done.read_text())
    return Run(**{**document, "notices": tuple(document["notices"])})


def _carry_out_all(loaded: Loaded, chosen: Sequence[Case], folder: Path, tell: Callable[[str], None]) -> None:
    """Do the runs that are not complete, as many at the same time as the plan says. Where one fails or the user ends
    the collection, the others end at once."""
    is_ended = threading.Event()

    def carry_out(case: Case) -> None:
        done = _done(folder, case)
        if done.exists():
            return
        beside = f"{case.instances} instances of {case.interferer.name if case.interferer else 'nothing'}"
        tell(f"{case.name}: {beside}{'' if loaded.seed is None else ', simulated'}")
        run = _carry_out(loaded, case, folder, is_ended)
        write_whole(done, json.dumps(asdict(run)), mode=None)

    with ThreadPoolExecutor(loaded.plan.parallel) as pool:
        futures = [pool.submit(carry_out, case) for case in chosen]
        try:
            for future in futures:
                future.result()
        except BaseException:
            is_ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _claim(folder: Path, loaded: Loaded) -> None:
    """Refuse a folder with the data of another plan."""
    mark = folder / "plan.json"
    if mark.exists():
        if json.loads(mark.read_text()).get("digest") != loaded.digest:
            raise InterferenceError(
                f"{folder} has the data of another plan", hint="give another folder, or the plan as it was"
            )
        return
    if any(folder.iterdir()):
        raise InterferenceError(f"{folder} is not empty", hint="give a new folder")
    write_whole(mark, json.dumps({"digest": loaded.digest}), mode=None)
    write_whole(folder / "cluster.toml", loaded.store, mode=None)


def _carry_out(loaded: Loaded, case: Case, folder: Path, is_ended: threading.Event) -> Run:
    """Do one run, and keep its windows."""
    import weir.store

    own = folder / "runs" / case.name
    data = folder / "windows" / f"run={case.name}"
    for part in (own, data):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    if loaded.seed is not None:
        found = simulated.carry_out(loaded, case, own, is_ended.is_set)
        return _labelled(loaded, case, found.windows, found.window_seconds, folder, ())
    notices: list[str] = []
    is_real_time = real_time.sleeps(loaded.store) and real_time.is_allowed()
    with weir.store.up(folder / "cluster.toml", mount=False, policy=loaded.policy) as store:
        collector = Collector(lambda: store.servers, notices.append)
        pids = _server_pids(store)
        for pid in pids if is_real_time else ():
            real_time.give(pid)
        with Sampling(pids).running() as sampling:
            gathered = _gather(store, collector, loaded, case, own, is_ended, is_real_time=is_real_time)
        if case.target.kernel is not None:
            _add_waits(own / "operations.csv", sampling.waits())
    run = _labelled(loaded, case, gathered, collector.window_seconds, folder, tuple(notices))
    return replace(run, is_real_time=is_real_time)


def _server_pids(store: "Store") -> list[int]:
    """The processes of a store's servers."""
    from weir.store.processes import Process

    home = Home(store.home)
    processes = (Process.recorded(home.record(server.number)) for server in store.servers)
    return [process.pid for process in processes if process is not None]


def _add_waits(path: Path, servers: ProcessWaits) -> None:
    """Add the servers' waits for processors to those of the program, in the record of its operations."""
    operations = labelling.read_operations(path)
    labelling.write_operations(
        (
            replace(each, waited=each.waited + servers.between(each.begin, each.begin + each.seconds))
            for each in operations
        ),
        path,
    )


def _gather(
    store: "Store",
    collector: Collector,
    loaded: Loaded,
    case: Case,
    own: Path,
    is_ended: threading.Event,
    *,
    is_real_time: bool,
) -> list[JobWindow]:
    """Run the target among its interferers, and gather its windows."""
    found: list[JobWindow] = []

    def look() -> None:
        if is_ended.is_set():
            raise InterferenceError(f"{case.name} was ended with the others")
        collector.poll()
        for number, window in collector.take():
            made = joined(number, window, _TARGET, case.name, case.target.name)
            if made.device_seconds or any(row["client_closes"] for row in made.rows):
                found.append(made)

    _await(look, collector, 1)
    with contextlib.ExitStack() as ends:
        others = [ends.enter_context(other.running()) for other in _interferers(store, case, is_real_time)]
        command = _command(case.target, f"{_PREFIX}/{_TARGET}", log=own / "operations.csv")
        _make_folder(store, case.target, f"{_PREFIX}/{_TARGET}")
        variables = ends.enter_context(store.job(job=_TARGET))
        with (own / "output.txt").open("wb") as output, _started(command, variables, output) as process:
            if is_real_time and case.target.kernel is not None:
                real_time.give(process.pid)
            limit = time.monotonic() + loaded.plan.timeout_seconds
            while process.poll() is None:
                if time.monotonic() > limit:
                    raise InterferenceError(f"{case.name} takes longer than {loaded.plan.timeout_seconds} s")
                look()
                for other in others:
                    other.keep_active()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        if process.returncode:
            raise InterferenceError(
                f"the target of {case.name} failed with {process.returncode}", hint=f"see {own / 'output.txt'}"
            )
    _await(look, collector, int(time.time() / collector.window_seconds))
    return found


def _await(look: Callable[[], None], collector: Collector, number: int) -> None:
    """Look until the servers have told a window. They tell none of the one in which they started."""
    limit = time.monotonic() + _WINDOWS_SECONDS_MAX
    while True:
        look()
        if collector.reached() >= number:
            return
        if time.monotonic() > limit:
            raise InterferenceError(f"the servers tell no window up to {number}", hint="see `weir logs`")
        time.sleep(_POLL_SECONDS)


def _command(program: Program, folder: str, *, log: Path | None = None, is_endless: bool = False) -> list[str]:
    """The command of a program whose files lie in a folder."""
    if program.kernel is None:
        return [part.replace("{folder}", folder) for part in program.command]
    specification = {
        "kernel": program.kernel,
        "folder": folder,
        "rounds": 0 if is_endless else program.rounds,
        "pause_seconds": program.pause_seconds,
        "seconds": 0.0 if is_endless else program.seconds,
        "log": str(log) if log else "",
    }
    return [sys.executable, "-m", "weir.interference.kernels", json.dumps(specification)]


def _make_folder(store: "Store", program: Program, folder: str) -> None:
    """Make the folder of a command; a kernel makes its own."""
    if program.kernel is None:
        store.run(["mkdir", "-p", folder], check=True)


@contextlib.contextmanager
def _started(command: Sequence[str], variables: dict[str, str], output: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a group of its own, which ends with the block."""
    try:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    except OSError as error:
        raise InterferenceError(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and those that it started."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            break


def _interferers(store: "Store", case: Case, is_real_time: bool) -> list["_Always"]:
    """The instances of a run's interferer."""
    if case.interferer is None:
        return []
    # A command may compute, and then leave no processor to others.
    raised = is_real_time and case.interferer.kernel is not None
    return [_Always(store, case.interferer, number, is_real_time=raised) for number in range(case.instances)]


class _Always:
    """One instance of an interferer, which is started again whenever it ends."""

    def __init__(self, store: "Store", program: Program, number: int, *, is_real_time: bool) -> None:
        self._store = store
        self._is_real_time = is_real_time
        self._program = program
        self._job = f"{program.name}-{number}"
        self._failures = 0
        self._process: contextlib.ExitStack = contextlib.ExitStack()
        self._running: subprocess.Popen[bytes] | None = None
        self._variables: dict[str, str] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator["_Always"]:
        """The instance, for the length of a block."""
        folder = f"{_PREFIX}/{self._job}"
        _make_folder(self._store, self._program, folder)
        with self._store.job(job=self._job) as self._variables, self._process:
            self._start()
            yield self

    def _start(self) -> None:
        command = _command(self._program, f"{_PREFIX}/{self._job}", is_endless=True)
        self._running = self._process.enter_context(_started(command, self._variables, subprocess.DEVNULL))
        if self._is_real_time:
            real_time.give(self._running.pid)

    def keep_active(self) -> None:
        """Start it again where it has ended.

        Raises:
            InterferenceError: It fails each time.
        """
        if self._running is None or self._running.poll() is None:
            return
        self._failures = self._failures + 1 if self._running.returncode else 0
        if self._failures >= _FAILURES_MAX:
            raise InterferenceError(f"the interferer {self._job} failed {self._failures} times in a row")
        self._process.close()
        self._start()


def _labelled(
    loaded: Loaded,
    case: Case,
    gathered: Sequence[JobWindow],
    window_seconds: float,
    folder: Path,
    notices: tuple[str, ...],
) -> Run:
    """Label the windows of a run, and write those that have a label."""
    truths = {
        window.number: truth
        for window in gathered
        if (truth := measured_slowdown(window.device_seconds, window.waited_seconds)) is not None
    }
    own = folder / "runs" / case.name
    dropped, noisy, slowdown, noise = 0, 0, None, None
    of_operations: dict[int, Label] = {}
    if case.target.kernel is None:
        labels, by = dict(truths), "store"
        dropped = len(gathered) - len(labels)
    else:
        by = "operations"
        # The first reference is labelled before the others are there; its labels are kept by nobody.
        names = [case.name] if case.is_reference else references(loaded.plan, case.target)
        alone = [labelling.read_operations(folder / "runs" / name / "operations.csv") for name in names]
        repeated = labelling.read_operations(own / "operations.csv")
        found = labelling.label(alone, repeated, window_seconds, loaded.plan.noise_seconds)
        slowdown = found.slowdown
        there = {window.number for window in gathered}
        of_operations = {each.window: each for each in found.labels if each.window in there}
        dropped = len(there - of_operations.keys())
        noise = _mean([each.noise for each in of_operations.values()])
        quiet = {number: each for number, each in of_operations.items() if each.noise <= loaded.plan.noise_max}
        # What alone runs tell is the measure of the others, and nobody learns from their labels.
        noisy = 0 if case.is_reference else len(of_operations) - len(quiet)
        of_operations = of_operations if case.is_reference else quiet
        labels = {number: each.slowdown(loaded.plan.label) for number, each in of_operations.items()}
    kept = [window for window in gathered if window.number in labels]
    _write(loaded, case, kept, labels, of_operations, truths, folder)
    both = labels.keys() & truths.keys()
    return Run(
        case.name,
        case.target.name,
        case.interferer.name if case.interferer else "",
        case.instances,
        case.is_reference,
        len(kept),
        dropped,
        _mean([labels[each] for each in both]),
        _mean([truths[each] for each in both]),
        slowdown,
        labelling.agreement(labels, truths) if by == "operations" else None,
        by,
        notices,
        noisy,
        noise,
    )


def _write(
    loaded: Loaded,
    case: Case,
    kept: Sequence[JobWindow],
    labels: dict[int, float],
    of_operations: dict[int, Label],
    truths: dict[int, float],
    folder: Path,
) -> None:
    """Write the windows, and the labels and waits beside them."""
    from weir.interference.windows import of_rows, write

    # Every operation of the reference takes its own time, so its label says nothing.
    slowdowns, both = ({}, {}) if case.is_reference else (labels, of_operations)
    rows = [{**row, "slowdown": slowdowns.get(window.number)} for window in kept for row in window.rows]
    if rows:
        parquet = folder / "windows" / f"run={case.name}" / "windows.parquet"
        write(of_rows(rows), parquet, is_simulated=loaded.seed is not None)
    with (folder / "runs" / case.name / "labels.csv").open("w", newline="") as file:
        table = CsvTable(file)
        waits = ("device_seconds", "waited_seconds", "waited_for")
        table.add(("window", "label", "truth", *waits, "by_time", "mean", "noise"))
        for window in kept:
            number = window.number
            waited = (window.device_seconds, window.waited_seconds, json.dumps(window.waited_for))
            of = both.get(number)
            weightings = ("", "", "") if of is None else (of.by_time, of.mean, of.noise)
            table.add((number, slowdowns.get(number, ""), truths.get(number, ""), *waited, *weightings))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _card(loaded: Loaded, runs: Sequence[Run], folder: Path) -> str:
    """The description of a data set."""
    labelled = [run for run in runs if not run.is_reference]
    windows, dropped = sum(run.windows for run in labelled), sum(run.dropped for run in labelled)
    kind, options = "", ""
    if loaded.seed is not None:
        kind, options = "simulated ", f" --simulated --seed {loaded.seed}"
    lines = [
        "# A data set of interference",
        "",
        f"{windows} labelled windows of {len(labelled)} {kind}runs, by `weir interference collect{options}`.",
        f"{dropped} windows without a match were dropped. {noise_words(runs, loaded.plan.noise_max)}",
        "",
        "`windows/` has the windows, as `weir interference train` takes them; those of the runs alone have no label.",
        "`runs/` has the times of each target's operations, and `labels.csv`: the label, the truth of the",
        "store (device time received and waited for others, over that received), and the jobs waited for. A label by",
        "`store` is that truth, for a command without times of operations. A label by `operations` is the mean of the",
        "slowdowns of operations: `by_time` weighted by their times alone, or the interference paper's plain `mean`.",
        f'The plan chose `label = "{loaded.plan.label}"`. {_noise(loaded)}',
        "",
        *described(quality(runs, folder)),
        "",
        "| run | windows | dropped | noisy | noise | label | truth | same class at 2 | label by | losses |",
        f"|{10 * '---|'}",
    ]
    for run in runs:
        figures = (_shown(run.noise), _shown(run.label), _shown(run.truth), _shown(run.agreement))
        losses = "; ".join(run.notices)
        lines.append(
            f"| {run.name} | {run.windows} | {run.dropped} | {run.noisy} | {' | '.join(figures)} | {run.labelled_by} "
            f"| {losses} |"
        )
    under = "" if loaded.policy is None else f", under `{loaded.policy}`"
    return "\n".join([*lines, "", f"The store{under}:", "", "```toml", loaded.store.rstrip(), "```", ""])


def noise_words(runs: Sequence[Run], most: float) -> str:
    """Say how much the machine itself disturbed the labels of a data set.

    Args:
        most: Greatest noise of a window that is kept.
    """
    measured = [run for run in runs if not run.is_reference and run.noise is not None]
    if not measured:
        return "The machine's own noise was not measured."
    noisy, kept = sum(run.noisy for run in measured), sum(run.windows for run in measured)
    mean = sum(run.noise * (run.windows + run.noisy) for run in measured if run.noise is not None) / max(
        noisy + kept, 1
    )
    raised = "with" if all(run.is_real_time for run in measured) else "without"
    return (
        f"Programs and servers, {raised} real-time priority, waited for processors {100 * mean:.1f} % of the time "
        f"alone; {noisy} of {noisy + kept} windows in which this was more than {100 * most:g} % were dropped."
    )


def _noise(loaded: Loaded) -> str:
    """The operations that are in a label."""
    least = loaded.plan.noise_seconds
    return f"Operations below {1000 * least:g} ms in both runs are in none." if least else "Every operation counts."


def _shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}"
