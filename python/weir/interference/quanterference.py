"""An importer of the windows that the interference paper's authors published: JSON files, also compressed by gzip."""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.interference.errors import InterferenceError
from weir.interference.windows import SERVER, STATISTICS, Windows, of_rows

FILE_BYTES_MAX = 1 << 25
"""A file that is larger, also uncompressed, is refused: the authors' largest has 3 MB."""
_COUNTERS = dict(
    zip(
        SERVER,
        (
            "read_ios",
            "write_ios",
            "read_merges",
            "write_merges",
            "sectors_read",
            "sectors_written",
            "time_reading",
            "time_writing",
            "in_progress",
            "io_time",
            "weighted_io_time",
        ),
        strict=True,
    )
)
_STATISTICS = dict(zip(STATISTICS, ("sum", "mean", "std"), strict=True))
_TARGET = re.compile(r"ost(\d{1,4})_total_ops")
_MEGABYTE = 1e6


def read_windows(paths: Sequence[Path]) -> Windows:
    """Read the authors' files.

    Args:
        paths: Files. The folder of a file is the workload's name, and folder and file name the run.

    Raises:
        InterferenceError: A file is none of theirs.
    """
    return of_rows([row for path in paths for row in _rows(path)])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    workload = path.resolve().parent.name
    run = f"{workload}/{path.name.split('.')[0]}"
    for key, window in _document(path).items():
        try:
            trace = window["trace"]
            shared = {
                "run": run,
                "workload": workload,
                "window": int(key),
                "io_seconds": float(trace["window_size"]),
                "slowdown": float(trace["total_time"]),
                "counted_by": "client",
            }
            targets = sorted(int(found[1]) for name in trace["ost"] if (found := _TARGET.fullmatch(name)))
            for number in targets:
                yield {**shared, **_target(number, trace["ost"], window["ost_stats"])}
            yield {**shared, **_metadata(trace["mdt"], window["mdt_stats"])}
        except (KeyError, TypeError, ValueError) as error:
            raise InterferenceError(f"{path}: window {key} is none of the authors': {error!r}") from error


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise InterferenceError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        found = json.loads(content)["All"]
        if not isinstance(found, dict):
            raise TypeError("its member All is no mapping")
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InterferenceError(
            f"{path} is no file of windows: {error}", hint="such files are named APPLICATION/…_time_data.json"
        ) from error
    return found


def _target(number: int, trace: Mapping[str, float], stats: Mapping[str, float]) -> dict[str, Any]:
    own = f"ost{number}"
    return {
        "server": f"{number:04d}",
        "is_metadata": False,
        "client_reads": trace[f"{own}_total_reads"],
        "client_writes": trace[f"{own}_total_writes"],
        "client_read_bytes": trace[f"{own}_total_read_size"] * _MEGABYTE,
        "client_written_bytes": trace[f"{own}_total_write_size"] * _MEGABYTE,
        **_counters(own, stats),
    }


def _metadata(trace: Mapping[str, float], stats: Mapping[str, float]) -> dict[str, Any]:
    return {
        "server": "mdt",
        "is_metadata": True,
        "client_stats": trace["mdt_total_stat"],
        "client_opens": trace["mdt_total_open"],
        "client_closes": trace["mdt_total_close"],
        **_counters("mdt", stats),
    }


def _counters(prefix: str, stats: Mapping[str, float]) -> dict[str, float]:
    """A server's counters. Short windows have one sample of a server, whose deviation the authors call NaN, or none."""

    def counter(name: str) -> float:
        value = float(stats.get(name, 0.0))
        return 0.0 if math.isnan(value) else value

    return {
        f"server_{name}_{statistic}": counter(f"{prefix}_{theirs}_{their_statistic}")
        for name, theirs in _COUNTERS.items()
        for statistic, their_statistic in _STATISTICS.items()
    }
