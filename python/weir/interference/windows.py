"""Windows: what a job asked of each server in a stretch of time, and what the server did meanwhile.

A data set is a Parquet file with a row for each window and server. A label is a slowdown: the mean time of the window's
operations over their times in a run without others (the interference paper, section III-D).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weir.interference.errors import InterferenceError
from weir.ways import replacing

if TYPE_CHECKING:
    import pyarrow

VERSION = 2
"""Version of data sets. Those of version 1, which do not tell who counted, are read, too; others are refused."""
_READABLE = (1, VERSION)
CLIENT = ("reads", "writes", "read_bytes", "written_bytes", "stats", "opens", "closes")
"""Counts of a job's operations on a server; the last three on metadata servers alone."""
TIMES = ("read_seconds", "write_seconds", "metadata_seconds")
"""Sums of the times of a job's operations on a server, where the job's programs counted them."""
COUNTED_BY = ("", "client", "server")
"""The sides that may have counted the operations of a job: unknown, its programs, or the servers."""
SERVER = (
    "reads",
    "writes",
    "merged_reads",
    "merged_writes",
    "read_sectors",
    "written_sectors",
    "read_milliseconds",
    "write_milliseconds",
    "in_progress",
    "busy_milliseconds",
    "queued_milliseconds",
)
"""Counters of a server's device, as in Linux's `/proc/diskstats`."""
STATISTICS = ("sum", "mean", "deviation")
"""Reductions of the samples of a window."""
_KEYS = ("run", "workload", "window", "io_seconds", "slowdown", "server", "is_metadata")
_ADDED = ("counted_by", *(f"client_{name}" for name in TIMES))
"""The columns that version 1 has not."""
_NAMES = ("run", "workload", "server", "counted_by")
"""The columns of texts."""
ROWS_MAX = 1 << 19
"""Most rows of a data set, at some kilobytes each. A small compressed file may have any number of equal ones."""
_BATCH_ROWS = 1 << 13
_NAME_MAX = 4096
_NAMES_BYTES_MAX = 64 << 20
"""Longest name, and most of all names of a batch."""
_METADATA_KEY = b"weir.windows"
_SIMULATED = "simulated"
"""Mark of a file whose windows a simulator made."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Windows:
    """Windows of jobs on a number of servers, in the order of time within each run."""

    runs: NDArray[np.str_]
    """Name of each window's run, shape (windows,)."""
    workloads: NDArray[np.str_]
    """Name of each window's program, shape (windows,)."""
    numbers: NDArray[np.int64]
    """Place of each window in its run, shape (windows,)."""
    io_seconds: Floats
    """Time that the job spent in I/O, shape (windows,)."""
    slowdowns: Floats
    """Labels, NaN where a window has none, shape (windows,)."""
    servers: NDArray[np.str_]
    """Names of the servers, shape (windows, servers)."""
    present: NDArray[np.bool_]
    """Whether a server was there, shape (windows, servers)."""
    is_metadata: NDArray[np.bool_]
    """Whether a server keeps metadata, shape (windows, servers)."""
    client: Floats
    """Counts in the order of `CLIENT`, shape (windows, servers, counts)."""
    server: Floats
    """Counters in the order of `SERVER` and, within each, of `STATISTICS`, shape (windows, servers, 33)."""
    counted_by: NDArray[np.str_]
    """The side that counted the operations of the job, one of `COUNTED_BY`, shape (windows,)."""
    times: Floats
    """Times in the order of `TIMES`, in seconds, NaN where they are not known, shape (windows, servers, 3)."""

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.runs)

    def take(self, chosen: NDArray[Any]) -> "Windows":
        """Choose windows.

        Args:
            chosen: A mask, or places.

        Returns:
            The chosen windows.
        """
        return Windows(**{name: getattr(self, name)[chosen] for name in self.__dataclass_fields__})

    def labelled(self) -> "Windows":
        """The windows that have a label."""
        return self.take(~np.isnan(self.slowdowns))


