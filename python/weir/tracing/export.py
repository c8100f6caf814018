"""Runs as one table, a row for each file: CSV, or Parquet."""

import io
import shlex
from collections.abc import Sequence
from pathlib import Path

from weir.csv_table import CsvTable
from weir.tracing.records import Run
from weir.ways import replacing, write_whole

VERSION = 1
"""Version of the columns; in Parquet it stands in the file's metadata as `weir.trace.version`."""
COLUMNS = (
    "run",
    "program",
    "arguments",
    "ranks",
    "started",
    "ended",
    "source",
    "path",
    "rank",
    "order",
    "kind",
    "size_bytes",
    "written_bytes",
    "writers",
    "layout",
    "renamed",
)
"""`run` counts the runs from 0; `started` and `ended` are Unix seconds; `rank` is -1 for a file that several ranks
share; `kind` is `created`, `truncated` (it was there) or `overwritten` (it kept its bytes)."""

Row = tuple[int | float | str | None, ...]
"""One row of the table, in the order of `COLUMNS`."""


def rows(runs: Sequence[Run]) -> list[Row]:
    """Make the table.

    Returns:
        A row for each file, in the order of runs and creations.
    """
    table: list[Row] = []
    for number, run in enumerate(runs):
        of_run = (number, run.program, shlex.join(run.arguments), run.ranks, run.started, run.ended, run.source)
        for is_creation, creations in ((True, run.creations), (False, run.overwritten)):
            for made in creations:
                kind = ("truncated" if made.was_there else "created") if is_creation else "overwritten"
                table.append(
                    (
                        *of_run,
                        made.path,
                        made.rank,
                        made.order,
                        kind,
                        made.size_bytes,
                        made.written_bytes,
                        made.writers,
                        made.layout,
                        made.renamed,
                    )
                )
    return table


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """Write the table as CSV with a header line; unknown values are empty.

    Args:
        path: The file to write.

    Raises:
        OSError: The file cannot be written.
    """
    text = io.StringIO(newline="")
    table = CsvTable(text)
    for row in (COLUMNS, *rows(runs)):
        table.add(row)
    write_whole(path, text.getvalue(), mode=None)


def write_parquet(runs: Sequence[Run], path: Path) -> None:
    """Write the table as Parquet.

    Args:
        path: The file to write.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: The file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    integers = {"run", "ranks", "rank", "order", "size_bytes", "written_bytes", "writers"}
    times = {"started", "ended"}

    def kind(name: str) -> "pyarrow.DataType":
        if name in integers:
            return pyarrow.int64()
        return pyarrow.float64() if name in times else pyarrow.string()

    schema = pyarrow.schema([(name, kind(name)) for name in COLUMNS], metadata={"weir.trace.version": str(VERSION)})
    # A string column cannot hold names that are no UTF-8: their bytes are escaped.
    cells = [[_utf8(cell) for cell in row] for row in rows(runs)]
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in COLUMNS]
    arrays = [pyarrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    with replacing(path, mode=None) as file:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), file)


def _utf8(cell: int | float | str | None) -> int | float | str | None:
    if isinstance(cell, str):
        return cell.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return cell
