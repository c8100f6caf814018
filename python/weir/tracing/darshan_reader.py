"""Reader of Darshan logs by Darshan's own library, in a process of its own, which a damaged log may crash.

    python -m weir.tracing.darshan_reader    requests as JSON on standard input, one a line: {"path": ..., "want": ...}

Each request is answered with one line of JSON: `{"log": ...}`, in the words of `weir.tracing.darshan`, or `{"error":
...}`. The request wants `files`; `times`, by which each file has the times of its accesses too, and the traced ones one
by one; or `totals`, the counters of each module over all files, in place of the files.
"""

import itertools
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MEMORY_BYTES_MAX = 8 << 30
"""Address space of this process: a damaged length must not take the machine's memory."""
TOTALS_MEMORY_BYTES_MAX = 2 << 30
"""The same for a log of which the totals alone are wanted: it is read record by record."""
RECORDS_MAX = 1 << 20
"""Most records of a log. The largest known logs have some hundred thousand; a small compressed one may never end."""

_MODULES = {"POSIX": "POSIX", "STDIO": "STDIO", "MPI-IO": "MPIIO"}
"""Modules that count reads and writes of files, with the prefixes of their counters."""
_STRUCTURES = {"POSIX": "posix", "STDIO": "stdio", "MPI-IO": "mpiio"}
"""Names of the modules in the library's structures."""
_DXT = ("DXT_POSIX", "DXT_MPIIO")
_USED = (*_MODULES, *_DXT, "LUSTRE")
_TIMED = (
    *("rank", "opened", "closed", "first_read", "first_write", "read_seconds", "write_seconds"),
    *("reads", "writes", "read_bytes", "written_bytes", "transfer_bytes"),
)
"""Fields of an access in an answer with times."""
_UNKNOWN_ARGUMENTS = "<unknown args>"
_START_SECONDS_MAX = 253_402_300_799
"""Last second of the year 9999 in Unix time: Python's calendar ends there."""

_NO_SUM = re.compile(r"MODE|RENAMED|ALIGNMENT$|^MAX_|_STRIDE$|_ACCESS$|^FASTEST|^SLOWEST")
"""Counters that are a size, a rank or an extreme, and do not add up."""

Record = dict[str, Any]


class _Name(bytes):
    """Bytes of a log that name a file, a program or a mount point. Linux takes any bytes for names, and the library
    decodes them as UTF-8 alone: other bytes are shown escaped."""

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


class _Foreign:
    """The library's foreign functions, whose texts are names."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)

    def string(self, *arguments: Any) -> Any:
        """The text of a C string."""
        found = self._functions.string(*arguments)
        return _Name(found) if isinstance(found, bytes) else found


class _DamagedError(Exception):
    """The library cannot read the log."""


def main() -> None:
    """Answer the requests on standard input, until its end."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The library prints its complaints; they are caught for each log, so that none stands among the answers.
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        memory = TOTALS_MEMORY_BYTES_MAX if request["want"] == "totals" else MEMORY_BYTES_MAX
        resource.setrlimit(resource.RLIMIT_AS, (memory, MEMORY_BYTES_MAX))
        answers.write(json.dumps(_answer(request["path"], request["want"])) + "\n")
        answers.flush()


def _answer(path: str, want: str) -> Record:
    with _complaints() as said:
        try:
            found = _read(path, want)
        except (
            _DamagedError,
            UnicodeDecodeError,
            ValueError,
            ArithmeticError,
            MemoryError,
            OSError,
            LookupError,
        ) as error:
            return {"error": _first_line(said()) or str(error) or type(error).__name__}
        complaint = _first_line(said())
    return {"error": complaint} if complaint else {"log": found}


@contextmanager
def _complaints() -> Iterator[Any]:
    """The text printed to standard error within the block, also by the library."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def said() -> str:
            sys.stderr.flush()
            file.seek(0)
            return file.read(1 << 16).decode(errors="replace")

        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)


def _first_line(text: str) -> str:
    """The library's first complaint, without the words with which all complaints begin."""
    lines = [line.strip() for line in text.splitlines() if line.strip().lower().startswith("error")]
    return lines[0].partition(":")[2].strip().rstrip(".") if lines else ""