def columns() -> list[str]:
    """The columns of a data set.

    Returns:
        Names, in their order.
    """
    server = [f"server_{name}_{statistic}" for name in SERVER for statistic in STATISTICS]
    return [*_KEYS, *(f"client_{name}" for name in CLIENT), *server, *_ADDED]


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Windows:
    """Put rows of windows and servers together.

    Args:
        rows: A mapping of `columns` for each window and server. Counts that are missing are 0.

    Returns:
        The windows, by run and number.

    Raises:
        InterferenceError: There is no row, or a row names no window.
    """
    places: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    try:
        for row in rows:
            places.setdefault((str(row["run"]), str(row["workload"]), int(row["window"])), []).append(row)
    except (KeyError, TypeError, ValueError) as error:
        raise InterferenceError(f"a row names no run, workload and window: {error}") from error
    if not places:
        raise InterferenceError("there are no windows", hint="collect some, or import those of others")
    keys = sorted(places)
    most = max(len(of_window) for of_window in places.values())
    shape = (len(keys), most)
    longest = max(len(str(row.get("server"))) for row in rows)
    made = Windows(
        runs=np.array([key[0] for key in keys]),
        workloads=np.array([key[1] for key in keys]),
        numbers=np.array([key[2] for key in keys]),
        io_seconds=np.zeros(len(keys)),
        slowdowns=np.full(len(keys), np.nan),
        servers=np.zeros(shape, f"<U{longest}"),
        present=np.zeros(shape, bool),
        is_metadata=np.zeros(shape, bool),
        client=np.zeros((*shape, len(CLIENT))),
        server=np.zeros((*shape, len(SERVER) * len(STATISTICS))),
        counted_by=np.array([str(places[key][0].get("counted_by") or "") for key in keys]),
        times=np.full((*shape, len(TIMES)), np.nan),
    )
    try:
        for number, key in enumerate(keys):
            _fill(made, number, sorted(places[key], key=lambda row: str(row["server"])))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InterferenceError(f"a row has no numbers where it should have some: {error}") from error
    return _checked(made)


def chained(parts: Iterable[Windows]) -> Windows:
    """Put windows one after the other; those with fewer servers get more that are not there.

    Args:
        parts: At least one part.

    Returns:
        The windows of all.
    """
    every = list(parts)
    most = max(part.present.shape[1] for part in every)

    def column(name: str) -> NDArray[Any]:
        columns = [getattr(part, name) for part in every]
        if columns[0].ndim > 1:
            rest = ((0, 0),) * (columns[0].ndim - 2)
            columns = [np.pad(each, ((0, 0), (0, most - each.shape[1]), *rest)) for each in columns]
        return np.concatenate(columns)

    return Windows(**{name: column(name) for name in Windows.__dataclass_fields__})


def latest(windows: Windows, count: int) -> Windows:
    """Choose the last windows.

    Args:
        windows: At least one window.
        count: Most windows to choose, at least 1.

    Returns:
        The windows, with as many places for servers as the one with the most servers fills.
    """
    most = int(windows.present[-count:].sum(axis=1).max())

    def column(name: str) -> NDArray[Any]:
        values = getattr(windows, name)[-count:]
        return np.ascontiguousarray(values[:, :most] if values.ndim > 1 else values)

    return Windows(**{name: column(name) for name in Windows.__dataclass_fields__})


