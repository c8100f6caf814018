"""The figures of an experiment as a tidy table: a row for each figure, with all that it depends on.

Each variable is a column and each observation a row (Wickham, "Tidy data", Journal of Statistical Software 59, 2014).
So tables of several experiments, machines and versions can be put below each other.
"""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.csv_table import CsvTable
from weir.experiments.provenance import commit, installed_version, machine
from weir.ways import replacing, write_whole

SUFFIXES = (".csv", ".parquet")
"""Ends of the names of files that a table can be written to."""
ORIGIN = ("machine", "version", "commit", "seed", "date")
"""The last columns, which say where a figure comes from."""

Parameter = str | int | float | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One figure of an experiment."""

    parameters: Mapping[str, Parameter]
    """The parameters on which the figure depends, by name."""
    figure: str
    """Name of the figure."""
    value: float
    """The figure, in `unit`."""
    unit: str
    """Unit of the figure, such as `B/s` or `s`; `1` for a ratio."""


def observed(parameters: Mapping[str, Parameter], units: Mapping[str, str], values: object) -> Iterator[Observation]:
    """Take figures of an object.

    Args:
        parameters: What the figures depend on.
        units: Units of the figures by the names of the object's attributes.
        values: The object; attributes that are None are no figures.

    Yields:
        An observation for each figure.
    """
    for figure, unit in units.items():
        value = getattr(values, figure)
        if value is not None:
            yield Observation(parameters, figure, float(value), unit)


def columns(observations: Sequence[Observation]) -> list[str]:
    """List the columns of a table.

    Returns:
        The experiment, each parameter that any figure has, the figure with its value and unit, and its origin.
    """
    parameters = dict.fromkeys(name for each in observations for name in each.parameters)
    return ["experiment", *parameters, "figure", "value", "unit", *ORIGIN]


def rows(experiment: str, observations: Sequence[Observation], *, seed: int | None) -> list[dict[str, Parameter]]:
    """Make the rows of a table, in the order of the observations.

    Args:
        experiment: Name of the experiment.
        seed: Start of all dice of the experiment; None where it has none.

    Returns:
        Cells by the names of the columns; a parameter that a figure does not depend on is None.
    """
    origin: dict[str, Parameter] = {
        "machine": machine(),
        "version": installed_version(),
        "commit": commit() or None,
        "seed": seed,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    names = columns(observations)
    found: list[dict[str, Parameter]] = []
    for each in observations:
        own = {"experiment": experiment, "figure": each.figure, "value": each.value, "unit": each.unit, **origin}
        cells = {**each.parameters, **own}
        found.append({name: cells.get(name) for name in names})
    return found


def write(path: Path, experiment: str, observations: Sequence[Observation], *, seed: int | None = None) -> None:
    """Write a table, in place of the file that is there.

    Args:
        path: File whose name ends in one of `SUFFIXES`.
        experiment: Name of the experiment.
        seed: Start of all dice of the experiment; None where it has none.

    Raises:
        ImportError: The file is Parquet, and pyarrow is not installed.
        OSError: The file cannot be written.
    """
    table = rows(experiment, observations, seed=seed)
    if path.suffix == ".parquet":
        _write_parquet(path, columns(observations), table)
        return
    text = io.StringIO(newline="")
    lines = CsvTable(text)
    lines.add(columns(observations))
    for row in table:
        lines.add(row.values())
    write_whole(path, text.getvalue(), mode=None)


def _write_parquet(path: Path, names: Sequence[str], table: Sequence[Mapping[str, Parameter]]) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds: dict[str, Any] = {"value": pyarrow.float64(), "seed": pyarrow.int64()}
    arrays = []
    for name in names:
        cells = [row[name] for row in table]
        if name not in kinds and not any(isinstance(cell, int | float) for cell in cells):
            kinds[name] = pyarrow.string()
        arrays.append(pyarrow.array(cells, type=kinds.get(name)))
    with replacing(path, mode=None) as file:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(names)), file)
