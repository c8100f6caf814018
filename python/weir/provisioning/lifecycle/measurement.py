"""The measurement of what a job has from its storage: the servers' accounts, and traces of the job's processes.

The accounts of the moment before the program are kept in the job's folder, so that another process may measure the end.
A job never fails for its measurement: what cannot be measured is said in the outcome.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from weir.errors import WeirError
from weir.provisioning import documents
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.behaviour.recorded import RunReader
from weir.provisioning.lifecycle.record import JobFolder
from weir.provisioning.outcomes.outcome import KINDS, Calls, Kind, Neighbouring, Outcome, Question
from weir.store import accounts
from weir.store.access import access_to
from weir.store.answers import Job
from weir.store.control import Server, ask_all, servers_of
from weir.store.home import Home
from weir.tracing.files import SUFFIX, read_processes
from weir.tracing.windows import TracedWindows, windows_of
from weir.ways import write_whole

RUN = "program"
"""Name of the traced run: all processes of a job's program belong to one."""
TRACES_MAX = 4096
"""Most traces that are read: one for each process, some ms each."""
PATTERN = (
    *("name", "program", "processes", "nodes", "interface", "small_fraction", "large_fraction", "sequential_fraction"),
    *("consecutive_fraction", "unaligned_fraction", "collective_fraction", "shared_fraction"),
)
"""Fields of an identity that a run has from its plan: traces know neither the sizes of calls nor their order."""
NEIGHBOURS_MAX = 64
"""Most neighbours that an outcome names, those that received most."""
NEIGHBOUR_MIN = 0.01
"""Least device time of a neighbour, over that of the job."""
_HINT = "the run is not measured"


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The servers' accounts before the program."""

    begun: float
    """Seconds since 1970."""
    accounts: tuple[tuple[Job, ...] | None, ...] = ()
    """By server; None for one that did not answer."""
    is_traced: bool = True


@dataclass(frozen=True)
class _Accounts:
    """The servers' accounts of a run."""

    own: Job | None
    others: Sequence[Job]


