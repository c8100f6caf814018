"""Windows of traced runs, as rows of a data set: the operations on a store that the runs' processes counted.

Their numbers are those of the store's own windows, so both can be joined afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weir.interference.client_rows import rows_of
from weir.interference.errors import InterferenceError
from weir.tracing import files
from weir.tracing.files import TracedProcess
from weir.tracing.windows import TracedWindows, summed, windows_of


def is_trace(path: Path) -> bool:
    """Tell whether a path is meant as a trace, or as a folder of traces.

    Args:
        path: The file or folder.

    Returns:
        Whether it is a folder, or its name ends as those of traces do.
    """
    return path.is_dir() or path.suffix == files.SUFFIX


def read_rows(paths: Sequence[Path], *, note: Callable[[str], None]) -> list[dict[str, Any]]:
    """Read the windows of traced runs.

    Args:
        paths: Traces, and folders of traces.
        note: Called with a sentence for each trace that could be used only in part.

    Returns:
        Rows of a data set: a run for each traced run, or for each job of a run that had several, and a row for each
        window and device. All processes of a run are added up.

    Raises:
        InterferenceError: No trace has windows, or windows are of several stores or lengths.
        TraceError: A trace cannot be read.
        OSError: A trace cannot be opened.
    """
    rows: list[dict[str, Any]] = []
    kinds: set[tuple[int, float]] = set()
    for processes in files.read_processes(paths, note=note):
        jobs = summed(_each(processes, note))
        run, program = processes[0].process["run"], files.combined(processes).program
        for job in jobs:
            kinds.add((job.store, job.window_seconds))
            rows += _rows_of_job(job, run if len(jobs) == 1 else f"{run}.{job.uid}/{job.job}", program)
    if not rows:
        raise InterferenceError(
            "the traces have no windows",
            hint="only programs that use a store through the library have them: `weir run --trace DIR -- CMD`",
        )
    if len(kinds) > 1:
        raise InterferenceError(
            "the traces have windows of several stores, or of several lengths",
            hint="import the runs of each store into a data set of its own",
        )
    return rows


def _each(processes: Sequence[TracedProcess], note: Callable[[str], None]) -> Iterator[TracedWindows]:
    """The windows of each process; those of one process at a time are in memory."""
    for traced in processes:
        windows = windows_of(traced, note=note)
        if windows is not None:
            yield windows


def _rows_of_job(job: TracedWindows, run: str, program: str) -> list[dict[str, Any]]:
    by_window: dict[int, list[Any]] = {}
    for line in job.lines:
        by_window.setdefault(line["window"], []).append(line)
    return [
        row
        for number, lines in by_window.items()
        for row in rows_of(run, program, number, lines, lambda device: device)
    ]
