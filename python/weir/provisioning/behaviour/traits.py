"""I/O traits: the counted calls of a job's run, from its Darshan log (LuxIO, section III-B, step 1)."""

from typing import Literal

import msgspec

from weir.tracing.totals import InterfaceTotals, LogTotals

Interface = Literal["posix", "stdio", "mpiio", "hdf5", "pnetcdf", "daos", "none"]
SMALL_BYTES = 10_000
"""Requests below are small: 10 KB in the LuxIO paper, and the nearest bound of Darshan's counters."""
LARGE_BYTES = 1_000_000
"""Requests from here on are large: 1 MB in the LuxIO paper, and the nearest bound of Darshan's counters."""
_SMALL = ("0_100", "100_1K", "1K_10K")
_MEDIUM = ("10K_100K", "100K_1M")
_LARGE = ("1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
_METADATA = {
    "POSIX": ("OPENS", "FILENOS", "DUPS", "SEEKS", "STATS", "MMAPS", "FSYNCS", "FDSYNCS", "RENAME_SOURCES"),
    "STDIO": ("OPENS", "FDOPENS", "SEEKS", "FLUSHES"),
    "MPI-IO": ("INDEP_OPENS", "COLL_OPENS", "SYNCS", "VIEWS"),
}
"""Counters of calls that move no bytes. `mmap` and `msync` are among them: Darshan sees no access to mapped pages."""
_LOCAL = {
    "POSIX": ("FILENOS", "DUPS", "SEEKS"),
    "STDIO": ("FDOPENS", "SEEKS"),
    "MPI-IO": ("INDEP_OPENS", "COLL_OPENS", "SYNCS", "VIEWS"),
}
"""Those that end in the process: no storage hears of a seek. Opens and syncs of MPI-IO end in calls of POSIX, and are
local where these are counted."""
_LIBRARIES: dict[str, Interface] = {
    "H5D": "hdf5",
    "H5F": "hdf5",
    "PNETCDF_FILE": "pnetcdf",
    "PNETCDF_VAR": "pnetcdf",
    "DFS": "daos",
}
"""Modules of libraries that programs use in place of calls of files, with their interfaces' names."""


class Transfers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reads or the writes of a run, all files and processes together."""

    operations: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Time in these calls, all processes together."""
    small_operations: int = 0
    """Operations below `SMALL_BYTES`; where the size is not counted, none is small, medium or large."""
    medium_operations: int = 0
    large_operations: int = 0
    """Operations from `LARGE_BYTES` on."""
    sized_operations: int = 0
    """Operations whose size and place are counted: those of POSIX, or of MPI-IO where the log has no POSIX."""
    sequential_operations: int = 0
    """Counted operations behind the one before in their file."""
    consecutive_operations: int = 0
    """Counted operations that begin where the one before ended."""


class Traits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The calls of a run."""

    version: Literal[1] = 1
    """Version of this document."""
    program: str = ""
    """Name of the program without its folder; empty where the log does not tell."""
    processes: int = 1
    nodes: int | None = None
    """Nodes of the job; None where only a log is known, which does not tell."""
    seconds: float = 0.0
    """Time from the run's begin to its end."""
    interface: Interface = "none"
    """The highest interface that the run used."""
    files: int = 0
    shared_files: int = 0
    """Files that all processes used."""
    read: Transfers = Transfers()
    write: Transfers = Transfers()
    collective_operations: int = 0
    """Reads and writes of MPI-IO that processes made together."""
    unaligned_operations: int = 0
    """Reads and writes whose offset is no multiple of the file system's block."""
    metadata_operations: int = 0
    local_operations: int = 0
    """The number of metadata operations that never reach the storage, such as seeks."""
    metadata_seconds: float = 0.0
    """Time in calls that move no bytes, all processes together."""
    incomplete: tuple[str, ...] = ()
    """Modules of the log that ran out of memory: their calls are counted in part."""


def of_log(log: LogTotals) -> Traits:
    """Take the traits of a run from its log.

    Calls of MPI-IO end in calls of POSIX, so bytes and operations of MPI-IO count only where the log has neither POSIX
    nor STDIO data. Metadata operations of all interfaces count.

    Args:
        log: The log's totals.

    Returns:
        The traits. A log without a module gives a run that did nothing.
    """
    posix, stdio, mpiio = (log.interfaces.get(name) for name in ("POSIX", "STDIO", "MPI-IO"))
    direct = [each for each in (posix, stdio) if each is not None]
    if mpiio is not None and not any(each.count("READS", "WRITES") for each in direct):
        direct = [mpiio]
    used = [each for each in (posix, stdio, mpiio) if each is not None]
    without = ("VIEWS",) if posix is None else _LOCAL["MPI-IO"]
    local = {**_LOCAL, "MPI-IO": without}
    return Traits(
        program=log.command[0].rsplit("/", 1)[-1] if log.command else "",
        processes=log.ranks,
        seconds=log.seconds,
        interface=_interface(log),
        files=sum(each.files for each in direct),
        shared_files=sum(each.shared_files for each in direct),
        read=_transfers("READ", direct, mpiio),
        write=_transfers("WRITE", direct, mpiio),
        collective_operations=mpiio.count("COLL_READS", "COLL_WRITES") if mpiio else 0,
        unaligned_operations=posix.count("FILE_NOT_ALIGNED") if posix else 0,
        metadata_operations=sum(each.count(*_METADATA[name]) for name, each in log.interfaces.items()),
        local_operations=sum(each.count(*local[name]) for name, each in log.interfaces.items()),
        metadata_seconds=sum(each.seconds["META_TIME"] for each in used),
        incomplete=log.incomplete,
    )


def _interface(log: LogTotals) -> Interface:
    for module, library in _LIBRARIES.items():
        if module in log.modules:
            return library
    posix, stdio, mpiio = (log.interfaces.get(name) for name in ("POSIX", "STDIO", "MPI-IO"))
    if mpiio is not None and _bytes(mpiio):
        return "mpiio"
    # A run that moved nothing used the interface that it opened files with.
    if posix is not None and (_bytes(posix), posix.count("OPENS")) > ((_bytes(stdio), 0) if stdio else (0, 0)):
        return "posix"
    return "none" if stdio is None else "stdio"


def _bytes(totals: InterfaceTotals) -> int:
    return totals.count("BYTES_READ", "BYTES_WRITTEN")


def _transfers(way: str, direct: list[InterfaceTotals], mpiio: InterfaceTotals | None) -> Transfers:
    counted = [each for each in direct if f"SIZE_{way}_0_100" in each.counters or each is mpiio]
    size = "SIZE_{way}_AGG_{bound}" if counted == [mpiio] else "SIZE_{way}_{bound}"

    def sized(bounds: tuple[str, ...]) -> int:
        return sum(each.count(*(size.format(way=way, bound=bound) for bound in bounds)) for each in counted)

    operations = [_operations(way, each) for each in direct]
    return Transfers(
        operations=sum(operations),
        bytes=sum(each.count("BYTES_READ" if way == "READ" else "BYTES_WRITTEN") for each in direct),
        seconds=sum(each.seconds[f"{way}_TIME"] for each in direct),
        small_operations=sized(_SMALL),
        medium_operations=sized(_MEDIUM),
        large_operations=sized(_LARGE),
        sized_operations=sized(_SMALL + _MEDIUM + _LARGE),
        sequential_operations=sum(each.count(f"SEQ_{way}S") for each in direct),
        consecutive_operations=sum(each.count(f"CONSEC_{way}S") for each in direct),
    )


def _operations(way: str, totals: InterfaceTotals) -> int:
    """Reads or writes: MPI-IO counts each kind of call apart."""
    plain = f"{way}S"
    return totals.count(plain, f"INDEP_{plain}", f"COLL_{plain}", f"SPLIT_{plain}", f"NB_{plain}")
