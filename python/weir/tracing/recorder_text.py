"""Traces of Recorder (https://recorder.readthedocs.io), as its tool `recorder2text` writes them.

The folder `_text` has a file for each rank, `0.txt`, and each line is a call: begin, end, function, level, kind and
arguments, `0.10 0.11 pwrite 1 0 ( /scratch/file %p 4096 0 )`. Recorder's binary form differs from version to version;
its text does not. Sizes are those that the program asked for, since Recorder keeps no results.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.tracing.calls import CallTotals, Way, amount, span
from weir.tracing.files import TraceError
from weir.tracing.totals import LogTotals

TEXT = "_text"
"""Folder of the text within that of a trace."""
LINE_CHARACTERS_MAX = 1 << 16
"""Longest line that is read."""
_RANK_FILE = re.compile(r"(\d{1,9})\.txt")
_LINE = re.compile(r"(\d+(?:\.\d+)?) (\d+(?:\.\d+)?) (\S+) (\d+) (\d+) \( ?(.*?) ?\)\s*")
_FOLDER = re.compile(r".*-(.+?)-\d+-[\d.]+")
"""`HOST-USER-PROGRAM-PID-TIME`."""
_LEFT_OUT = ("/etc/", "/dev/", "/proc/", "/sys/", "/usr/", "/lib", "pipe:", "anon_inode:", "socket:")
"""Files of the system, which Darshan leaves out, too."""
_POSIX = {
    **dict.fromkeys(("open", "open64", "creat", "creat64"), "OPENS"),
    **dict.fromkeys(("lseek", "lseek64"), "SEEKS"),
    **dict.fromkeys(("stat", "stat64", "lstat", "lstat64", "fstat", "fstat64"), "STATS"),
    **dict.fromkeys(("__xstat", "__xstat64", "__lxstat", "__lxstat64", "__fxstat", "__fxstat64"), "STATS"),
    **dict.fromkeys(("mmap", "mmap64"), "MMAPS"),
    "fsync": "FSYNCS",
    "fdatasync": "FDSYNCS",
    "rename": "RENAME_SOURCES",
    "close": "",
}
_STDIO = {"fopen": "OPENS", "fopen64": "OPENS", "fseek": "SEEKS", "fflush": "FLUSHES", "fclose": ""}
_MPI = {"open": "COLL_OPENS", "sync": "SYNCS", "set_view": "VIEWS", "close": ""}
_LIBRARIES = {"H5D": "H5D", "H5F": "H5F", "ncmpi_": "PNETCDF_FILE"}
_TYPE_BYTES = {"MPI_BYTE": 1, "MPI_CHAR": 1, "MPI_INT": 4, "MPI_FLOAT": 4, "MPI_DOUBLE": 8, "MPI_LONG": 8}
"""Sizes of MPI's types; other ones count as a byte, as the bytes of POSIX below hold."""
_SEEK_SET, _SEEK_CURRENT = 0, 1


def is_recorder(path: Path) -> bool:
    """Whether a path leads to a trace of Recorder, by its name and the names within."""
    return path.is_dir() and (path.name == TEXT or (path / TEXT).is_dir() or (path / "recorder.mt").is_file())


def read_recorder(path: Path, *, note: Callable[[str], None]) -> LogTotals:
    """Read a trace in text.

    Args:
        path: Folder of the trace, or its `_text`.
        note: Called with a sentence for what could not be used.

    Raises:
        TraceError: There is no text, or no line of it is a call.
        OSError: A file cannot be read.
    """
    folder = path if path.name == TEXT else path / TEXT
    files = sorted((int(found[1]), each) for each in _names(folder) if (found := _RANK_FILE.fullmatch(each.name)))
    if not files:
        raise TraceError(
            f"{path} has no trace of Recorder in text", hint=f"write it with Recorder's own tool: recorder2text {path}"
        )
    trace = _Trace()
    for rank, file in files:
        of_rank = _Rank(rank, trace)
        for call in _calls(file, trace):
            of_rank.count(call)
    if trace.begin is None:
        raise TraceError(f"no line in {folder} is a call of Recorder", hint="is it written by recorder2text?")
    if trace.unread:
        note(f"{folder}: {trace.unread} lines are no calls, and are left out")
    program = _FOLDER.fullmatch(folder.parent.resolve().name)
    used = {name: each for name, each in trace.interfaces.items() if each.counters}
    return LogTotals(
        path=path,
        version="Recorder",
        command=(program[1],) if program else (),
        ranks=len(files),
        started=0.0,
        seconds=trace.end - trace.begin,
        job_id=0,
        uid=0,
        modules=tuple(sorted({*used, *trace.libraries})),
        incomplete=(),
        interfaces={name: each.totals(len(files)) for name, each in used.items()},
    )


