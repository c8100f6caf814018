"""The copy of a tree: walked through, copied by workers, and compared with its source at the end."""

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.staging.audit import audit
from weir.staging.contents import Scratch
from weir.staging.errors import FULL, FatalError, StagingError, StoppedError
from weir.staging.hard_links import HardLinks
from weir.staging.large_files import PART_BYTES, LargeFile
from weir.staging.places import below, make_folder, names_in, open_below, open_folder, shown
from weir.staging.record import Record, is_of_a_copy
from weir.staging.reports import Progress, Report, Tally
from weir.staging.small_files import Batch, Entry, Trees
from weir.staging.survey import survey
from weir.staging.workers import Workers

WORKERS = 8
"""Workers of a copy: enough for a device's queue, and each holds one block of memory."""
_PASSES = 3
"""Walks through a source that changes while it is copied, before the copy is given up."""


def copy(
    source: Path,
    destination: Path,
    *,
    origin: str | None = None,
    workers: int = WORKERS,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> Report:
    """Copy a file or a tree, so that the destination equals the source, or continue an unfinished copy.

    Files of the destination that the source does not have stay, and are counted. Holes, links, pipes, modes, times and
    empty folders are kept, and owners where this process is root's. The copy holds one block of memory for each worker,
    and the names of folders that are still to be walked through.

    Args:
        source: A file or folder.
        destination: Name of the copy. Its folder has to exist.
        origin: Name of the source, by which the copy is known when it goes on; None is its path.
        workers: Number of workers.
        progress: Called in intervals with the progress.
        stop: Event after which the copy stops at its next block.

    Returns:
        The counts. Every byte was read back after it was made durable, and so were all folders.

    Raises:
        StagingError: The copy is not done. Whatever was copied is kept, and the same call goes on.
    """
    source, destination = _settled(source, "source"), _settled(destination, "destination")
    if destination.is_relative_to(source) or source.is_relative_to(destination):
        raise StagingError(f"{source} and {destination} lie in each other", hint="name another destination")
    with contextlib.ExitStack() as held:
        parent = _opened(held, source.parent, "source")
        target = _opened(held, destination.parent, "destination")
        try:
            status = os.stat(source.name, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            raise _unreadable(source, error) from error
        _check_kinds(status, target, destination)
        try:
            record = Record(target, os.fsencode(destination.name), origin or str(source))
        except OSError as error:
            raise _unusable(destination, error) from error
        is_done, tally = False, Tally()
        try:
            names = (os.fsencode(source.name), os.fsencode(destination.name))
            trees = _trees(held, (parent, target), names, status, (record, tally))
            run = _Run(trees, source, destination, Entry(*names, status), stop or threading.Event(), progress)
            report = run.copied(workers)
            os.fsync(target)
            is_done = True
        except OSError as error:
            raise _unusable(destination, error) from error
        finally:
            with contextlib.suppress(OSError):
                # A record of nothing would keep every other source from the destination.
                record.close(done=is_done or (record.is_empty() and not tally.count("copied_files")))
        with contextlib.suppress(OSError):
            # The record alone would come back, and the next copy would find all files done.
            os.fsync(target)
        return report


def _settled(path: Path, which: str) -> Path:
    """Follow the last name of a path where it is a link of this user or of the system."""
    path = Path(os.path.normpath(path.absolute()))
    try:
        status = path.lstat()
    except OSError:
        return path
    if not stat.S_ISLNK(status.st_mode):
        return path
    if status.st_uid not in (0, os.geteuid()):
        raise StagingError(
            f"the {which} {path} is another user's link, which could lead anywhere", hint="name the folder itself"
        )
    return path.resolve()


def _check_kinds(status: os.stat_result, target: int, destination: Path) -> None:
    """Refuse a file in the place of a folder, and a folder in the place of a file, before anything is written."""
    try:
        present = os.stat(destination.name, dir_fd=target, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISDIR(present.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise StagingError(
            f"the destination {destination} is a folder, and the source is none",
            hint="name the copy itself: a name below that folder",
        )
    if stat.S_ISDIR(status.st_mode) and not stat.S_ISDIR(present.st_mode):
        raise StagingError(
            f"the destination {destination} is no folder, and the source is one", hint="name another destination"
        )


def _opened(held: contextlib.ExitStack, folder: Path, which: str) -> int:
    try:
        descriptor = open_folder(folder)
    except OSError as error:
        raise StagingError(
            f"the folder of the {which}, {folder}, cannot be opened: {error.strerror}",
            hint="is the path right?",
            is_missing=isinstance(error, FileNotFoundError) and which == "source",
        ) from error
    held.callback(os.close, descriptor)
    return descriptor


def _trees(
    held: contextlib.ExitStack,
    parents: tuple[int, int],
    names: tuple[bytes, bytes],
    status: os.stat_result,
    counted: tuple[Record, Tally],
) -> Trees:
    """The open roots of a tree; for a single file, the folders that it lies in."""
    record, tally = counted
    roots = list(parents)
    if stat.S_ISDIR(status.st_mode):
        if make_folder(parents[1], names[1], status.st_mode):
            record.note_new_root()
        roots = [open_below(parent, (name,)) for parent, name in zip(parents, names, strict=True)]
        for root in roots:
            held.callback(os.close, root)
    return Trees(roots[0], roots[1], record, tally)


@dataclass(frozen=True)
class _Run:
    """One call of `copy`."""

    trees: Trees
    source: Path
    destination: Path
    root: Entry
    stop: threading.Event
    progress: Callable[[Progress], None] | None

    def copied(self, count: int) -> Report:
        """Copy until the destination is equal to the source."""
        try:
            for _ in range(_PASSES):
                self._pass(count)
                if audit(self.trees, None if stat.S_ISDIR(self.root.status.st_mode) else self.root):
                    self._tick()
                    return self.trees.tally.report()
            raise StagingError(
                f"{self.source} keeps changing while it is copied",
                hint="give the command again when nothing writes there; it goes on",
            )
        except StoppedError:
            raise StagingError(
                f"the copy of {self.source} to {self.destination} was stopped: {self._left()}",
                hint="what was copied is kept, and the same command continues",
            ) from None
        except FatalError as error:
            raise self._ended(shown((error.path,)), error.error) from error
        except OSError as error:
            raise self._ended("", error) from error

    def _pass(self, count: int) -> None:
        tally = self.trees.tally
        tally.restart()
        workers = Workers(count, self.stop, self._tick)
        links = HardLinks(self.trees)
        try:
            _walk(self.trees, self.root, workers, links)
            workers.wait()
        finally:
            workers.end()
            for file in tuple(self.trees.opened):
                file.close()
        links.make(Scratch(self.stop))
        number, problems = tally.problems
        if number:
            more = f", and {number - 1} more" if number > 1 else ""
            raise StagingError(
                f"{self.source} cannot be copied whole to {self.destination}: {problems[0]}{more}",
                hint="the other files were copied; mend these, and give the command again",
            )

    def _tick(self) -> None:
        if self.progress is not None:
            self.progress(self.trees.tally.progress())

    def _left(self) -> str:
        """The part of the source that is still to be copied, in words."""
        done = self.trees.tally.progress()
        try:
            is_tree = stat.S_ISDIR(self.root.status.st_mode)
            files, size = survey(self.trees.source) if is_tree else (1, self.root.status.st_size)
        except OSError:
            return f"{done.files} files ({done.size_bytes} bytes) are there"
        return (
            f"{done.files} of {files} files ({done.size_bytes} of {size} bytes) are there, "
            f"and {max(files - done.files, 0)} files ({max(size - done.size_bytes, 0)} bytes) are left"
        )

    def _ended(self, path: str, error: OSError) -> StagingError:
        if error.errno in FULL:
            words = "is full" if error.errno == errno.ENOSPC else "has no room left for you (quota)"
            return StagingError(
                f"{self.destination} {words}: {self._left()}",
                hint="what was copied is kept; make room there, and the same command continues",
                is_full=True,
            )
        place = f" at {path}" if path else ""
        return StagingError(
            f"the copy of {self.source} to {self.destination} ended{place}: {error.strerror}; {self._left()}",
            hint="what was copied is kept, and the same command continues",
        )


def _walk(trees: Trees, root: Entry, workers: Workers, links: HardLinks) -> None:
    """Give all files to the workers; the folders are made on the way."""
    if not stat.S_ISDIR(root.status.st_mode):
        batch = Batch(trees, (), is_new=False)
        _add(trees, batch, root, workers, links)
        if batch.entries:
            workers.add(batch)
        return
    ahead: list[tuple[tuple[bytes, ...], bool]] = [((), False)]
    while ahead:
        parts, is_new = ahead.pop()
        try:
            found = _walk_folder(trees, parts, workers, links, is_new=is_new)
        except PermissionError as error:
            trees.tally.problem(f"{shown(parts)}: {error.strerror}")
            continue
        ahead += found
        trees.tally.add(folders=1)


def _walk_folder(
    trees: Trees, parts: Sequence[bytes], workers: Workers, links: HardLinks, *, is_new: bool
) -> list[tuple[tuple[bytes, ...], bool]]:
    """Give the files of a folder to the workers; return its folders, and whether each is new at the destination."""
    folders: list[tuple[tuple[bytes, ...], bool]] = []
    with below(trees.source, parts) as source, below(trees.target, parts) as target:
        if trees.record.is_resumed and not is_new:
            _sweep(trees.record, target)
        batch = Batch(trees, parts, is_new)
        for name, status in names_in(source):
            if stat.S_ISDIR(status.st_mode):
                try:
                    folders.append(((*parts, name), make_folder(target, name, status.st_mode)))
                except FileExistsError:
                    trees.tally.problem(f"{shown((*parts, name))}: something that is no folder has its place")
                continue
            if _add(trees, batch, Entry(name, name, status), workers, links):
                workers.add(batch)
                batch = Batch(trees, parts, is_new)
        if batch.entries:
            workers.add(batch)
    return folders


def _add(trees: Trees, batch: Batch, entry: Entry, workers: Workers, links: HardLinks) -> bool:
    """Give a large file to the workers, or add another one to the batch; return whether the batch is full."""
    status = entry.status
    path = (*batch.folder, entry.name)
    if is_of_a_copy(entry.name):
        trees.tally.leave_out(f"{shown(path)} (left by another copy)")
        return False
    if stat.S_IFMT(status.st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO):
        trees.tally.leave_out(f"{shown(path)} ({'socket' if stat.S_ISSOCK(status.st_mode) else 'device'})")
        return False
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    trees.tally.add(files_found=1, bytes_found=size)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and links.is_another(path, batch.folder, entry):
        return False
    if size > PART_BYTES:
        workers.add(LargeFile(trees, batch.folder, entry, workers))
        return False
    return batch.add(entry)


def _sweep(record: Record, folder: int) -> None:
    """Remove the unfinished files of an earlier process that was killed."""
    with os.scandir(folder) as entries:
        leftovers = [name for entry in entries if record.is_leftover(name := os.fsencode(entry.name))]
    for name in leftovers:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _unreadable(source: Path, error: OSError) -> StagingError:
    return StagingError(
        f"{source}: {error.strerror}", hint="is the path right?", is_missing=isinstance(error, FileNotFoundError)
    )


def _unusable(destination: Path, error: OSError) -> StagingError:
    return StagingError(
        f"nothing can be copied to {destination}: {error.strerror}",
        hint="make room there" if error.errno in FULL else "is the path right, and may you write there?",
        is_full=error.errno in FULL,
    )
