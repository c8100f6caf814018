"""The operations of a recorded run on files outside the store, which `weir run --observe` counts in windows."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from weir.distribution import install_command
from weir.tracing.files import TraceError

FOLDER = "windows"
"""Folder of the windows within that of the traces."""
_PATHS = "observed"
"""File of the observed paths within that folder."""
_PATHS_BYTES_MAX = 1 << 20
_COUNTS = {
    "client_reads": "reads",
    "client_writes": "writes",
    "client_read_bytes": "read_bytes",
    "client_written_bytes": "written_bytes",
    "client_read_seconds": "read_seconds",
    "client_write_seconds": "write_seconds",
    "client_metadata_seconds": "metadata_seconds",
}
_AMOUNT_MAX = 1e15
_METADATA = ("client_stats", "client_opens", "client_closes")


class Observed(msgspec.Struct, kw_only=True):
    """The sums over the windows of a run."""

    reads: float = 0
    writes: float = 0
    read_bytes: float = 0
    written_bytes: float = 0
    read_seconds: float = 0
    write_seconds: float = 0
    metadata_operations: float = 0
    metadata_seconds: float = 0


def observed(folder: Path, run: str) -> Observed:
    """Sum the windows of a run up.

    Args:
        folder: Folder of the traces.
        run: Name of the run, as its traces have it.

    Returns:
        The sums; zeros where nothing was observed.

    Raises:
        TraceError: The windows cannot be read.
    """
    found = Observed()
    for path in sorted((folder / FOLDER).glob("run=*/*.parquet")):
        for row in _rows(path):
            if not str(row.get("run", "")).endswith(f"@{run}") or row.get("counted_by") != "client":
                continue
            for column, name in _COUNTS.items():
                setattr(found, name, getattr(found, name) + _amount(path, row.get(column)))
            found.metadata_operations += sum(_amount(path, row.get(column)) for column in _METADATA)
    return found


def note_paths(folder: Path, paths: Iterable[Path]) -> None:
    """Write beside the windows which paths were observed.

    Args:
        folder: Folder of the traces.
        paths: The paths, absolute.
    """
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / _PATHS).write_text("".join(f"{path}\n" for path in paths))


def has_inside(folder: Path, place: Path) -> bool:
    """Whether the windows have the operations on files below a place.

    Args:
        folder: Folder of the traces.
        place: The place, such as the mount point of a store.
    """
    try:
        with (folder / FOLDER / _PATHS).open(errors="replace") as file:
            lines = file.read(_PATHS_BYTES_MAX).splitlines()
    except OSError:
        return False
    return any(place.is_relative_to(line) for line in lines if line)


def _amount(path: Path, value: object) -> float:
    number = value or 0
    if not isinstance(number, int | float) or not 0 <= number <= _AMOUNT_MAX:
        raise TraceError(f"{path} has {value!r:.40} for a count or a time", hint="record the run again")
    return float(number)


def _rows(path: Path) -> Iterable[dict[str, float | str]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise TraceError(f"{path}: pyarrow is not installed", hint=install_command("interference")) from error
    try:
        wanted = {"run", "counted_by", *_COUNTS, *_METADATA}
        # The name of the folder is no column.
        file = parquet.ParquetFile(path)
        table = file.read(columns=[name for name in file.schema_arrow.names if name in wanted])
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"{path} cannot be read: {error}", hint="record the run again") from error
    rows: list[dict[str, float | str]] = table.to_pylist()
    return rows