def _names(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: Sequence[str]
    seconds: float


@dataclass
class _Trace:
    """What all ranks did."""

    interfaces: dict[str, CallTotals] = field(
        default_factory=lambda: {name: CallTotals() for name in ("POSIX", "STDIO", "MPI-IO")}
    )
    libraries: set[str] = field(default_factory=set)
    begin: float | None = None
    end: float = 0.0
    unread: int = 0


def _calls(file: Path, trace: _Trace) -> Iterator[_Call]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(LINE_CHARACTERS_MAX):
            found = _LINE.fullmatch(line)
            if found is None:
                trace.unread += bool(line.strip())
                continue
            try:
                seconds = span(found[1], found[2])
            except ValueError:
                trace.unread += 1
                continue
            begin, end = float(found[1]), float(found[2])
            trace.begin = begin if trace.begin is None else min(trace.begin, begin)
            trace.end = max(trace.end, end)
            yield _Call(found[3], found[6].split(" "), seconds)


class _Rank:
    """The calls of one rank, and its places in files."""

    def __init__(self, rank: int, trace: _Trace) -> None:
        self._rank = rank
        self._trace = trace
        self._places: dict[str, int] = {}

    def count(self, call: _Call) -> None:
        """Count a call; one whose arguments are none of its function counts as not read."""
        for begin, module in _LIBRARIES.items():
            if call.name.startswith(begin):
                self._trace.libraries.add(module)
                return
        name = call.name.removeprefix("P")
        try:
            if name.startswith("MPI_File_"):
                self._count_mpi(name.removeprefix("MPI_File_"), call)
            elif name in _STDIO or name in ("fread", "fwrite", "fprintf", "vfprintf"):
                self._count_stdio(call)
            else:
                self._count_posix(call)
        except (ValueError, IndexError):
            self._trace.unread += 1

    def _count_posix(self, call: _Call) -> None:
        posix, words = self._trace.interfaces["POSIX"], call.arguments
        kind = call.name.removesuffix("64")
        if kind in ("read", "write", "readv", "writev", "pread", "pwrite"):
            way: Way = "READ" if "read" in kind else "WRITE"
            is_placed, is_vector = kind.startswith("p"), kind.endswith("v")
            rest = 3 if is_placed else 2
            file = " ".join(words[:-rest])
            length = amount(words[-2 if is_placed or is_vector else -1])
            # A negative place is Recorder's distance from the place before.
            offset = amount(words[-1].lstrip("-")) if is_placed else self._places.get(file, 0)
            if _is_counted(file):
                posix.transfer(way, self._rank, file, offset, length, call.seconds)
            if not is_placed:
                self._places[file] = offset + length
        elif call.name in _POSIX:
            file = _file_of(call)
            if not _is_counted(file):
                return
            posix.other(_POSIX[call.name], self._rank, file, call.seconds)
            if kind == "lseek":
                self._seek(file, int(words[-2]), int(words[-1]))
            elif _POSIX[call.name] == "OPENS":
                self._places[file] = 0

    def _seek(self, file: str, offset: int, whence: int) -> None:
        if whence == _SEEK_SET:
            self._places[file] = abs(offset)
        elif whence == _SEEK_CURRENT:
            self._places[file] = max(self._places.get(file, 0) + offset, 0)

    def _count_stdio(self, call: _Call) -> None:
        stdio, words = self._trace.interfaces["STDIO"], call.arguments
        if call.name in ("fread", "fwrite"):
            way: Way = "READ" if call.name == "fread" else "WRITE"
            file = " ".join(words[3:])
            if _is_counted(file):
                stdio.use(self._rank, file)
                stdio.move(f"{way}S", way, amount(words[1]) * amount(words[2]), call.seconds)
        elif call.name in ("fprintf", "vfprintf"):
            file = " ".join(words[:-1])
            if _is_counted(file):
                stdio.use(self._rank, file)
                stdio.move("WRITES", "WRITE", amount(words[-1]), call.seconds)
        elif _is_counted(file := _file_of(call)):
            stdio.other(_STDIO[call.name], self._rank, file, call.seconds)

    def _count_mpi(self, kind: str, call: _Call) -> None:
        mpi, words = self._trace.interfaces["MPI-IO"], call.arguments
        way: Way | None = "READ" if "read" in kind else "WRITE" if "write" in kind else None
        if way is None:
            if kind in _MPI:
                mpi.other(_MPI[kind], self._rank, words[1] if kind == "open" else "", call.seconds)
            return
        if kind.endswith("_end"):
            return
        together = "SPLIT" if kind.endswith("_begin") else "COLL" if kind.endswith(("_all", "_ordered")) else "INDEP"
        form = "NB" if kind.startswith("i") else together
        kinds = [place for place, word in enumerate(words) if word.startswith("MPI_") and place > 0]
        count = amount(words[kinds[0] - 1])
        mpi.move(f"{form}_{way}S", way, count * _TYPE_BYTES.get(words[kinds[0]], 1), call.seconds)


def _file_of(call: _Call) -> str:
    """The file of a call that moves no bytes: its first argument that is a path."""
    return next((word for word in call.arguments if word.startswith("/")), call.arguments[0])


def _is_counted(file: str) -> bool:
    return bool(file) and not file.startswith(_LEFT_OUT)
