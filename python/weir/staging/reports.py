"""Counts of a copy: as it goes on, and at its end."""

import threading
from dataclasses import dataclass, field

PROBLEMS_MAX = 100
"""Most problems that are kept in words; further ones are counted."""


@dataclass(frozen=True)
class Progress:
    """A copy that is under way."""

    files: int
    """Files that are done, with those that were there already."""
    size_bytes: int
    """Bytes of these files, and of the parts of large files that are done."""
    files_found: int
    """Files that the walk through the source has come to."""
    bytes_found: int
    """Bytes of these files."""


@dataclass(frozen=True)
class Report:
    """A copy that is done: each byte was read back after it was made durable."""

    files: int
    """Files, links among them."""
    size_bytes: int
    """Bytes of the files, with holes."""
    folders: int
    copied_files: int
    """Files that this call finished; the others were there already."""
    copied_bytes: int
    """Bytes of the files, with holes, that this call copied: of a file that was begun before, the rest."""
    further: int = 0
    """Names in the destination's folders that the source does not have."""
    left_by_copies: int = 0
    """Unfinished files and records of other copies in the destination's folders."""
    left_out: tuple[str, ...] = ()
    """Sockets and devices, which have no bytes, and what other copies left unfinished in the source."""


@dataclass
class Tally:
    """Counters that all workers share."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[str, int] = field(default_factory=dict)
    _problems: list[str] = field(default_factory=list)
    _left_out: list[str] = field(default_factory=list)
    _problem_count: int = 0

    def add(self, **counts: int) -> None:
        """Count.

        Args:
            counts: Numbers to add, by the names of the counters.
        """
        with self._lock:
            for name, count in counts.items():
                self._counts[name] = self._counts.get(name, 0) + count

    def count(self, name: str) -> int:
        """Read a counter.

        Returns:
            Its value.
        """
        return self._counts.get(name, 0)

    def restart(self) -> None:
        """Forget the counts of a walk through the source, for the next one; counts of copied files stay."""
        with self._lock:
            for name in ("files", "size_bytes", "folders", "files_found", "bytes_found", "further", "left_by_copies"):
                self._counts.pop(name, None)
            self._problem_count = 0
            self._problems.clear()
            self._left_out.clear()

    def problem(self, words: str) -> None:
        """Keep a problem with one file, which does not end the copy of the others.

        Args:
            words: The problem.
        """
        with self._lock:
            self._problem_count += 1
            if len(self._problems) < PROBLEMS_MAX:
                self._problems.append(words)

    def leave_out(self, words: str) -> None:
        """Keep the name of a file that is not copied.

        Args:
            words: The file, and its kind.
        """
        with self._lock:
            if len(self._left_out) < PROBLEMS_MAX:
                self._left_out.append(words)

    @property
    def problems(self) -> tuple[int, tuple[str, ...]]:
        """Number of the problems, and the first of them in words."""
        with self._lock:
            return self._problem_count, tuple(self._problems)

    def progress(self) -> Progress:
        """Read the counters of a copy under way."""
        counted = ("files", "size_bytes", "files_found", "bytes_found")
        with self._lock:
            return Progress(*(self._counts.get(name, 0) for name in counted))

    def report(self) -> Report:
        """Read the counters of a copy that is done."""
        counted = ("files", "size_bytes", "folders", "copied_files", "copied_bytes", "further", "left_by_copies")
        with self._lock:
            return Report(**{name: self._counts.get(name, 0) for name in counted}, left_out=tuple(self._left_out))
