"""The results of an experiment as documents: JSON with everything, CSV with a line for each job and window."""

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.csv_table import CsvTable
from weir.experiments import hierarchy
from weir.experiments.figures import Figure, Panel
from weir.experiments.tidy import Observation, Parameter, observed
from weir.ways import make_folders, write_whole

FORMAT_VERSION = 1
"""Version of the JSON file."""

_SUMMARY_UNITS = {
    "bytes_per_second_median": "B/s",
    "bytes_per_second_mean": "B/s",
    "bytes_per_second_deviation": "B/s",
    "share_owed": "1",
    "share_device": "1",
    "share_bytes": "1",
    "share_deviation": "1",
    "share_error_max": "1",
    "windows": "windows",
    "windows_within": "windows",
}
_PANEL_UNITS = {"busy_ratio": "1", "disagreement_max": "1", "request_seconds": "s"}
_CONVERGENCE_UNITS = {"right_seconds": "s", "exchanges": "exchanges", "share_error_max": "1"}
_COLUMNS = (
    *("panel", "policy", "scheduler"),
    *("window", "start_seconds", "phase"),
    *("job", "user", "group", "nodes"),
    "device_seconds_per_second",
    *("bytes_written", "bytes_read", "requests", "outstanding_mean"),
    *("share_device", "share_bytes", "share_owed"),
    "is_counted",
)


def document(figure: Figure, *, with_windows: bool) -> dict[str, Any]:
    """Describe the results.

    Args:
        figure: Results of an experiment.
        with_windows: Whether to list the windows, too.

    Returns:
        Values for JSON: times in seconds, shares as fractions of the targets' time.
    """
    return {
        "version": FORMAT_VERSION,
        "figure": figure.name,
        "title": figure.title,
        "seconds": figure.options.seconds,
        "speed": figure.options.speed,
        "panels": [_panel(panel, with_windows=with_windows) for panel in figure.panels],
    }


def write(figure: Figure, folder: Path) -> list[Path]:
    """Write `NAME.json` and `NAME.csv`.

    Args:
        figure: Results of an experiment.
        folder: Folder of the files; it is made.

    Returns:
        Paths of the files.

    Raises:
        OSError: A file cannot be written.
    """
    make_folders(folder)
    whole = folder / f"{figure.name}.json"
    write_whole(whole, json.dumps(document(figure, with_windows=True), indent=1) + "\n", mode=None)
    lines = folder / f"{figure.name}.csv"
    text = io.StringIO(newline="")
    table = CsvTable(text)
    for row in (_COLUMNS, *(line for panel in figure.panels for line in _lines(panel))):
        table.add(row)
    write_whole(lines, text.getvalue(), mode=None)
    return [whole, lines]


def observations(figure: Figure) -> Iterator[Observation]:
    """List the figures of an experiment: those of each job in each phase, and those of each run.

    Args:
        figure: Results of an experiment.

    Yields:
        The figures, run by run.
    """
    for panel in figure.panels:
        run: dict[str, Parameter] = {
            "run": panel.title,
            "policy": panel.policy,
            "scheduler": panel.scheduler,
            "speed": figure.options.speed,
            "seconds": figure.options.seconds,
        }
        jobs = {job.name: job for job in panel.jobs}
        for summary in panel.summaries:
            job = jobs[summary.job]
            who: dict[str, Parameter] = {"job": job.name, "user": job.user, "group": job.group, "nodes": job.nodes}
            phase = {"begin_seconds": summary.start_seconds, "end_seconds": summary.end_seconds}
            yield from observed({**run, **who, **phase}, _SUMMARY_UNITS, summary)
        yield from observed(run, _PANEL_UNITS, panel)
        if panel.convergence is not None:
            interval = {"lambda_milliseconds": panel.convergence.lambda_milliseconds}
            yield from observed({**run, **interval}, _CONVERGENCE_UNITS, panel.convergence)


def _lines(panel: Panel) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = []
    jobs = {job.name: job for job in panel.jobs}
    for row in panel.rows:
        job = jobs[row.job]
        shares = (
            "" if share is None else f"{share:.6f}" for share in (row.share_device, row.share_bytes, row.share_owed)
        )
        counted = (row.bytes_written, row.bytes_read, row.requests, f"{row.outstanding:.3f}")
        when = (row.window, f"{row.start_seconds:.3f}", "" if row.phase is None else row.phase)
        run = (panel.title, panel.policy, panel.scheduler or "")
        who = (job.name, job.user, job.group, job.nodes)
        lines.append((*run, *when, *who, f"{row.device_ratio:.6f}", *counted, *shares, int(row.is_counted)))
    return lines


def _panel(panel: Panel, *, with_windows: bool) -> dict[str, Any]:
    said: dict[str, Any] = {
        "title": panel.title,
        "policy": panel.policy,
        "scheduler": panel.scheduler,
        "refused": panel.refused or None,
        "request_seconds": panel.request_seconds,
        "disagreement_max": panel.disagreement_max,
        "busy_ratio": panel.busy_ratio,
        "jobs": [asdict(job) for job in panel.jobs],
        "summaries": [asdict(summary) for summary in panel.summaries],
        "tree": [asdict(branch) for branch in hierarchy.tree(panel.jobs, panel.summaries, panel.groupings)],
        "exchange": asdict(panel.convergence) if panel.convergence else None,
    }
    if with_windows:
        said["window_seconds"] = panel.window_seconds
        said["windows"] = [asdict(row) for row in panel.rows]
    return said
