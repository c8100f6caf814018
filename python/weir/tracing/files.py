"""Traces of `weir run --trace`: one file for each process, combined into runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from weir.errors import WeirError
from weir.tracing.gathering import gather
from weir.tracing.places import place_of
from weir.tracing.records import Run

if TYPE_CHECKING:
    from weir._core import Trace, TraceProcess

_Decoded = TypeVar("_Decoded")
SUFFIX = ".weirtrace"
"""Ending of the names of trace files."""


class TraceError(WeirError):
    """Traces that cannot be read: their path, the reason, and a hint."""


@dataclass(frozen=True, slots=True)
class TracedProcess:
    """One trace file: a process image and its records."""

    path: Path
    process: "TraceProcess"
    records: "list[tuple[object, ...]]"


def read_runs(paths: Iterable[Path], *, note: Callable[[str], None]) -> list[Run]:
    """Read the runs of traces, in folders or given one by one.

    Args:
        paths: Folders of traces, and traces.
        note: Called with a sentence for each trace that could be used only in part.

    Returns:
        The runs, the earliest first.

    Raises:
        TraceError: There is no trace, or a file is no trace, has another version, or is damaged.
        OSError: A file cannot be opened.
    """
    runs = read_processes(paths, note=note)
    return sorted((combined(processes) for processes in runs), key=lambda run: run.started)


def read_processes(paths: Iterable[Path], *, note: Callable[[str], None]) -> list[list[TracedProcess]]:
    """Read the processes of traced runs with all their records.

    Args:
        paths: Folders of traces, and traces. A trace that is named twice is read once.
        note: Called with a sentence for each trace that could be used only in part.

    Returns:
        The processes of each run.

    Raises:
        TraceError: There is no trace, or a file is no trace, has another version, or is damaged.
        OSError: A file cannot be opened.
    """
    runs: dict[str, list[TracedProcess]] = {}
    seen = set[Path]()
    for path in paths:
        for file in _files(path):
            true_path = file.resolve()
            if true_path in seen:
                continue
            seen.add(true_path)
            traced = _read(file, note)
            if traced is not None:
                runs.setdefault(traced.process["run"], []).append(traced)
    return list(runs.values())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(f"*{SUFFIX}"))
    if not files:
        raise TraceError(
            f"there are no traces in {path}",
            hint=f"record a run: `weir run --trace {path} -- CMD`; static programs leave none",
        )
    return files


def _read(path: Path, note: Callable[[str], None]) -> TracedProcess | None:
    from weir._core import decode_trace

    trace: Trace = decoded(path, decode_trace)
    if trace["torn"] is not None:
        offset, count = trace["torn"]
        note(f"{path}: the last {count} bytes, from byte {offset}, were not written whole; those before are used")
    process = trace["process"]
    if process is None:
        return None
    records: list[tuple[object, ...]] = list(trace["records"])
    missed = sum(record[2] for record in trace["records"] if record[0] == "ended")
    if missed:
        note(f"{path}: {missed} files were not recorded, because more were open at once than the recorder follows")
    return TracedProcess(path, process, records)


def decoded(path: Path, decode: Callable[[bytes], _Decoded]) -> _Decoded:
    """Read a trace by one of the native decoders.

    Args:
        path: The trace.
        decode: The decoder, which raises ValueError.

    Returns:
        The answer of the decoder.

    Raises:
        TraceError: The file is no trace, has another version, or is damaged.
        OSError: The file cannot be opened.
    """
    content = path.read_bytes()
    try:
        return decode(content)
    except ValueError as error:
        raise TraceError(f"cannot read the trace {path}: {error}", hint=_remedy(str(error))) from error


def _remedy(error: str) -> str:
    if "damaged" in error:
        return "remove it (the other processes of its run stay readable), or record the run again"
    if "version" in error:
        return "read it with the Weir that recorded it, or record the run again"
    return f"traces are what `weir run --trace DIR` makes; their names end with {SUFFIX}"


def combined(processes: Sequence[TracedProcess]) -> Run:
    """Combine the processes of one run.

    Args:
        processes: At least one process.
    """
    processes = sorted(processes, key=lambda traced: traced.process["started"])
    gathered = gather(processes)
    ranked = [traced for traced in processes if traced.process["rank"] is not None]
    main = _main(processes, ranked)
    sizes = [max(traced.process["ranks"] or 0, (traced.process["rank"] or 0) + 1) for traced in ranked]
    ended = max(traced.process["started"] + _last(traced) for traced in processes)
    return Run(
        program=Path(main["program"]).name or (main["arguments"] or ["?"])[0],
        arguments=tuple(main["arguments"][1:]),
        ranks=max(sizes, default=1),
        started=processes[0].process["started"],
        ended=ended,
        creations=gathered.creations,
        source="weir",
        overwritten=gathered.overwritten,
        makings=gathered.makings,
        process_numbers=frozenset(traced.process["process"] for traced in processes),
        place=place_of(processes[0].path.parent, processes[0].process["run"]),
    )


def _main(processes: list[TracedProcess], ranked: list[TracedProcess]) -> "TraceProcess":
    """The process of the run's program: a rank that made files, else the last image of the first process."""
    if ranked:
        made = {id(traced): sum(record[0] == "opened" for record in traced.records) for traced in ranked}
        programs: dict[str, int] = {}
        for traced in ranked:
            # A shell or `env` between launcher and program makes no files; the program with most files counts.
            programs[traced.process["program"]] = programs.get(traced.process["program"], 0) + made[id(traced)]
        chosen = max(ranked, key=lambda traced: (programs[traced.process["program"]], traced.process["started"]))
        same = [traced for traced in ranked if traced.process["program"] == chosen.process["program"]]
        return min(same, key=lambda traced: traced.process["rank"] or 0).process
    first = [traced for traced in processes if traced.process["is_first"]] or processes[:1]
    return first[-1].process


def _last(traced: TracedProcess) -> float:
    """Seconds from a process's start to its last record."""
    times = [record[-2] if record[0] == "ended" else record[-1] for record in traced.records]
    return max((time for time in times if isinstance(time, float)), default=0.0)
