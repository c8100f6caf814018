"""Traits of past runs from whatever recorded them: Darshan, `weir run --trace`, Recorder, or DXT in text."""

from collections.abc import Callable
from pathlib import Path

from weir.provisioning.behaviour.observed_windows import has_inside, observed
from weir.provisioning.behaviour.traits import Traits, Transfers, of_log
from weir.tracing.darshan import READ_SECONDS_MAX, refusal
from weir.tracing.dxt_text import is_dxt, read_dxt
from weir.tracing.files import SUFFIX, TracedProcess, TraceError, combined, read_processes
from weir.tracing.recorder_text import is_recorder, read_recorder
from weir.tracing.records import SHARED
from weir.tracing.totals import TotalsReader
from weir.tracing.windows import summed, windows_of

Note = Callable[[str], None]


class RunReader:
    """Reads records of runs one after the other; Darshan's library runs in a process that stays for the next log."""

    def __init__(self, *, note: Note) -> None:
        """Make a reader.

        Args:
            note: Called with a sentence for each record that could be used only in part.
        """
        self._logs = TotalsReader()
        self._note = note

    def start(self, path: Path) -> None:
        """Begin with what takes long for this record, while the caller does other work.

        Args:
            path: The record that will be read.

        Raises:
            DarshanError: The file can be no log.
        """
        if is_trace(path) or is_dxt(path):
            return
        refused = refusal(path)
        if refused is not None:
            raise refused
        self._logs.start()

    def read(self, path: Path, *, seconds_max: float = READ_SECONDS_MAX) -> Traits:
        """Read the traits of a run.

        Args:
            path: A Darshan log, a trace, a folder of traces, of which the last run counts, a folder of Recorder, or the
                text of an extended trace.
            seconds_max: Longest time that Darshan's library may take.

        Raises:
            DarshanError: The log cannot be read.
            TraceError: The traces cannot be read.
            OSError: A trace cannot be opened.
        """
        if is_recorder(path):
            return of_log(read_recorder(path, note=self._note))
        if is_trace(path):
            return _of_traces(path, self._note)
        if is_dxt(path):
            return of_log(read_dxt(path, note=self._note))
        log = self._logs.read(path, seconds_max=seconds_max)
        if log.incomplete:
            parts = ", ".join(log.incomplete)
            self._note(f"{path}: {parts} ran out of memory in the run, so some of its calls are missing")
        return of_log(log)

    def end(self) -> None:
        """End the process of Darshan's library."""
        self._logs.end()


def is_trace(path: Path) -> bool:
    """Whether a path leads to traces, by its name and kind alone.

    Returns:
        True for a folder, and for the name of a trace.
    """
    return path.suffix == SUFFIX or path.is_dir()


def _of_traces(path: Path, note: Note) -> Traits:
    """Take the traits of a run from its traces.

    Traces count operations on the store's devices, their bytes and times, and windows beside them those on observed
    files. Neither counts the sizes and places of single calls.
    """
    runs = read_processes([path], note=note)
    if not runs:
        raise TraceError(f"no trace in {path} was written as far as its process", hint="record the run again")
    if len(runs) > 1:
        note(f"{path} has {len(runs)} runs: the one that began last counts")
    processes = max(runs, key=_started)
    run = combined(processes)
    counted = [windows for each in processes if (windows := windows_of(each, note=note)) is not None]
    lines = [line for windows in summed(counted) for line in windows.lines]
    files = (*run.creations, *run.overwritten)
    folder = path if path.is_dir() else path.parent
    beside = observed(folder, processes[0].process["run"])
    if run.place is not None and has_inside(folder, Path(run.place.path)):
        lines = []
    return Traits(
        program=run.program,
        processes=run.ranks,
        seconds=run.ended - run.started,
        interface="posix" if lines or files or beside.metadata_operations else "none",
        files=len(files),
        shared_files=sum(file.rank == SHARED for file in files),
        read=Transfers(
            operations=sum(line["reads"] for line in lines) + int(beside.reads),
            bytes=sum(line["read_bytes"] for line in lines) + int(beside.read_bytes),
            seconds=sum(line["read_seconds"] for line in lines) + beside.read_seconds,
        ),
        write=Transfers(
            operations=sum(line["writes"] for line in lines) + int(beside.writes),
            bytes=sum(line["written_bytes"] for line in lines) + int(beside.written_bytes),
            seconds=sum(line["write_seconds"] for line in lines) + beside.write_seconds,
        ),
        metadata_operations=sum(line["stats"] + line["opens"] + line["closes"] + line["others"] for line in lines)
        + int(beside.metadata_operations),
        metadata_seconds=sum(line["metadata_seconds"] for line in lines) + beside.metadata_seconds,
    )


def _started(processes: list[TracedProcess]) -> float:
    return min(traced.process["started"] for traced in processes)