def _fill(made: Windows, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Fill a window from its rows, one for each server."""
    counts = columns()[len(_KEYS) : -len(_ADDED)]
    made.io_seconds[number] = float(rows[0]["io_seconds"])
    label = rows[0].get("slowdown")
    made.slowdowns[number] = np.nan if label is None else float(label)
    for place, row in enumerate(rows):
        made.servers[number, place] = str(row["server"])
        made.present[number, place] = True
        made.is_metadata[number, place] = bool(row.get("is_metadata", False))
        values = [float(row.get(name) or 0.0) for name in counts]
        made.client[number, place], made.server[number, place] = values[: len(CLIENT)], values[len(CLIENT) :]
        times = [row.get(name) for name in _ADDED[1:]]
        made.times[number, place] = [np.nan if time is None else float(time) for time in times]


def _checked(windows: Windows) -> Windows:
    numbers = (windows.io_seconds, windows.client, windows.server)
    if not all(np.isfinite(each).all() for each in numbers) or (windows.io_seconds < 0).any():
        raise InterferenceError("a window has a negative time, or counts that are no finite numbers")
    if (windows.times < 0).any() or np.isinf(windows.times).any():
        raise InterferenceError("a window has times of operations that are negative or no numbers")
    strange = set(windows.counted_by.tolist()) - set(COUNTED_BY)
    if strange:
        raise InterferenceError(f"operations were counted by {min(strange)!r}, which is neither client nor server")
    for run in set(windows.runs.tolist()):
        if len(set(windows.counted_by[windows.runs == run].tolist())) > 1:
            raise InterferenceError(
                f"the operations of run {run} were counted by its programs in some windows and by servers in others",
                hint="the two are not alike: record each run with the same `counts`",
            )
    bad = ~np.isnan(windows.slowdowns) & ~((windows.slowdowns > 0) & np.isfinite(windows.slowdowns))
    if bad.any():
        raise InterferenceError(
            f"window {windows.numbers[bad][0]} of run {windows.runs[bad][0]} has no positive slowdown"
        )
    return windows


def write(windows: Windows, path: Path, *, is_simulated: bool = False) -> None:
    """Write a data set.

    Args:
        path: A Parquet file, which is replaced.
        is_simulated: Whether a simulator made the windows, which the file says.
    """
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    where = np.argwhere(windows.present)
    number, place = where[:, 0], where[:, 1]
    values: list[Any] = [
        windows.runs[number],
        windows.workloads[number],
        windows.numbers[number],
        windows.io_seconds[number],
        arrow.array(windows.slowdowns[number], from_pandas=True),
        windows.servers[number, place],
        windows.is_metadata[number, place],
        *windows.client[number, place].T,
        *windows.server[number, place].T,
        windows.counted_by[number],
        *(arrow.array(times, from_pandas=True) for times in windows.times[number, place].T),
    ]
    table = arrow.table(dict(zip(columns(), values, strict=True)))
    with replacing(path, mode=None) as file:
        parquet.write_table(_marked(table, is_simulated), file, compression="zstd")


def _marked(table: "pyarrow.Table", is_simulated: bool) -> "pyarrow.Table":
    mark = {"version": VERSION, _SIMULATED: True} if is_simulated else {"version": VERSION}
    return table.replace_schema_metadata({_METADATA_KEY: json.dumps(mark)})


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, *, is_simulated: bool = False) -> None:
    """Write rows as they are, with the names of their servers.

    Args:
        rows: A mapping of `columns` for each window and server. Counts that are missing are 0.
        path: A Parquet file, which is replaced.
        is_simulated: Whether a simulator made the windows.

    Raises:
        InterferenceError: There is no row, or a row cannot be one of a data set.
    """
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    of_rows(rows)
    counts = columns()[len(_KEYS) : -len(_ADDED)]
    kinds = {"run": arrow.string(), "workload": arrow.string(), "window": arrow.int64(), "server": arrow.string()}
    kinds |= {"is_metadata": arrow.bool_(), "counted_by": arrow.string()}
    values = {name: [row.get(name) for row in rows] for name in _KEYS}
    values |= {name: [float(row.get(name) or 0.0) for row in rows] for name in counts}
    values |= {"counted_by": [str(row.get("counted_by") or "") for row in rows]}
    values |= {name: [row.get(name) for row in rows] for name in _ADDED[1:]}
    table = arrow.table({name: arrow.array(values[name], kinds.get(name, arrow.float64())) for name in columns()})
    with replacing(path, mode=None) as file:
        parquet.write_table(_marked(table, is_simulated), file, compression="zstd")


def read(paths: Sequence[Path]) -> Windows:
    """Read data sets.

    Args:
        paths: Parquet files, or folders of them.

    Returns:
        The windows of all.

    Raises:
        InterferenceError: A file is no data set of this version, or there is none, or some windows are simulated and
            others are not.
    """
    files = _files(paths)
    if len({is_simulated(file) for file in files}) > 1:
        raise InterferenceError(
            "some of the windows are simulated and others are not, and a workload is compared with all windows of it",
            hint="give those of one kind; `weir interference evaluate --additional` takes simulated ones",
        )
    return of_rows([row for file in files for row in _rows(file)])


def is_simulated(file: Path) -> bool:
    """Decide whether a simulator made the windows of a data set.

    Args:
        file: A Parquet file.

    Returns:
        Whether the file says so.

    Raises:
        InterferenceError: The file is no data set.
    """
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        return _mark(parquet.read_schema(file)).get(_SIMULATED) is True
    except (arrow.ArrowInvalid, OSError, ValueError, AttributeError) as error:
        raise _no_data_set(file, error) from error


def _mark(schema: Any) -> dict[str, Any]:
    """The mark that a data set has in its schema; empty in other files."""
    mark: dict[str, Any] = json.loads((schema.metadata or {}).get(_METADATA_KEY, b"{}"))
    return mark


def _no_data_set(file: Path, error: Exception) -> InterferenceError:
    return InterferenceError(f"{file} is no data set of windows: {error}")


def has_simulated(paths: Sequence[Path]) -> bool:
    """Decide whether a simulator made windows of some data sets.

    Args:
        paths: Parquet files, or folders of them.

    Returns:
        Whether a file says so.

    Raises:
        InterferenceError: A file is no data set.
    """
    return any(is_simulated(file) for file in _files(paths))


def read_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the rows of data sets, with the names of their servers.

    Args:
        paths: Parquet files, or folders of them.

    Returns:
        The rows of all.

    Raises:
        InterferenceError: A file is no data set of this version.
    """
    return [row for file in _files(paths) for row in _rows(file)]


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (sorted(path.rglob("*.parquet")) if path.is_dir() else [path])]


