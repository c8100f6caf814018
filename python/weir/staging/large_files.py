"""A large file: its parts are copied by several workers at once, and after a break the missing ones alone.

The file is written under a temporary name, made durable, read back part by part, and then given its name.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Sequence

from weir.staging.contents import BLOCK_BYTES, Scratch, checksum, copy_range, forget_cache, is_sparse
from weir.staging.errors import FATAL, FatalError, SourceChangedError
from weir.staging.metadata import apply_to_file, is_done, may_be_kept
from weir.staging.places import open_below, shown
from weir.staging.record import Parts, identity
from weir.staging.small_files import TRIES, Entry, Trees, open_source, temporary_name, verify_size
from weir.staging.workers import Unit, Workers

PART_BYTES = 16 * BLOCK_BYTES
"""Bytes of a part: long enough for sequential devices, and little to copy again after a break."""


class LargeFile:
    """The copy of one large file, whose parts any worker takes."""

    def __init__(self, trees: Trees, folder: Sequence[bytes], entry: Entry, workers: Workers) -> None:
        """Plan the copy; nothing is opened yet.

        Args:
            trees: The two trees.
            folder: Names on the way to the file's folder.
            workers: The workers that take its parts.
        """
        self._trees = trees
        self._entry = entry
        self._folder = tuple(folder)
        self._path = (*self._folder, entry.name)
        self._workers = workers
        self._lock = threading.Lock()
        self._stage = "begin"
        self._tries = 0
        self._next = 0
        self._left = 0
        self._copied_bytes = 0
        """Bytes that this call copied into the unfinished file."""
        self._problem: OSError | None = None
        self._files: tuple[int, int, int] | None = None
        """Source, unfinished file, and the folder of the destination."""

    def take(self) -> Unit | None:
        """See `Work.take`."""
        with self._lock:
            if self._stage == "begin":
                self._stage = "wait"
                return self._guarded(self._begin)
            if self._stage in ("copy", "verify") and self._next < self._parts:
                number = self._next
                self._next += 1
                work = self._copy if self._stage == "copy" else self._verify
                return self._guarded(lambda scratch: work(number, scratch))
            return None

    def close(self) -> None:
        """Close the files; an unfinished file stays, with its parts in the record."""
        with self._lock:
            files, self._files = self._files, None
        self._trees.opened.discard(self)
        for file in files or ():
            if file >= 0:
                os.close(file)

    @property
    def _parts(self) -> int:
        return -(-self._status.st_size // PART_BYTES)

    def _range(self, number: int) -> tuple[int, int]:
        return number * PART_BYTES, min((number + 1) * PART_BYTES, self._status.st_size)

    def _guarded(self, unit: Unit) -> Unit:
        def run(scratch: Scratch) -> None:
            try:
                unit(scratch)
            except SourceChangedError:
                self._fail(None)
            except OSError as error:
                if error.errno in FATAL:
                    raise FatalError(b"/".join(self._path), error) from error
                self._fail(error)

        return run

    def _begin(self, scratch: Scratch) -> None:
        """Open both files, and find the parts that an earlier process has written."""
        source = open_below(self._trees.source, self._folder)
        try:
            original = open_source(source, self._entry.source)
        finally:
            os.close(source)
        self._status = os.fstat(original)
        self._sparse = is_sparse(self._status)
        target = open_below(self._trees.target, self._folder)
        self._files = (original, -1, target)
        self._trees.opened.add(self)
        if self._is_there(scratch):
            self.close()
            self._trees.tally.add(files=1, size_bytes=self._status.st_size)
            return
        file = self._go_on(target)
        if file is None:
            file = self._create(target)
        self._files = (original, file, target)
        self._begin_stage("copy")

    def _is_there(self, scratch: Scratch) -> bool:
        original, _, target = self._opened()
        name, size = self._entry.name, self._status.st_size
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=target)
        except OSError:
            return False
        try:
            present = os.fstat(file)
            if is_done(self._status, present, self._trees.record.begun_ns):
                return True
            if present.st_size != size or not may_be_kept(self._status, present):
                return False
            os.fsync(file)
            forget_cache(file)
            pairs = ((original, self._sparse), (file, is_sparse(present)))
            for number in range(self._parts):
                begin, end = self._range(number)
                found = [checksum(each, begin, end, sparse=sparse, scratch=scratch) for each, sparse in pairs]
                if found[0] != found[1]:
                    return False
            if identity(os.fstat(original)) != identity(self._status):
                return False
            apply_to_file(file, self._status)
            os.fsync(file)
            return True
        finally:
            os.close(file)

    def _go_on(self, target: int) -> int | None:
        """Open the unfinished file of an earlier process; None where there is none, or its source has changed."""
        known = self._trees.record.parts_of(self._path)
        if known is None:
            return None
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(known.temporary, flags, dir_fd=target)
        except OSError:
            return None
        present = os.fstat(file)
        is_own = present.st_uid == os.geteuid() and present.st_nlink == 1 and present.st_size == self._status.st_size
        if known.status != identity(self._status) or not is_own:
            os.close(file)
            with contextlib.suppress(OSError):
                os.unlink(known.temporary, dir_fd=target)
            return None
        known.done = {number: found for number, found in known.done.items() if 0 <= number < self._parts}
        self._record = known
        self._trees.tally.add(size_bytes=sum(end - begin for begin, end in map(self._range, known.done)))
        return file

    def _create(self, target: int) -> int:
        name = temporary_name(self._trees.record)
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=target)
        os.ftruncate(file, self._status.st_size)
        self._record = Parts(identity(self._status), name)
        self._trees.record.begin(self._path, self._record)
        return file

    def _begin_stage(self, stage: str) -> None:
        with self._lock:
            self._stage, self._next, self._left = stage, 0, self._parts
        self._workers.continue_first(self)

    def _opened(self) -> tuple[int, int, int]:
        if self._files is None:
            raise OSError(errno.EBADF, "its copy was ended")
        return self._files

    def _copy(self, number: int, scratch: Scratch) -> None:
        begin, end = self._range(number)
        if self._problem is None and number not in self._record.done:
            original, file, _ = self._opened()
            found = copy_range(original, file, begin, end, sparse=self._sparse, scratch=scratch)
            if identity(os.fstat(original)) != identity(self._status):
                raise SourceChangedError
            self._record.done[number] = found
            self._trees.record.part(self._path, number, found)
            self._trees.tally.add(size_bytes=end - begin)
            with self._lock:
                self._copied_bytes += end - begin
        if self._is_last():
            self._seal()

    def _seal(self) -> None:
        if self._problem is not None:
            self._give_up()
            return
        _, file, _ = self._opened()
        apply_to_file(file, self._status)
        os.fsync(file)
        forget_cache(file)
        verify_size(file, self._status.st_size)
        self._begin_stage("verify")

    def _verify(self, number: int, scratch: Scratch) -> None:
        begin, end = self._range(number)
        if self._problem is None:
            _, file, _ = self._opened()
            # Holes of the target are read as zeros: they have to be zeros in the source, too.
            found = checksum(file, begin, end, sparse=self._sparse, scratch=scratch)
            if found != self._record.done[number]:
                raise OSError(errno.EILSEQ, f"bytes {begin} to {end} were read back wrongly")
        if self._is_last():
            self._finish()

    def _finish(self) -> None:
        if self._problem is not None:
            self._give_up()
            return
        original, _, target = self._opened()
        if identity(os.fstat(original)) != identity(self._status):
            self._problem = OSError(errno.EAGAIN, "changed")
            self._give_up()
            return
        os.rename(self._record.temporary, self._entry.name, src_dir_fd=target, dst_dir_fd=target)
        self._trees.record.end(self._path)
        self.close()
        self._trees.tally.add(files=1, copied_files=1, copied_bytes=self._copied_bytes)

    def _is_last(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left == 0

    def _fail(self, error: OSError | None) -> None:
        """Give a unit up; the last unit of the stage gives the file up. None is a source that changed."""
        with self._lock:
            self._problem = self._problem or error or OSError(errno.EAGAIN, "changed")
            is_between = self._stage in ("begin", "wait")
        if is_between or self._is_last():
            self._give_up()

    def _give_up(self) -> None:
        """Copy the whole file again, a few times; then keep the problem, and continue with other files."""
        problem = self._problem
        if self._files is not None and self._files[1] >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._record.temporary, dir_fd=self._files[2])
            self._trees.record.end(self._path)
            size = sum(end - begin for begin, end in map(self._range, self._record.done))
            self._trees.tally.add(size_bytes=-size)
        self._copied_bytes = 0
        self.close()
        self._tries += 1
        is_changed = problem is not None and problem.errno in (errno.EAGAIN, errno.EILSEQ)
        if is_changed and self._tries < TRIES:
            with self._lock:
                self._problem, self._stage = None, "begin"
            self._workers.continue_first(self)
            return
        words = (
            "it changes while it is copied" if problem is None or problem.errno == errno.EAGAIN else problem.strerror
        )
        self._trees.tally.problem(f"{shown(self._path)}: {words}")
