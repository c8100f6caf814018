"""Runs with planted faults, described in `planted_faults/runs.toml`: each on a store of its own."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recorded import known_windows, now_milliseconds, recording
from store import Store, fresh
from waits import wait_until
from weir.history.levels import STATES_EVERY

FOLDER = Path(__file__).with_name("planted_faults")
RANKS = 4
LATE = STATES_EVERY + 2000
"""Milliseconds after the end of a run until the history has all windows of the run, and the states after it."""


@dataclass(frozen=True)
class Fault:
    """One planted fault: its kind in the field's words, its place, and its figure with what is still right."""

    kind: str
    place: str
    says: str
    figure: float
    least: float
    most: float
    store_knows: bool = False


@dataclass(frozen=True)
class PlantedRun:
    """One run as `runs.toml` describes it."""

    name: str
    command: Sequence[str]
    also: Sequence[str]
    faults: Sequence[Fault]
    up: Sequence[str] = ()
    cluster: str | None = None
    prepare: Sequence[Sequence[str]] = ()
    layout: Sequence[str] = ()
    neighbour: Sequence[str] = ()

    @property
    def needs_mpi(self) -> bool:
        """Whether the run has several MPI processes."""
        return "{ranks}" in self.command


RULES = {
    "backward_reads": "backward-reads",
    "busy_store": "share",
    "independent_calls": "independent",
    "many_small_files": "many-files",
    "metadata_heavy": "metadata",
    "one_process_does_all": "one-rank",
    "one_stripe": "one-target",
    "open_close": "reopened",
    "random_reads": "random-reads",
    "read_back": "read-back",
    "rereads": "reread",
    "slow_target": "slow-target",
    "small_reads": "small-reads",
    "small_writes": "small-writes",
    "strided": "random-writes",
    "sync_each_write": "syncs",
    "unaligned": "unaligned",
    "uneven_targets": "one-target",
    "waited_for": "neighbour",
}
"""The rule that finds each kind of fault; written after the runs, and after the first pages of them."""


@dataclass(frozen=True)
class Verdict:
    """A page beside what was planted."""

    confirmed: Sequence[Fault]
    """Faults that the page names with their figure and their place."""
    named: Sequence[Fault]
    """Faults of whose kind the page has a finding."""
    wrong: Sequence[str]
    """Rules of findings that are not true of the run."""
    begins_with_a_fault: bool


def planted_runs() -> list[PlantedRun]:
    """All runs, in the order of the file."""
    tables = tomllib.loads((FOLDER / "runs.toml").read_text())["run"]
    return [PlantedRun(faults=[Fault(**fault) for fault in table.pop("fault", ())], **table) for table in tables]


def mpi_launcher() -> Path | None:
    """The launcher of MPICH, if it and mpi4py are there."""
    launcher = shutil.which("mpiexec.mpich")
    return Path(launcher) if launcher and find_spec("mpi4py") else None


def page_of(run: PlantedRun) -> Any:
    """The JSON page that `weir run --report` writes about this run."""
    with fresh("weir-planted-") as store:
        _bring_up(run, store)
        page = store.root / "page.json"
        with _neighbour(run, store):
            store.weir("run", "--job", run.name, "--report", page, "--", *_filled(run.command, store))
        return json.loads(page.read_text())


def page_of_job(run: PlantedRun) -> Any:
    """The JSON of `weir report JOB` about this run: a recorder saw the store, and nobody the calls of the program."""
    with fresh("weir-planted-") as store:
        _bring_up(run, store)
        with recording(store), _neighbour(run, store):
            store.weir("run", "--job", run.name, "--", *_filled(run.command, store))
            late = now_milliseconds() + LATE
            wait_until("its windows are kept", lambda: known_windows(store, late) > 0)
        return store.json("report", run.name)


def judged(run: PlantedRun, page: Any) -> Verdict:
    """Compare a page with what was planted."""
    found = {finding["rule"]: finding for finding in page["findings"]}
    named = [fault for fault in run.faults if RULES[fault.kind] in found]
    confirmed = [fault for fault in named if _is_right(fault, found[RULES[fault.kind]], page)]
    true = {RULES[fault.kind] for fault in run.faults} | {RULES[kind] for kind in run.also if kind in RULES}
    begins = next(iter(found), None) in {RULES[fault.kind] for fault in run.faults}
    wrong = [rule for rule in found if rule not in true]
    return Verdict(confirmed, named, wrong, begins_with_a_fault=begins)


def known_to_the_store(run: PlantedRun, page: Any) -> Sequence[Fault]:
    """The faults that servers can know, and that a page names with their figure. Servers know no files."""
    found = {finding["rule"]: finding for finding in page["findings"]}
    named = [fault for fault in run.faults if fault.store_knows and RULES[fault.kind] in found]
    return [each for each in named if each.least <= _figure(each.kind, found[RULES[each.kind]], page) <= each.most]


def _is_right(fault: Fault, finding: Any, page: Any) -> bool:
    is_placed = any(fault.place in where for where in finding["where"])
    return is_placed and fault.least <= _figure(fault.kind, finding, page) <= fault.most


def _figure(kind: str, finding: Any, page: Any) -> float:
    """The figure of a finding in the unit of the fault."""
    number = float(finding["number"])
    match kind:
        case "small_writes":
            return number * int(page["accesses"]["writes"]["sized"])
        case "random_reads" | "backward_reads":
            return number * int(page["accesses"]["reads"]["placed"])
        case "metadata_heavy":
            percent = re.search(r"\((\d+)% of all\)", finding["words"])
            return int(percent[1]) / 100 if percent else 0.0
        case "slow_target":
            return 1 / number
    return number


def _bring_up(run: PlantedRun, store: Store) -> None:
    if run.cluster:
        (store.root / "cluster.toml").write_text(run.cluster)
        store.weir("up", store.root / "cluster.toml")
    else:
        store.weir("up", *run.up)
    for command in run.prepare:
        store.weir("run", "--", *_filled(command, store))
    if run.layout:
        store.weir("layout", "set", *_filled(run.layout, store))


@contextmanager
def _neighbour(run: PlantedRun, store: Store) -> Iterator[None]:
    if not run.neighbour:
        yield
        return
    command = ["weir", "run", "--job", "flood", "--", *_filled(run.neighbour, store)]
    flood = subprocess.Popen(command, env=store.variables(), start_new_session=True)
    try:
        wait_until("the flood has begun", (store.mount / "flood3").exists)
        yield
    finally:
        flood.terminate()
        flood.wait(30)


def _filled(command: Sequence[str], store: Store) -> list[str]:
    words: list[str] = []
    for word in command:
        if word == "{ranks}":
            words += _launch(store)
        else:
            words.append(word.format(mount=store.mount, programs=FOLDER / "programs", python=sys.executable))
    return words


def _launch(store: Store) -> list[str]:
    """The words before a program of several ranks.

    Wheels of mpi4py look for `libmpi.so.12`, and Debian's MPICH has another name.
    """
    libraries = store.root / "libraries"
    libraries.mkdir(exist_ok=True)
    for library in Path("/usr/lib").glob("*/libmpich.so.12"):
        (libraries / "libmpi.so.12").symlink_to(library)
    store.environment["LD_LIBRARY_PATH"] = str(libraries)
    return ["mpiexec.mpich", "-n", str(RANKS)]
