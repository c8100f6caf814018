"""A script's own history: the runs of its program among those that classes were made from."""

import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath

import msgspec

from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.traits import Traits
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import Job

ARCHIVE = "archive.db"
"""File of the runs in a folder of `weir classes build`."""
RUNS_MAX = 1000
"""Most runs of a program that are looked at, the last of them."""
SCRIPT_BYTES_MAX = 1 << 20
_LAUNCHERS = frozenset(("srun", "mpirun", "mpiexec", "flux", "run", "exec", "env", "time", "nice", "weir", "--"))


class _Run(msgspec.Struct, frozen=True):
    traits: Traits
    started: float = 0.0


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The run by which a script is planned."""

    identity: Identity
    program: str
    runs: int
    """Runs of the program with about as many processes, among which this one is in the middle."""


def past_of(folder: Path, job: Job, script: Path) -> Past:
    """Find the run in the middle of a script's past runs.

    Args:
        folder: Folder of `weir classes build`.
        job: The job of the script, whose processes and nodes hold.
        script: The script, whose words name the program.

    Returns:
        The run whose bytes are the median of the program's runs with the nearest number of processes.

    Raises:
        ProvisioningError: There is no such folder, or no run of a program that the script names.
    """
    words = list(dict.fromkeys(_words(script, job)))
    path = folder / ARCHIVE
    if not path.is_file():
        raise ProvisioningError(f"{folder} has no {ARCHIVE}", hint="`weir classes build LOGS --to FOLDER` makes it")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as file:
            for program in words:
                runs = list(_runs(file, program))
                if runs:
                    return _middle(runs, program, job)
            known = [name for (name,) in file.execute(_PROGRAMS)]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite's words about a damaged file may be no UTF-8.
        raise ProvisioningError(f"{path}: {error}", hint="does a build use the folder?") from error
    raise ProvisioningError(
        f"no past run in {path} is of a program that {script} names",
        hint=f"its programs are {', '.join(known)}" if known else "build classes from logs of the script's runs",
    )


_PROGRAMS = "SELECT program FROM runs GROUP BY program ORDER BY COUNT(*) DESC LIMIT 8"


def _runs(file: sqlite3.Connection, program: str) -> Iterator[_Run]:
    statement = "SELECT CAST(run AS BLOB) FROM runs WHERE program = ? AND run IS NOT NULL ORDER BY id DESC LIMIT ?"
    decoder = msgspec.msgpack.Decoder(_Run)
    for (content,) in file.execute(statement, (program, RUNS_MAX)):
        try:
            yield decoder.decode(content)
        except msgspec.MsgspecError as error:
            raise ProvisioningError(f"the archive is of another version: {error}", hint="build it again") from error


def _middle(runs: Sequence[_Run], program: str, job: Job) -> Past:
    wanted = job.processes or runs[0].traits.processes
    nearest = min(runs, key=lambda run: abs(run.traits.processes - wanted)).traits.processes
    alike = [run.traits for run in runs if run.traits.processes == nearest]
    alike.sort(key=lambda traits: traits.read.bytes + traits.write.bytes)
    return Past(identity=identify(alike[len(alike) // 2], job), program=program, runs=len(alike))


def _words(script: Path, job: Job) -> Iterator[str]:
    """The words of a script that may be its program, without folders: those of each command, launchers left out."""
    yield from (PurePosixPath(word).name for word in job.command if word not in _LAUNCHERS)
    with script.open(errors="replace") as lines:
        text = lines.read(SCRIPT_BYTES_MAX)
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        for word in words:
            name = PurePosixPath(word).name
            if name and name not in _LAUNCHERS and not word.startswith("-"):
                yield name
