"""Every call that the preload library defines, made on files of the host: with the library as without it.

`tests/programs/host_calls*.c` makes the calls. The library may never change what a call outside the store answers.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from store import Store, fresh
from ways import PREFIX, PREFIX_PATH, PRELOAD, Way
from weir import native

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = ("host_calls.c", "host_calls_world.c", "host_calls_files.c", "host_calls_processes.c")
SECONDS = 300.0
"""No run of all cases may take longer; one takes some ten seconds."""
ABSENT = "is not there"
"""The program's answer for a symbol that this machine's C library lacks."""

LIBRARY_ALONE = "library alone"
RECORDED = "recorded"
MOUNT_GONE = "mount point without a mount"
STORE_GONE = "prefix without a store"
STORELESS = (LIBRARY_ALONE, RECORDED, MOUNT_GONE, STORE_GONE)
"""Ways in which the library is loaded where no store can be reached."""
WITH_STORE = (PRELOAD, PREFIX)
"""Ways in which the process uses a store beside."""

Outcomes = Mapping[str, list[str]]
"""The answers and effects of each case, by its symbol and arguments."""


@dataclass(frozen=True)
class Program:
    """The compiled program, and the directory that its cases use up."""

    path: Path
    directory: Path
    plain: Outcomes = field(repr=False)
    """The outcomes without the library."""

    def outcomes(self, environment: Mapping[str, str], *before: str) -> Outcomes:
        """Run all cases, started by the words `before`."""
        return _run([*before, str(self.path), str(self.directory)], environment)

    def again(self) -> Outcomes:
        """The outcomes of another run without the library."""
        return self.outcomes(_environment())

    def symbols(self) -> set[str]:
        """The symbols that have cases."""
        listed = subprocess.run([self.path, "--list"], check=True, capture_output=True, text=True, timeout=SECONDS)
        return set(listed.stdout.split())

    def storeless(self, name: str) -> Outcomes:
        """The outcomes with the library, by one of the ways `STORELESS`."""
        variables = {
            LIBRARY_ALONE: {},
            RECORDED: {"WEIR_TRACE": str(self.directory / "trace"), "WEIR_TRACE_RUN": "host-calls"},
            MOUNT_GONE: {"WEIR_MOUNT": "/nowhere"},
            STORE_GONE: {"WEIR_PREFIX": PREFIX_PATH, "WEIR_CLUSTER": "/nowhere/cluster.json"},
        }[name]
        return self.outcomes({**_environment(), "LD_PRELOAD": str(native.preload_library()), **variables})

    def beside(self, store: Store, name: str) -> Outcomes:
        """The outcomes of a process that has a file of the store open, by one of the ways `WITH_STORE`."""
        root = store.mount if name == PRELOAD else Path(PREFIX_PATH)
        way = Way(name, store, root, environment={"HOST_CALLS_STORE": str(root / f"host-calls-{os.getpid()}")})
        return self.outcomes({**_environment(), **way.variables()}, *way.command)

    def differences(self, found: Outcomes) -> list[str]:
        """The cases whose outcomes differ, with both of them; those of symbols that libc lacks are left out."""
        absent = {case.split()[0] for case in self.plain if ABSENT in case}
        cases = [case for case in {**self.plain, **found} if case.split()[0] not in absent]
        return [
            f"{case}: {self.plain.get(case)} without the library, {found.get(case)} with it"
            for case in cases
            if self.plain.get(case) != found.get(case)
        ]


def build(folder: Path) -> Program:
    """Compile the program and run it without the library."""
    program = folder / "host_calls"
    sources = [str(PROGRAMS / name) for name in SOURCES]
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-Wno-nonnull"]
    options += ["-Wno-missing-field-initializers", "-pthread"]
    subprocess.run(["gcc", *options, "-o", str(program), *sources, "-lutil"], check=True, timeout=SECONDS)
    directory = folder / "world"
    return Program(program, directory, _run([str(program), str(directory)], _environment()))


def defined() -> set[str]:
    """The symbols that the library defines."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(native.preload_library())],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}


def measure() -> dict[str, int]:
    """The number of calls made with the library in all ways, and of those that were not as without it."""
    with fresh("weir-host-calls-") as store:
        program = build(store.root)
        store.up(servers=1)
        runs = [program.storeless(name) for name in STORELESS]
        runs += [program.beside(store, name) for name in WITH_STORE]
    return {
        "host_calls": sum(len(run) for run in runs),
        "host_call_differences": sum(len(program.differences(run)) for run in runs),
    }


def _environment() -> dict[str, str]:
    """The environment of every run, so that programs print the same of it."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": "/"}


def _run(command: list[str], environment: Mapping[str, str]) -> Outcomes:
    # The C library says on stderr what it ends programs for; the cases tell of the end.
    answer = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="backslashreplace",
        timeout=SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        raise RuntimeError(f"{command} gave {answer.returncode}: {answer.stderr[-2000:]}")
    outcomes: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        case, _, outcome = line.partition(" = ")
        outcomes.setdefault(case, []).append(outcome)
    return outcomes


if __name__ == "__main__":
    print(json.dumps(measure()))
