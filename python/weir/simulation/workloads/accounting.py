"""Jobs of a Slurm accounting file, as `sacct --parsable2` prints it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from weir.simulation.errors import ScenarioError

COMMAND = "sacct --allusers --parsable2 --format=JobID,JobName,User,Account,Submit,Start,Elapsed,NNodes,NCPUS"
"""A command that prints all columns that are used."""
_NEEDED = ("JobID", "User", "Start", "NNodes")
_NEVER = ("Unknown", "None", "")
"""Texts in place of the start of a job that never started."""
_JOB = re.compile(r"\d{1,10}(_(\d{1,10}|\[.*\]))?(\+\d{1,10})?", re.ASCII)
"""Numbers of jobs (in Slurm 32 bits), of members of an array, of parts of a heterogeneous job; steps have a dot."""
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,6})(?:\.\d+)?", re.ASCII)
_SHOWN_CHARACTERS = 40
"""Characters of a wrong value that an error shows."""


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """A job that ran."""

    line: int
    """Its line in the file."""
    job_id: str
    name: str
    user: str
    account: str
    started: float
    """Unix time of its start, in seconds; the file's times count as UTC, so only their differences tell."""
    seconds: float
    """Its length; 0 where the file does not tell."""
    nodes: int
    processors: int


def read_accounting(path: Path) -> list[AccountedJob]:
    """Read the jobs of an accounting file. Steps of jobs, and jobs that never started, are left out.

    Args:
        path: Output of `sacct --parsable2` with its header.

    Returns:
        The jobs by their start.

    Raises:
        ScenarioError: The file cannot be read, or a line of it is wrong; the error names the line and the column.
    """
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is no accounting file: it is not UTF-8", hint=f"make it by {COMMAND}") from error
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}", hint="is the path right?") from error
    header = lines[0].split("|") if lines else []
    lacking = [name for name in _NEEDED if name not in header]
    if lacking:
        raise ScenarioError(
            f"{path}: line 1: the header lacks {', '.join(lacking)}", hint=f"make the file by {COMMAND}"
        )
    jobs = sorted(_jobs(path, header, lines), key=lambda job: (job.started, job.line))
    if not jobs:
        raise ScenarioError(f"{path} has no job that started", hint=f"make it by {COMMAND}")
    return jobs


def _jobs(path: Path, header: list[str], lines: list[str]) -> Iterator[AccountedJob]:
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|")
        if len(cells) != len(header):
            raise _wrong(path, number, f"it has {len(cells)} columns where the header has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        if "." in row["JobID"] or row["Start"] in _NEVER:
            continue
        yield _job(path, number, row)


def _job(path: Path, number: int, row: dict[str, str]) -> AccountedJob:
    if not _JOB.fullmatch(row["JobID"]):
        raise _wrong(path, number, f"JobID: {_shown(row['JobID'])} is no number of a job")
    return AccountedJob(
        line=number,
        job_id=row["JobID"],
        name=row.get("JobName", "") or "unknown",
        user=row["User"] or "unknown",
        account=row.get("Account", "") or "group",
        started=_moment(path, number, row["Start"]),
        seconds=_elapsed(path, number, row.get("Elapsed", "")),
        nodes=_count(path, number, "NNodes", row["NNodes"]),
        processors=_count(path, number, "NCPUS", row.get("NCPUS", "") or row["NNodes"]),
    )


def _moment(path: Path, number: int, text: str) -> float:
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError as error:
        raise _wrong(path, number, f"Start: {_shown(text)} is no time such as 2026-11-23T08:30:00") from error


def _elapsed(path: Path, number: int, text: str) -> float:
    if text in _NEVER:
        return 0.0
    found = _ELAPSED.fullmatch(text)
    if not found:
        raise _wrong(path, number, f"Elapsed: {_shown(text)} is no time such as 1-02:30:00")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _count(path: Path, number: int, column: str, text: str) -> int:
    # sacct writes large numbers as 1.50K.
    factor = {"K": 1e3, "M": 1e6}.get(text[-1:], 1.0)
    try:
        count = float(text.rstrip("KM")) * factor
    except ValueError:
        count = -1.0
    if not 1 <= count <= 1e9:
        raise _wrong(path, number, f"{column}: {_shown(text)} is no number from 1")
    return int(count)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def _wrong(path: Path, number: int, message: str) -> ScenarioError:
    return ScenarioError(f"{path}: line {number}: {message}", hint=f"make the file by {COMMAND}")