def _check_names(batch: "pyarrow.RecordBatch") -> None:
    """Refuse names that are long: a file has each once, and the rows would have it again and again."""
    for name in set(_NAMES) & set(batch.schema.names):
        column = batch.column(name)
        words = getattr(column, "dictionary", column)
        if words.nbytes > _NAMES_BYTES_MAX or any(len(str(word)) > _NAME_MAX for word in words.to_pylist()):
            raise ValueError(f"its column {name} has texts of more than {_NAME_MAX} characters")


def _rows(file: Path) -> list[dict[str, Any]]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        # Columns of names that a file of an earlier version lacks cannot be asked for.
        names = sorted(set(_NAMES) & set(parquet.read_schema(file).names))
        with parquet.ParquetFile(file, read_dictionary=names) as opened:
            version = _mark(opened.schema_arrow).get("version")
            added = set(_ADDED) if version == 1 else set()
            there = set(opened.schema_arrow.names)
            missing = set(columns()) - added - there
            rows: list[dict[str, Any]] = []
            known = [name for name in columns() if name in there]
            for batch in () if missing else opened.iter_batches(_BATCH_ROWS, columns=known):
                _check_names(batch)
                rows += batch.to_pylist()
                if len(rows) > ROWS_MAX:
                    raise ValueError(f"it has more than {ROWS_MAX:,} rows")
    except (arrow.ArrowException, OSError, ValueError, AttributeError, MemoryError) as error:
        raise _no_data_set(file, error) from error
    if version not in _READABLE:
        was = "has no version" if version is None else f"is of version {version}"
        raise InterferenceError(
            f"{file} {was}, and version {VERSION} is known", hint="collect or import the windows anew"
        )
    if missing:
        raise InterferenceError(f"{file} has no column {min(missing)}")
    return rows
