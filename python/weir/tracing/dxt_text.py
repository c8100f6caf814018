"""Darshan's extended traces (DXT), as its tool `darshan-dxt-parser` writes them.

A line is a read or write: `X_POSIX 0 write 0 4096 800 0.10 0.11`, with its module, rank, kind, number, offset, length,
begin and end. Lines with `#` tell the run, and the file of the lines that follow. DXT has reads and writes alone.
"""

from collections.abc import Callable
from pathlib import Path

from weir.tracing.calls import CallTotals, Way, amount, span
from weir.tracing.files import TraceError
from weir.tracing.totals import LogTotals

_BEGIN = b"# darshan log version"
_LINE_CHARACTERS_MAX = 1 << 16
_RANKS_MAX = 1 << 24
"""Most ranks of a run."""
_NUMBER_MAX = 1e15
_MODULES = {"X_POSIX": "POSIX", "X_MPIIO": "MPI-IO"}
_WAYS: dict[str, Way] = {"read": "READ", "write": "WRITE"}
_FILE = "# DXT, file_id:"
_NAME = "file_name:"


def is_dxt(path: Path) -> bool:
    """Whether a file is the text of an extended trace, by its first bytes."""
    try:
        with path.open("rb") as file:
            return any(_BEGIN in file.readline(200) for _ in range(3))
    except OSError:
        return False


def read_dxt(path: Path, *, note: Callable[[str], None]) -> LogTotals:
    """Read the text of an extended trace.

    Args:
        path: The text.
        note: Called with a sentence for what could not be used.

    Raises:
        TraceError: It has no read or write.
        OSError: It cannot be read.
    """
    facts: dict[str, str] = {}
    modules: dict[str, CallTotals] = {}
    name, unread, ranks = "", 0, {-1}
    with path.open(encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(_LINE_CHARACTERS_MAX):
            words = line.split()
            if line.startswith(_FILE) and _NAME in line:
                name = line.split(_NAME, 1)[1].strip()
            elif line.startswith("# ") and ":" in line and not line.startswith("# DXT"):
                fact, _, value = line[2:].partition(":")
                facts.setdefault(fact.strip(), value.strip())
            elif words and words[0] in _MODULES:
                try:
                    rank = min(amount(words[1]), _RANKS_MAX - 1)
                    _count(modules.setdefault(_MODULES[words[0]], CallTotals()), words, rank, name)
                    ranks.add(rank)
                except (ValueError, IndexError, KeyError):
                    unread += 1
    if not modules:
        raise TraceError(
            f"{path} has no read or write of an extended trace",
            hint="write it with `darshan-dxt-parser LOG`; the run has to be recorded with DXT_ENABLE_IO_TRACE set",
        )
    if unread:
        note(f"{path}: {unread} lines could not be read, and are left out")
    note(f"{path}: an extended trace has no opens and other calls that move no bytes; the log itself has them")
    processes = max(min(int(_number(facts.get("nprocs", ""))), _RANKS_MAX), max(ranks) + 1, 1)
    return LogTotals(
        path=path,
        version="DXT",
        command=tuple(facts.get("exe", "").split()),
        ranks=processes,
        started=_number(facts.get("start_time", "")),
        seconds=_number(facts.get("run time", "")),
        job_id=int(_number(facts.get("jobid", ""))),
        uid=int(_number(facts.get("uid", ""))),
        modules=tuple(sorted(modules)),
        incomplete=(),
        interfaces={module: each.totals(processes) for module, each in modules.items()},
    )


def _count(totals: CallTotals, words: list[str], rank: int, name: str) -> None:
    way = _WAYS[words[2]]
    totals.transfer(way, rank, name, amount(words[4]), amount(words[5]), span(words[6], words[7]))


def _number(text: str) -> float:
    """A number of the header, which may have more behind it; 0 where there is none."""
    words = text.split()
    try:
        number = float(words[0]) if words else 0.0
    except ValueError:
        return 0.0
    return number if 0 <= number <= _NUMBER_MAX else 0.0