def _read(path: str, want: str) -> Record:
    from darshan.backend import cffi_backend as library

    if not isinstance(library.ffi, _Foreign):
        library.ffi = _Foreign(library.ffi)
    log = library.log_open(path)
    if log["handle"] == library.ffi.NULL:
        raise _DamagedError("the library cannot open it")
    try:
        modules = library.log_get_modules(log)
        job = library.log_get_job(log)
        if not 0 <= job["start_time_sec"] <= _START_SECONDS_MAX:
            raise _DamagedError(f"it starts at second {job['start_time_sec']} of Unix time, which is no date")
        ranks = max(int(job["nprocs"]), 1)
        head = {
            "version": job["log_ver"],
            "job_id": int(job["jobid"]),
            "uid": int(job["uid"]),
            "command": library.log_get_exe(log).replace(_UNKNOWN_ARGUMENTS, "").split(),
            "ranks": ranks,
            "started": job["start_time_sec"] + job["start_time_nsec"] * 1e-9,
            "seconds": float(job["run_time"]),
            "incomplete": sorted(name for name in _USED if name in modules and modules[name]["partial_flag"]),
            "modules": sorted(modules),
            "lustre": [place for place, kind in library.log_get_mounts(log) if kind == "lustre"],
        }
        if want == "totals":
            counted = {module: _totals(library, log, module) for module in _MODULES if module in modules}
            return {**head, "totals": counted}
        times = want == "times"
        names = library.log_get_name_records(log)
        records = {module: list(_records(library, log, module, times=times)) for module in _USED if module in modules}
        return {**head, "files": _files(names, records, ranks=ranks, times=times)}
    finally:
        library.log_close(log)


def _totals(library: Any, log: Record, module: str) -> Record:
    """The counters of a module over all of its records."""
    import numpy

    names = library.counter_names(module)
    time_names = library.fcounter_names(module)
    counters = numpy.zeros(len(names), dtype=numpy.int64)
    times = numpy.zeros(len(time_names))
    files: set[int] = set()
    shared = 0
    kind = f"struct darshan_{_STRUCTURES[module]}_file **"
    for buffer in _buffers(library, log, module):
        record = library.ffi.cast(kind, buffer)[0]
        # Darshan writes -1 where it does not count.
        counters += numpy.frombuffer(library.ffi.buffer(record.counters), dtype=numpy.int64).clip(min=0)
        times += numpy.frombuffer(library.ffi.buffer(record.fcounters), dtype=numpy.float64).clip(min=0)
        files.add(int(record.base_rec.id))
        shared += int(record.base_rec.rank) < 0
    prefix = f"{_MODULES[module]}_"
    counted = {name.removeprefix(prefix): int(each) for name, each in zip(names, counters, strict=True)}
    timed = {name.removeprefix(f"{prefix}F_"): float(each) for name, each in zip(time_names, times, strict=True)}
    return {
        "files": len(files),
        "shared_files": shared,
        "counters": {name: each for name, each in counted.items() if not _NO_SUM.search(name)},
        "seconds": {name: timed[name] for name in ("READ_TIME", "WRITE_TIME", "META_TIME")},
    }


def _buffers(library: Any, log: Record, module: str) -> Iterator[Any]:
    """The records of one module: the package's own loop takes a damaged record for the end."""
    index = library.log_get_modules(log)[module]["idx"]
    for number in itertools.count():
        if number == RECORDS_MAX:
            raise _DamagedError(f"it has more than {RECORDS_MAX:,} {module} records")
        buffer = library.ffi.new("void **")
        got = library.libdutil.darshan_log_get_record(log["handle"], index, buffer)
        if got == 0:
            return
        if got < 0:
            raise _DamagedError(f"its {module} records are damaged")
        try:
            yield buffer
        finally:
            library.libdutil.darshan_free(buffer[0])


def _records(library: Any, log: Record, module: str, *, times: bool) -> Iterator[Record]:
    """The decoded records of one module."""
    for buffer in _buffers(library, log, module):
        if module == "LUSTRE":
            yield _lustre(library, buffer)
        elif module in _DXT:
            yield _traced(library, buffer, times=times)
        else:
            yield _counted(library, buffer, module)


