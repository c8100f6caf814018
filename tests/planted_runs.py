"""Runs with planted faults, described in `planted_faults/runs.toml`: each on a store of its own."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store import Store, fresh
from waits import wait_until

FOLDER = Path(__file__).with_name("planted_faults")
RANKS = 4


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


def planted_runs() -> list[PlantedRun]:
    """All runs, in the order of the file."""
    tables = tomllib.loads((FOLDER / "runs.toml").read_text())["run"]
    return [PlantedRun(faults=[Fault(**fault) for fault in table.pop("fault", ())], **table) for table in tables]


def mpi_launcher() -> Path | None:
    """The launcher of MPICH, if it and mpi4py are there."""
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        return None
    launcher = shutil.which("mpiexec.mpich")
    return Path(launcher) if launcher else None


def page_of(run: PlantedRun) -> Any:
    """The JSON page that `weir run --report` writes about this run."""
    with fresh("weir-planted-") as store:
        _bring_up(run, store)
        page = store.root / "page.json"
        with _neighbour(run, store):
            store.weir("run", "--job", run.name, "--report", page, "--", *_filled(run.command, store))
        return json.loads(page.read_text())


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