def ask(folder: JobFolder, question: Question) -> None:
    """Note in a job's folder what its outcome will be compared with.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(folder.root / "question.json", msgspec.json.encode(question).decode() + "\n")


def begin(folder: JobFolder, present: Mapping[str, str]) -> dict[str, str]:
    """Begin the measurement of a job whose program starts next.

    Args:
        folder: Folder of the job, whose store is up.
        present: Variables of the program.

    Returns:
        Further variables of the program: it leaves traces in the job's folder, unless its user has it traced elsewhere.
    """
    if not (folder.root / "question.json").exists():
        return {}
    is_traced = "WEIR_TRACE" not in present and "LD_PRELOAD" in present
    try:
        traces = _traces(folder)
        if is_traced:
            shutil.rmtree(traces, ignore_errors=True)
            traces.mkdir(mode=0o700)
        before = Before(begun=time.time(), accounts=_answers(folder), is_traced=is_traced)
        write_whole(folder.root / "before.json", msgspec.json.encode(before).decode() + "\n")
    except (WeirError, OSError):
        (folder.root / "before.json").unlink(missing_ok=True)
        return {}
    if not is_traced:
        return {}
    # The trace of a process whose parent is another one tells so, and nothing is made of it here.
    return {"WEIR_TRACE": str(traces), "WEIR_TRACE_RUN": RUN, "WEIR_TRACE_PARENT": str(os.getpid())}


def end(folder: JobFolder, name: str, exit_code: int | None) -> Outcome | None:
    """End the measurement of a job whose program has ended, and whose store is still up.

    Args:
        name: Name of the job in the store's accounts.
        exit_code: Exit code of the program; None where nobody knows.

    Returns:
        The outcome; None where no measurement was begun, or where it was ended before.
    """
    file = folder.root / "before.json"
    if not file.exists():
        return None
    try:
        question = documents.read(folder.root / "question.json", Question, "question of a job", _HINT)
        before = documents.read(file, Before, "measurement of a job", _HINT)
        deployment = folder.deployment()
    except WeirError:
        return None
    finally:
        file.unlink(missing_ok=True)
    outcome = Outcome(
        begun=before.begun,
        job=question.job,
        behaviour_class=deployment.behaviour_class,
        sslo=deployment.sslo,
        system=deployment.system,
        owned=not deployment.joins,
        planned=question.identity,
        done=msgspec.structs.replace(question.identity, program=""),
        predicted=deployment.expected,
        exit_code=exit_code,
    )
    try:
        return _measured(folder, outcome, before, name)
    except (WeirError, OSError) as error:
        words = error.message if isinstance(error, WeirError) else f"{error.filename}: {error.strerror}"
        return msgspec.structs.replace(outcome, fault=words)
    finally:
        shutil.rmtree(_traces(folder), ignore_errors=True)


def _measured(folder: JobFolder, outcome: Outcome, before: Before, name: str) -> Outcome:
    found = _difference(before.accounts, _answers(folder), name)
    outcome = _accounted(outcome, found, folder)
    if not before.is_traced or not any(_traces(folder).glob(f"*{SUFFIX}")):
        return outcome
    paths = sorted(_traces(folder).glob(f"*{SUFFIX}"))
    if len(paths) > TRACES_MAX:
        return msgspec.structs.replace(outcome, fault=f"its {len(paths)} processes are more than {TRACES_MAX}")
    notes: list[str] = []
    processes = [each for run in read_processes([_traces(folder)], note=notes.append) for each in run]
    windows = [each for process in processes if (each := windows_of(process, note=notes.append)) is not None]
    if any(each.missed_windows or each.missed_operations for each in windows):
        return msgspec.structs.replace(outcome, fault=notes[0])
    calls = calls_of(windows)
    covered = _covered(calls, found.own)
    if not calls or not covered or found.own is None:
        return outcome
    done = identify(RunReader(note=notes.append).read(_traces(folder)))
    known = msgspec.structs.replace(
        done,
        read_bytes=found.own.bytes_read,
        written_bytes=found.own.bytes_written,
        # The traces may have a part of the calls alone.
        read_operations=round(done.read_operations / covered),
        write_operations=round(done.write_operations / covered),
        metadata_operations=round(done.metadata_operations / covered),
        **{name: getattr(outcome.planned, name) for name in PATTERN},
    )
    return msgspec.structs.replace(outcome, calls=calls, done=known, covered=covered)


def calls_of(processes: Sequence[TracedWindows]) -> dict[Kind, Calls]:
    """Sum the calls of a run's processes up by kind.

    In each window the time of a kind is the mean over the processes that made calls in the window. Calls that go to
    several targets at once count at each, so the sum of all kinds is at most the length of the window.

    Args:
        processes: The windows of each process.

    Returns:
        The calls of the kinds that were made.
    """
    operations, moved = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    seconds = dict.fromkeys(KINDS, 0.0)
    sums: dict[int, dict[Kind, float]] = {}
    active: dict[int, set[int]] = {}
    length: dict[int, float] = {}
    for number, process in enumerate(processes):
        for line in process.lines:
            operations["read"] += line["reads"]
            operations["write"] += line["writes"]
            operations["metadata"] += line["stats"] + line["opens"] + line["closes"] + line["others"]
            moved["read"] += line["read_bytes"]
            moved["write"] += line["written_bytes"]
            window = sums.setdefault(line["window"], dict.fromkeys(KINDS, 0.0))
            window["read"] += line["read_seconds"]
            window["write"] += line["write_seconds"]
            window["metadata"] += line["metadata_seconds"]
            active.setdefault(line["window"], set()).add(number)
            length[line["window"]] = process.window_seconds
    for place, window in sums.items():
        whole = sum(window.values()) / len(active[place])
        part = min(1.0, length[place] / whole) if whole > 0 else 0.0
        for kind in KINDS:
            seconds[kind] += part * window[kind] / len(active[place])
    return {
        kind: Calls(operations=operations[kind], bytes=moved[kind], seconds=seconds[kind])
        for kind in KINDS
        if operations[kind]
    }


def _accounted(outcome: Outcome, found: _Accounts, folder: JobFolder) -> Outcome:
    own = found.own
    if own is None:
        return msgspec.structs.replace(outcome, fault="the servers have no account of the job: it used no storage")
    waited = {(each.job, each.uid): each.seconds for each in own.waited_for}
    least = NEIGHBOUR_MIN * own.device_seconds
    others = sorted(
        (each for each in found.others if each.device_seconds > least), key=lambda each: -each.device_seconds
    )
    return msgspec.structs.replace(
        outcome,
        share_owed=own.share_owed,
        share_received=own.share_received,
        wait_seconds=own.queue_wait_seconds_total,
        wait_seconds_p99=own.queue_wait_seconds_p99,
        device_seconds=own.device_seconds,
        neighbours=tuple(
            Neighbouring(
                behaviour_class=_class_of(folder, each.job), waited_seconds=waited.get((each.job, each.uid), 0.0)
            )
            for each in others[:NEIGHBOURS_MAX]
        ),
    )


def _difference(
    before: Sequence[tuple[Job, ...] | None], after: Sequence[tuple[Job, ...] | None], name: str
) -> _Accounts:
    """The accounts of the time between two answers of all servers.

    Raises:
        WeirError: A server did not answer, or has begun again meanwhile.
    """
    if len(before) != len(after) or any(each is None for each in (*before, *after)):
        raise WeirError("a server did not tell its account of the job")
    tables = []
    for then, now in zip(before, after, strict=True):
        assert then is not None and now is not None
        known = {each.id: each.operations for each in now}
        if any(known.get(each.id, 0) < each.operations for each in then):
            raise WeirError("a server was started again meanwhile, and has lost its account of the job")
        tables.append(accounts.difference(now, then))
    merged = [each for each in accounts.merge(tables) if each.operations]
    uid = os.geteuid()
    own = next((each for each in merged if each.job == name and each.uid == uid), None)
    return _Accounts(own, [each for each in merged if each is not own])


def _covered(calls: Mapping[Kind, Calls], own: Job | None) -> float:
    """The part of the job's bytes, or without any of its operations, that the traces have."""
    if own is None:
        return 0.0
    served = own.bytes_read + own.bytes_written
    traced = sum(each.bytes for each in calls.values())
    if not served:
        served, traced = own.operations, sum(each.operations for each in calls.values())
    return min(1.0, traced / served) if served else 0.0


def _answers(folder: JobFolder) -> tuple[tuple[Job, ...] | None, ...]:
    home = Home(Path(folder.state().home))
    servers = servers_of(home.cluster, access_to(home, home.cluster))
    return tuple(None if isinstance(each, WeirError) else each for each in ask_all(servers, Server.jobs))


def _class_of(folder: JobFolder, job: str) -> str:
    """The class of a job whose folder lies beside; empty where there is none."""
    beside = folder.root.parent / job
    try:
        return JobFolder(beside).deployment().behaviour_class if Path(job).name == job else ""
    except (WeirError, OSError):
        return ""


def _traces(folder: JobFolder) -> Path:
    return folder.root / "traces"
