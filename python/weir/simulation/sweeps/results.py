"""The results of a sweep: one table of its points in Parquet and in JSON, and what they say by each objective."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir.simulation.intervals import LEVEL, METHOD, Interval
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.evaluation import OBJECTIVES
from weir.simulation.sweeps.ledger import Header, Record, read_header, read_records
from weir.simulation.sweeps.plan import Point, shown, spelled
from weir.simulation.sweeps.statistics import Best, Cell, best, cells
from weir.ways import replacing, write_whole

VERSION = 1
"""Version of both files."""
KIND = "weir-sweep"
DOCUMENT = "results.json"
TABLE = "results.parquet"


@dataclass(frozen=True)
class Results:
    """The points of a sweep that are done."""

    header: Header
    records: tuple[Record, ...]
    """The points, in the order of the plan."""

    @property
    def cells(self) -> list[Cell]:
        """The points that ran, gathered over their seeds."""
        return cells([(record.settings, record.figures) for record in self.records if record.figures is not None])

    @property
    def refused(self) -> list[Record]:
        """The points that the engine refused."""
        return [record for record in self.records if record.refusal is not None]

    def best(self, objective: str) -> Best | None:
        """Find the settings that are best by an objective.

        Args:
            objective: Name of the objective.

        Returns:
            The best settings and those that cannot be told from them; None where no point has the figure.
        """
        return best(self.cells, objective, is_greater_better=OBJECTIVES[objective].is_greater_better)


def results_of(header: Header, records: Mapping[str, Record], points: Iterable[Point]) -> Results:
    """Take the points of a plan from a ledger.

    Args:
        header: The plan's header.
        records: Finished points by their keys.
        points: The plan's points, in their order. Two that are one scenario in two spellings have one record.
    """
    done = [(point, records[point.key]) for point in points if point.key in records]
    return Results(header, tuple(replace(record, settings=point.settings) for point, record in done))


def read_results(folder: Path) -> Results:
    """Read the results of a sweep's folder, finished or not.

    Returns:
        The results, in the order in which the keys of the plan vary.

    Raises:
        SweepError: The folder is no sweep's, or is damaged.
    """
    header = read_header(folder)
    try:
        records = read_records(folder)
    except OSError as error:
        raise SweepError(f"cannot read the points in {folder}: {error.strerror}") from error
    places = {
        key: {json.dumps(value, sort_keys=True): place for place, value in enumerate(values)}
        for key, values in header.axes.items()
    }

    def place(record: Record) -> list[int] | None:
        names = {key: json.dumps(record.settings.get(key), sort_keys=True) for key in header.axes}
        if record.settings.keys() != places.keys() or any(names[key] not in places[key] for key in places):
            return None
        return [places[key][names[key]] for key in places]

    # Points of an earlier plan, whose settings this plan does not have, are not of these results.
    placed = [(where, record) for record in records.values() if (where := place(record)) is not None]
    return Results(header, tuple(record for _, record in sorted(placed, key=lambda each: each[0])))


def best_words(found: Best) -> str:
    """Name the best settings.

    Args:
        found: The best settings, and those that cannot be told from them.

    Returns:
        Text such as `policy=fifo; 3 others cannot be told from it`.
    """
    count = len(found.as_good)
    others = f"; {count} other{'s' * (count > 1)} cannot be told from it" if count else ""
    return f"{spelled(found.cell.settings)}{others}"


def document(results: Results) -> dict[str, Any]:
    """Describe the results.

    Returns:
        Values for JSON: the points with their figures, the cells with means and intervals, and the best cells.
    """
    return {
        "kind": KIND,
        "version": VERSION,
        "file": results.header.file,
        "axes": results.header.axes,
        "intervals": {"method": METHOD, "level": LEVEL},
        "points": [
            {"settings": record.settings, "figures": record.figures, "refusal": record.refusal}
            for record in results.records
        ],
        "cells": [
            {"settings": cell.settings, "figures": {name: _mean_document(cell.mean(name)) for name in cell.figures}}
            for cell in results.cells
        ],
        "best": {name: _best_document(results.best(name)) for name in OBJECTIVES},
    }


def write(results: Results, folder: Path) -> list[Path]:
    """Write `results.json`, and `results.parquet` where pyarrow is installed.

    Args:
        folder: The folder, which must be there.

    Returns:
        Paths of the files.

    Raises:
        OSError: A file cannot be written.
    """
    path = folder / DOCUMENT
    write_whole(path, json.dumps(document(results)) + "\n", mode=0o644)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return [path]
    rows = [_row(record) for record in results.records]
    names = dict.fromkeys(name for row in rows for name in row)
    table = pyarrow.table({name: _column([row.get(name) for row in rows]) for name in names})
    table = table.replace_schema_metadata({b"weir_sweep": str(VERSION).encode()})
    with replacing(folder / TABLE, mode=None) as file:
        parquet.write_table(table, file)
    return [path, folder / TABLE]


def _row(record: Record) -> dict[str, Any]:
    """A point as a row: its settings, its figures and its jobs."""
    figures = record.figures or {}
    settings = {
        f"setting.{key}": value if isinstance(value, int | float | str) else shown(value)
        for key, value in record.settings.items()
    }
    return {**settings, "refusal": record.refusal, **figures}


def _column(values: Sequence[Any]) -> Any:
    """A column of the table; numbers of both kinds are one kind, and values of several kinds are texts."""
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pyarrow.array(values, pyarrow.float64())
    if kinds == {int, float}:
        return pyarrow.array([None if value is None else float(value) for value in values])
    if len(kinds) > 1:
        return pyarrow.array([None if value is None else shown(value) for value in values])
    return pyarrow.array(values)


def _mean_document(mean: Interval | None) -> dict[str, Any] | None:
    return None if mean is None else {"mean": mean.mean, "low": mean.low, "high": mean.high}


def _best_document(found: Best | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"settings": found.cell.settings, "as_good": [cell.settings for cell in found.as_good]}
