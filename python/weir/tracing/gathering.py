"""The files of a traced run, gathered from the records of all its processes in the order of time.

A name may stand for several files one after the other, as where a program writes `x.tmp` and renames it to `x` in each
step. So names are followed in time, and a file is an object of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from weir.tracing.records import SHARED, Creation, Making

if TYPE_CHECKING:
    from weir._core import TraceProcess

_Record = tuple[object, ...]


class Traced(Protocol):
    """A process image and its records."""

    @property
    def process(self) -> "TraceProcess":
        """The process."""

    @property
    def records(self) -> "list[tuple[object, ...]]":
        """Its records, in their order."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of a run."""

    creations: tuple[Creation, ...]
    """Files that were made or lost their bytes, in their order."""
    overwritten: tuple[Creation, ...]
    """Files that kept their bytes when the run wrote to them."""
    makings: tuple[Making, ...]
    """All makings in their order; empty where no file was renamed."""


@dataclass(slots=True, eq=False)
class _File:
    """The records of all processes of a run about one file."""

    path: str
    """Name under which the file was met first."""
    name: str
    """Name of the file now."""
    opened: float
    created: float | None = None
    """Time at which the file was first made, or lost its bytes."""
    was_there: bool = False
    makers: set[int] = field(default_factory=set)
    writers: set[int] = field(default_factory=set)
    end_bytes: int = 0
    counted_bytes: int = 0
    estimated_bytes: int = 0
    layout: str | None = None
    replaced_by: "_File | None" = None
    """The file that took the name of this one."""


def gather(processes: Sequence[Traced]) -> Gathered:
    """Gather the files of a run.

    Args:
        processes: The processes of the run, with their records.

    Returns:
        The files, in the spelling of the program that made them.
    """
    followed = _Names(_names_behind_links(processes))
    numbers: dict[tuple[int, object], _File] = {}
    written: dict[tuple[int, object], _Record] = {}
    for time, process, record in _in_time(processes):
        rank = processes[process].process["rank"] or 0
        match record:
            case ("opened", number, str(path), _, str(opening), float(_)):
                numbers[process, number] = followed.open(path, opening, time, rank, process)
            case ("written", number, *_):
                written[process, number] = record
            case ("placed", number, str(layout)) if (process, number) in numbers:
                _last(numbers[process, number]).layout = layout
            case ("renamed", str(before), str(after), float(_)):
                followed.rename(before, after)
    for key, record in written.items():
        if key in numbers:
            # Processes beside the ranks (shells, launchers) count as the first rank.
            _count(_last(numbers[key]), record, processes[key[0]].process["rank"] or 0)
    return followed.gathered()


def _in_time(processes: Sequence[Traced]) -> Iterator[tuple[float, int, _Record]]:
    """The records of all processes with their times, in order. A process's own records keep their order, also where
    its clock was set back.
    """
    timed: list[tuple[float, int, int, float, _Record]] = []
    for process, traced in enumerate(processes):
        latest = time = traced.process["started"]
        for place, record in enumerate(traced.records):
            after = record[-2] if record[0] == "ended" else record[-1]
            time = traced.process["started"] + after if isinstance(after, float) else time
            latest = max(latest, time)
            timed.append((latest, process, place, time, record))
    timed.sort(key=lambda one: one[:3])
    return ((time, process, record) for _, process, _, time, record in timed)


def _names_behind_links(processes: Sequence[Traced]) -> dict[str, str]:
    """The names under which files were made, by the names behind symbolic links, which other processes know."""
    return {
        str(record[3]): str(record[2])
        for traced in processes
        for record in traced.records
        if record[0] == "opened" and record[3]
    }


class _Names:
    """The files of a run, and the names under which they are known at a time."""

    def __init__(self, behind_links: dict[str, str]) -> None:
        self._behind_links = behind_links
        self._known: dict[str, _File] = {}
        self._files: list[_File] = []
        self._makings: list[tuple[str, _File, int, int]] = []

    def open(self, path: str, opening: str, time: float, rank: int, process: int) -> _File:
        """Find or begin the file that a process opens."""
        path = self._behind_links.get(path, path)
        file = self._known.get(path)
        if file is None:
            file = self._known[path] = _File(path, path, time)
            self._files.append(file)
        if opening in ("created", "truncated"):
            file.was_there |= opening == "truncated" and file.created is None
            file.created = min(time if file.created is None else file.created, time)
            file.makers.add(rank)
            self._makings.append((path, file, rank, process))
        return file

    def rename(self, before: str, after: str) -> None:
        """Give a file, or all files of a directory, another name."""
        before = self._behind_links.get(before, before)
        if before in self._known:
            self._rename_file(before, after)
            return
        below = before + "/"
        for path in [path for path in self._known if path.startswith(below)]:
            self._rename_file(path, after + path[len(before) :])

    def _rename_file(self, before: str, after: str) -> None:
        file = self._known.pop(before)
        replaced = self._known.get(after)
        if replaced is not None and replaced is not file:
            _replace(replaced, file)
        file.name = after
        self._known[after] = file

    def gathered(self) -> Gathered:
        """The files with their last names."""
        files = [file for file in self._files if file.replaced_by is None]
        made = sorted((file for file in files if file.created is not None), key=lambda file: file.created or 0.0)
        others = sorted((file for file in files if file.created is None and file.writers), key=lambda file: file.opened)
        makings = tuple(Making(path, _last(file).name, rank, process) for path, file, rank, process in self._makings)
        is_any_renamed = any(making.path != making.name for making in makings)
        return Gathered(_creations(made), _creations(others), makings if is_any_renamed else ())


def _replace(old: _File, new: _File) -> None:
    """Merge a file into the one that takes its name: they are one file, written anew."""
    if old.created is not None and (new.created is None or old.created <= new.created):
        new.path, new.created, new.was_there = old.path, old.created, old.was_there
    new.opened = min(old.opened, new.opened)
    new.makers |= old.makers
    new.layout = new.layout or old.layout
    old.replaced_by = new


def _last(file: _File) -> _File:
    """The file that has the name of this file in the end."""
    while file.replaced_by is not None:
        file = file.replaced_by
    return file


def _count(file: _File, record: _Record, rank: int) -> None:
    match record:
        case ("written", _, int(end), int(count), bool(is_estimate), *_):
            file.end_bytes = max(file.end_bytes, end)
            if count == 0:
                return
            file.writers.add(rank)
            if is_estimate:
                file.estimated_bytes = max(file.estimated_bytes, count)
            else:
                file.counted_bytes += count


def _creations(files: Sequence[_File]) -> tuple[Creation, ...]:
    orders: dict[int, int] = {}
    creations = []
    for file in files:
        ranks = file.makers | file.writers
        rank = next(iter(ranks)) if len(ranks) == 1 else SHARED
        order = orders.get(rank, 0)
        orders[rank] = order + 1
        creations.append(
            Creation(
                path=file.path,
                rank=rank,
                order=order,
                size_bytes=file.end_bytes,
                # A process that saw no writes estimates bytes that another process counted.
                written_bytes=file.counted_bytes or file.estimated_bytes,
                writers=len(file.writers),
                layout=file.layout,
                was_there=file.was_there or file.created is None,
                renamed=file.name if file.name != file.path else None,
            )
        )
    return tuple(creations)
