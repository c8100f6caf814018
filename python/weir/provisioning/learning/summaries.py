"""Tables of Darshan summaries, one run a row, as pytokio writes them (`summarize_job`; NERSC's tokio-abcutils).

Such a table has the totals of POSIX and no sizes of single requests, so each request counts with the mean size.
"""

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from weir.provisioning.behaviour.traits import LARGE_BYTES, SMALL_BYTES, Interface, Traits, Transfers
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.learning.runs import NAME_MAX, Run, bounded

ENDINGS = (".csv", ".csv.gz")
ROWS_MAX = 100_000
"""Most rows of a table: one process reads a table as a whole."""
_LINE_BYTES_MAX = 1 << 20
"""Longest line. The tables have some 2 kB in a line, and a small compressed file may hold an endless one."""
_NEEDED = (
    "darshan_nprocs",
    "darshan_start_time",
    "darshan_tot_bytes_read_posix",
    "darshan_tot_bytes_written_posix",
    "darshan_tot_f_read_time_posix",
    "darshan_tot_f_write_time_posix",
    "darshan_tot_f_meta_time_posix",
    "darshan_tot_reads_posix",
    "darshan_tot_writes_posix",
    "darshan_num_bytes_read_posix",
)
_METADATA = ("darshan_tot_opens_posix", "darshan_tot_stats_posix")
_BURST_BUFFER = "/var/opt/cray/dws/"
"""Mounts of Cray DataWarp, which pytokio gives no name of a file system."""


def read_table(path: Path) -> Iterator[Run]:
    """Read the runs of a table.

    Args:
        path: The table, in CSV, which may be compressed by gzip.

    Yields:
        A run for each row that has figures of POSIX.

    Raises:
        ProvisioningError: The file is no such table, or a cell that must be a number is none.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            whole: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
            with whole as file:
                rows = csv.reader(_lines(file, path))
                header = next(rows, [])
                missing = [name for name in _NEEDED if name not in header]
                if missing:
                    raise ProvisioningError(
                        f"{path} is no table of Darshan summaries: it has no column {missing[0]}",
                        hint="give Darshan logs, or a table that pytokio's summarize_job wrote",
                    )
                yield from _runs(rows, header, path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise ProvisioningError(f"{path} cannot be read: {error}", hint="is the table whole?") from error


def _lines(file: IO[bytes], path: Path) -> Iterator[str]:
    while line := file.readline(_LINE_BYTES_MAX):
        if len(line) == _LINE_BYTES_MAX:
            raise ProvisioningError(f"{path} has a line of more than {_LINE_BYTES_MAX} bytes", hint="is it a table?")
        yield line.decode()


def _runs(rows: Iterator[list[str]], header: list[str], path: Path) -> Iterator[Run]:
    for number, cells in enumerate(rows, start=2):
        if number > ROWS_MAX + 1:
            raise ProvisioningError(f"{path} has more than {ROWS_MAX:,} rows", hint="split it into several tables")
        if cells and len(cells) - len(header) not in (0, 1):
            raise ProvisioningError(
                f"{path}, line {number}: {len(cells)} cells below {len(header)} titles", hint="is the table whole?"
            )
        # pandas gives the number of a row no name in the header.
        row = dict(zip(header, cells[len(cells) - len(header) :], strict=False))
        if all(row.get(name) for name in _NEEDED):
            try:
                yield _run(row)
            except ValueError as error:
                raise ProvisioningError(f"{path}, line {number}: {error}", hint="is the table whole?") from error


def _number(row: Mapping[str, str], name: str) -> float:
    cell = row.get(name) or "0"
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {cell[:40]}, which is no number")
    return max(number, 0.0)


def _run(row: Mapping[str, str]) -> Run:
    processes = max(int(_number(row, "darshan_nprocs")), 1)
    files = int(_number(row, "darshan_num_bytes_read_posix"))
    read, write = _transfers(row, "read", "read"), _transfers(row, "write", "written")
    interface: Interface = "posix" if read.operations + write.operations else "none"
    traits = Traits(
        program=(row.get("darshan_app") or "").rsplit("/", 1)[-1][:NAME_MAX],
        processes=processes,
        seconds=_number(row, "darshan_walltime"),
        interface=interface,
        files=files,
        # Darshan reduces a file of all ranks to one record; a single record of a parallel run is such a file.
        shared_files=1 if files == 1 and processes > 1 else 0,
        read=read,
        write=write,
        unaligned_operations=int(_number(row, "darshan_tot_file_not_aligned_posix")),
        metadata_operations=int(sum(_number(row, name) for name in _METADATA)),
        metadata_seconds=_number(row, "darshan_tot_f_meta_time_posix"),
    )
    started = _number(row, "darshan_start_time")
    return Run(traits=bounded(traits), started=started, storage=_storage(row))


def _transfers(row: Mapping[str, str], way: str, moved: str) -> Transfers:
    operations = int(_number(row, f"darshan_tot_{way}s_posix"))
    size = int(_number(row, f"darshan_tot_bytes_{moved}_posix"))
    mean = size / operations if operations else 0.0
    return Transfers(
        operations=operations,
        bytes=size,
        seconds=_number(row, f"darshan_tot_f_{way}_time_posix"),
        small_operations=operations if mean < SMALL_BYTES else 0,
        medium_operations=operations if SMALL_BYTES <= mean < LARGE_BYTES else 0,
        large_operations=operations if mean >= LARGE_BYTES else 0,
        sized_operations=operations,
        sequential_operations=min(int(_number(row, f"darshan_tot_seq_{way}s_posix")), operations),
    )


def _storage(row: Mapping[str, str]) -> str:
    named = row.get("_file_system")
    if named:
        return named[:NAME_MAX]
    places = [row.get(f"darshan_biggest_{way}_fs") or "" for way in ("read", "write")]
    if any(place.startswith(_BURST_BUFFER) for place in places):
        return "datawarp"
    return ""