def _counted(library: Any, buffer: Any, module: str) -> Record:
    record = library.ffi.cast(f"struct darshan_{_STRUCTURES[module]}_file **", buffer)[0]
    counters = dict(zip(library.counter_names(module), record.counters, strict=False))
    times = dict(zip(library.fcounter_names(module), record.fcounters, strict=False))
    prefix = _MODULES[module]

    def count(name: str) -> int:
        return int(counters.get(f"{prefix}_{name}", 0))

    def seconds(name: str) -> float:
        return float(times.get(f"{prefix}_F_{name}", 0.0))

    if module == "MPI-IO":
        operations = [
            count(f"{way}_{what}") for what in ("READS", "WRITES") for way in ("INDEP", "COLL", "SPLIT", "NB")
        ]
        reads, writes = sum(operations[:4]), sum(operations[4:])
    else:
        reads, writes = count("READS"), count("WRITES")
    return {
        "id": int(record.base_rec.id),
        "rank": int(record.base_rec.rank),
        "reads": reads,
        "writes": writes,
        "read_bytes": max(count("BYTES_READ"), 0),
        "written_bytes": max(count("BYTES_WRITTEN"), 0),
        "last_byte": max(count("MAX_BYTE_WRITTEN"), -1),
        "last_byte_read": max(count("MAX_BYTE_READ"), -1),
        "transfer_bytes": _common_transfer(counters, prefix),
        "unaligned": max(count("FILE_NOT_ALIGNED"), 0),
        "opened": seconds("OPEN_START_TIMESTAMP"),
        "closed": max(seconds(f"{event}_END_TIMESTAMP") for event in ("OPEN", "READ", "WRITE", "CLOSE")),
        "first_read": seconds("READ_START_TIMESTAMP"),
        "first_write": seconds("WRITE_START_TIMESTAMP"),
        "read_seconds": max(seconds("READ_TIME"), 0.0),
        "write_seconds": max(seconds("WRITE_TIME"), 0.0),
        "seconds": max(seconds("READ_TIME"), 0.0) + max(seconds("WRITE_TIME"), 0.0),
        "slowest_seconds": max(seconds("SLOWEST_RANK_TIME"), 0.0),
    }


def _common_transfer(counters: dict[str, Any], prefix: str) -> int:
    """The most common size of an access; 0 where the module does not count sizes."""
    sizes = [
        (int(counters[f"{prefix}_ACCESS{place}_COUNT"]), int(counters[f"{prefix}_ACCESS{place}_ACCESS"]))
        for place in range(1, 5)
        if f"{prefix}_ACCESS{place}_COUNT" in counters
    ]
    return max(sizes, default=(0, 0))[1]


def _lustre(library: Any, buffer: Any) -> Record:
    record = library.ffi.cast("struct darshan_lustre_record **", buffer)[0]
    names = library.counter_names("LUSTRE_COMP")
    components = []
    first = 0
    for index in range(record.num_comps):
        counters = dict(zip(names, record.comps[index].counters, strict=False))
        count = max(int(counters["LUSTRE_COMP_STRIPE_COUNT"]), 0)
        if first + count > record.num_stripes:
            raise _DamagedError("its LUSTRE records name more stripes than they have")
        components.append(
            {
                "end_bytes": int(counters["LUSTRE_COMP_EXT_END"]),
                "stripe_bytes": int(counters["LUSTRE_COMP_STRIPE_SIZE"]),
                "targets": [int(record.ost_ids[first + stripe]) for stripe in range(count)],
            }
        )
        first += count
    return {"id": int(record.base_rec.id), "components": components}


def _traced(library: Any, buffer: Any, *, times: bool) -> Record:
    """The part of traced accesses that counters may lack: writing ranks and furthest byte. With `times` all of them."""
    import numpy

    record = library.ffi.cast("struct dxt_file_record **", buffer)[0]
    header_bytes = library.ffi.sizeof("struct dxt_file_record")
    segment_bytes = library.ffi.sizeof("struct segment_info")
    writes = int(record.write_count)
    count = writes + (int(record.read_count) if times else 0)
    raw = library.ffi.buffer(library.ffi.cast("char *", buffer[0]) + header_bytes, count * segment_bytes)
    # Offset, length, begin and end; the writes stand before the reads.
    every = numpy.frombuffer(raw, dtype=numpy.int64).reshape(count, segment_bytes // 8)
    fields = every[:writes]
    last_byte = int((fields[:, 0] + fields[:, 1]).max()) - 1 if writes else -1
    written = int(fields[:, 1].sum()) if writes else 0
    return {
        "id": int(record.base_rec.id),
        "rank": int(record.base_rec.rank),
        "writes": writes,
        "last_byte": last_byte,
        "written_bytes": written,
        "segments": _segments(every) if times else None,
    }


def _segments(fields: Any) -> Record:
    """Traced accesses as columns."""
    moments = fields[:, 2:4].copy().view("float64")
    return {
        "offsets": fields[:, 0].tolist(),
        "lengths": fields[:, 1].tolist(),
        "starts": moments[:, 0].tolist(),
        "ends": moments[:, 1].tolist(),
    }


def _files(names: dict[int, str], records: dict[str, list[Record]], *, ranks: int, times: bool) -> list[Record]:
    """One record a file, of all modules and ranks together."""
    by_file: dict[int, dict[str, list[Record]]] = {}
    for module, found in records.items():
        for record in found:
            by_file.setdefault(record["id"], {}).setdefault(module, []).append(record)
    files = []
    for identity, modules in by_file.items():
        path = _path(names.get(identity, ""))
        if path is not None:
            files.append(_file(path, modules, ranks))
            if times:
                files[-1] |= _times(modules)
    return sorted(files, key=lambda file: (file["opened"], file["path"]))


def _path(name: str) -> str | None:
    """A file's path; None for the standard streams, heat maps, devices and removed names."""
    # ROMIO puts the name of its driver before the path, as in `ufs:/scratch/file`.
    driver, colon, rest = name.partition(":")
    path = rest if colon and driver.isalnum() and rest.startswith("/") else name
    return path if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/")) else None


def _file(path: str, modules: dict[str, list[Record]], ranks: int) -> Record:
    counted = [*modules.get("POSIX", ()), *modules.get("STDIO", ())] or modules.get("MPI-IO", [])
    traced = modules.get("DXT_POSIX") or modules.get("DXT_MPIIO") or []
    writers = {record["rank"] for record in traced if record["writes"] > 0 and record["rank"] >= 0}
    if not writers:
        wrote = [record for record in counted if record["writes"] > 0]
        writers = set(range(ranks)) if any(record["rank"] < 0 for record in wrote) else {one["rank"] for one in wrote}
    took_part = {record["rank"] for record in (*counted, *traced)}
    is_shared = ranks > 1 and (-1 in took_part or len(took_part) > 1)
    written = sum(record["written_bytes"] for record in counted) or sum(record["written_bytes"] for record in traced)
    if modules.get("POSIX") or modules.get("STDIO") or traced:
        size = max((_end(record) for record in (*counted, *traced)), default=0)
    else:
        # MPI-IO counts no offsets: the written bytes are the least size of the file.
        size = written
    busiest = max(counted, key=lambda record: record["reads"] + record["writes"], default=None)
    return {
        "path": path,
        "rank": -1 if is_shared else max(min(took_part, default=0), 0),
        "processes": ranks if -1 in took_part else max(len(took_part), 1),
        "writers": len(writers),
        "size_bytes": size,
        "size_read_bytes": max((record["last_byte_read"] for record in counted), default=-1) + 1,
        "reads": sum(record["reads"] for record in counted),
        "writes": sum(record["writes"] for record in counted) or sum(record["writes"] for record in traced),
        "read_bytes": sum(record["read_bytes"] for record in counted),
        "written_bytes": written,
        "transfer_bytes": busiest["transfer_bytes"] if busiest else 0,
        "unaligned": sum(record["unaligned"] for record in counted),
        "opened": min((record["opened"] for record in counted if record["opened"] > 0), default=0.0),
        "seconds": max((_seconds(record) for record in counted), default=0.0),
        "components": modules["LUSTRE"][0]["components"] if "LUSTRE" in modules else [],
    }


def _times(modules: dict[str, list[Record]]) -> Record:
    """The times of a file's accesses. MPI-IO ends in calls of POSIX, so its records count only where no others are."""
    counted = [*modules.get("POSIX", ()), *modules.get("STDIO", ())] or modules.get("MPI-IO", [])
    traced = modules.get("DXT_POSIX") or modules.get("DXT_MPIIO") or []
    return {
        "accesses": [{name: record[name] for name in _TIMED} for record in counted],
        "segments": [{"rank": record["rank"], "writes": record["writes"], **record["segments"]} for record in traced],
    }


def _seconds(record: Record) -> float:
    """Time in reads and writes; a reduced record adds up all ranks, so the time of its slowest rank counts."""
    return float(record["slowest_seconds"] if record["rank"] < 0 and record["slowest_seconds"] else record["seconds"])


def _end(record: Record) -> int:
    """One past the last byte written; the counters show byte 0 also where nothing was written."""
    return record["last_byte"] + 1 if record["written_bytes"] > 0 else 0


if __name__ == "__main__":
    main()
