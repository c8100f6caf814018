"""`weir://` for fsspec: any library that takes its URLs reads and writes a store without a mount.

Every method is synchronous: the client waits without the interpreter's lock, so threads overlap, and libraries that
want coroutines get them from fsspec's own wrapper, which runs each call in a thread.
"""

import errno
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from weir.store.client import FileSystem
from weir.store.client_address import find_address

PROTOCOL = "weir"
THREADS_MAX = 8
"""Files that one call of `cat`, `cat_ranges` or `pipe` reads or writes at once: as many as the large transfers that one
process has at a server."""


class WeirFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A store for fsspec.

    Attributes:
        files: The files of the store.
        auto_mkdir: Whether the directories above a new file are made with it, as object stores do.
    """

    protocol = PROTOCOL
    root_marker = "/"

    def __init__(self, store: Any = None, *, auto_mkdir: bool = True, **options: Any) -> None:
        """Name a store; its first call connects.

        Args:
            store: The store, as for `weir.store.connect`.
            options: `credential`, `job`, `user`, `group`, `nodes`, `priority`, `transport` and `timeout_seconds`, as
                for `weir.store.connect`, and options of fsspec.

        Raises:
            SettingsError: A setting cannot be used.
            StoreError: There is no store, or this user has no credential for it.
        """
        own = {name: options.pop(name) for name in ("credential", "transport", "timeout_seconds") if name in options}
        claims: dict[str, Any] = {
            name: options.pop(name) for name in ("job", "user", "group", "nodes", "priority") if name in options
        }
        super().__init__(store, auto_mkdir=auto_mkdir, **options)
        asked = {name: value for name, value in claims.items() if value is not None}
        self.files = FileSystem(find_address(store, own.pop("credential", None), asked, **own))
        self.auto_mkdir = auto_mkdir

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe the store for `pickle`: its address, and the file of the job's credential."""
        return _remade, (type(self), self.files, self.auto_mkdir)

    @property
    def fsid(self) -> str:
        """A name of the store: that of its cluster.json."""
        return f"{PROTOCOL}-{self.files.address.cluster}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        named = str(stringify_path(path)).removeprefix(f"{PROTOCOL}:").strip("/")
        return f"{cls.root_marker}{named}"

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """List a directory, or name the file. See `fsspec.AbstractFileSystem.ls`."""
        name = self._strip_protocol(path)
        try:
            return self.files.ls(name, detail=detail)
        except NotADirectoryError:
            return [self.info(name)] if detail else [name]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Describe a node. See `weir.store.client.FileSystem.info`."""
        return self.files.info(self._strip_protocol(path))

    def exists(self, path: str, **options: Any) -> bool:
        """Decide whether a path leads to a node. See `weir.store.client.FileSystem.exists`."""
        return self.files.exists(self._strip_protocol(path))

    def lexists(self, path: str, **options: Any) -> bool:
        """Decide whether a node has this path, also a link that leads nowhere. See `os.path.lexists`."""
        try:
            self.files.stat(self._strip_protocol(path), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Decide whether a path leads to a file. See `weir.store.client.FileSystem.is_file`."""
        return self.files.is_file(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        """Decide whether a path leads to a directory. See `weir.store.client.FileSystem.is_dir`."""
        return self.files.is_dir(self._strip_protocol(path))

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Make a directory. See `fsspec.AbstractFileSystem.mkdir`."""
        self.files.mkdir(self._strip_protocol(path), parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and those above it. See `fsspec.AbstractFileSystem.makedirs`."""
        self.files.mkdir(self._strip_protocol(path), parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory. See `fsspec.AbstractFileSystem.rmdir`."""
        self.files.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Remove a file. See `fsspec.AbstractFileSystem.rm_file`."""
        self.files.remove(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, and trees where `recursive` is given. See `fsspec.AbstractFileSystem.rm`."""
        if recursive and maxdepth is None:
            listed = path if isinstance(path, list) else [path]
            for name in [name for each in listed for name in self.expand_path(each)]:
                (self.files.remove_tree if self._is_folder(name) else self.files.remove)(name)
            return
        for name in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            (self.files.rmdir if recursive and self._is_folder(name) else self.files.remove)(name)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copy a file within the store, or make a directory. See `fsspec.AbstractFileSystem.cp_file`."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.files.is_dir(source):
            self.files.mkdir(target, parents=True, exist_ok=True)
        else:
            self._with_parents(target, lambda: self.files.copy(source, target), source)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Move a file or a tree: in one step, or by copies between trees of different servers.

        See `fsspec.AbstractFileSystem.mv`.

        Raises:
            OSError: The name cannot be moved.
        """
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.files.is_dir(target):
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        try:
            self._with_parents(target, lambda: self.files.rename(source, target), source)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            super().mv(source, target, recursive=self.files.is_dir(source), maxdepth=maxdepth, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Read a file or a part of it in one call. See `fsspec.AbstractFileSystem.cat_file`."""
        return self.files.read_bytes(self._strip_protocol(path), start or 0, end)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Read several files beside each other. See `fsspec.AbstractFileSystem.cat`."""
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **options)
        paths = [name for name in paths if not self.files.is_dir(name)] if recursive else paths
        read = self._together([(self.cat_file, (name,), options) for name in paths], on_error)
        return {
            name: data
            for name, data in zip(paths, read, strict=True)
            if on_error != "omit" or not isinstance(data, Exception)
        }

    def cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **options: Any
    ) -> list[Any]:
        """Read ranges of files beside each other. See `fsspec.AbstractFileSystem.cat_ranges`.

        Raises:
            ValueError: The lists differ in length.
        """
        firsts = starts if isinstance(starts, list) else [starts] * len(paths)
        lasts = ends if isinstance(ends, list) else [ends] * len(paths)
        ranges = zip(paths, firsts, lasts, strict=True)
        return self._together([(self.cat_file, each, options) for each in ranges], on_error)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        """Write a file in one call. See `fsspec.AbstractFileSystem.pipe_file`."""
        if self._intrans:
            super().pipe_file(path, value, mode, **options)
            return
        name = self._strip_protocol(path)
        self._with_parents(name, lambda: self.files.write_bytes(name, value, exclusive=mode == "create"))

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Write files beside each other. See `fsspec.AbstractFileSystem.pipe`."""
        if isinstance(path, dict):
            self._together([(self.pipe_file, each, options) for each in path.items()], "raise")
        else:
            self.pipe_file(path, value, **options)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Make an empty file, empty one, or set its time. See `fsspec.AbstractFileSystem.touch`."""
        name = self._strip_protocol(path)
        if truncate or not self.files.exists(name):
            self.pipe_file(name, b"")
        else:
            now = int(datetime.now(UTC).timestamp() * 1e9)
            self.files.utime(name, now, now)

    def created(self, path: str) -> datetime:
        """Read the time of a creation. See `fsspec.AbstractFileSystem.created`."""
        return datetime.fromtimestamp(self.info(path)["created"], UTC)

    def modified(self, path: str) -> datetime:
        """Read the time of the last modification. See `fsspec.AbstractFileSystem.modified`."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a node. See `os.chmod`."""
        self.files.chmod(self._strip_protocol(path), mode)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True, **options: Any
    ) -> Any:
        """A file with a buffer of `block_size` bytes; in a transaction a new one has its name once it is committed."""
        name = self._strip_protocol(path)
        buffering = -1 if block_size is None else block_size
        is_new = "w" in mode or "x" in mode
        if "r" in mode:
            return self.files.open(name, mode, buffering)
        if not is_new or autocommit:
            return self._with_parents(name, lambda: self.files.open(name, mode, buffering))
        folder, _, last = name.rpartition("/")
        draft = f"{folder}/.{last}.{uuid4().hex}"
        opened = self._with_parents(draft, lambda: self.files.open(draft, mode, buffering))

        def commit() -> None:
            opened.close()
            self.files.rename(draft, name, replace="x" not in mode)

        def discard() -> None:
            opened.close()
            self.files.remove(draft)

        opened.commit, opened.discard = commit, discard
        return opened

    def _with_parents(self, name: str, work: Any, source: str | None = None) -> Any:
        """Do work that makes a name, whose directories are made where the work finds none and the options ask for that.

        A `source` that is missing is an error before a directory is made.
        """
        try:
            return work()
        except FileNotFoundError:
            above = name.rpartition("/")[0]
            if not self.auto_mkdir or not above:
                raise
            if source is not None:
                self.files.stat(source, follow_symlinks=False)
            # Another thread may have made the directories meanwhile.
            self.files.mkdir(above, parents=True, exist_ok=True)
            return work()

    def _is_folder(self, name: str) -> bool:
        """Whether a name is that of a directory, and not of a link to one."""
        found = self.info(name)
        return bool(found["type"] == "directory" and not found["islink"])

    def _together(self, calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]], on_error: str) -> list[Any]:
        """The results of calls that threads make beside each other; errors among them unless they are raised."""

        def result(call: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Any:
            function, arguments, options = call
            try:
                return function(*arguments, **options)
            except Exception as error:
                if on_error == "raise":
                    raise
                return error

        if len(calls) < 2:
            return [result(call) for call in calls]
        with ThreadPoolExecutor(min(THREADS_MAX, len(calls))) as threads:
            return list(threads.map(result, calls))


def _remade(kind: type[WeirFileSystem], files: FileSystem, auto_mkdir: bool) -> WeirFileSystem:
    """The file system of another process, which goes on as the same job."""
    address = files.address
    made: WeirFileSystem = kind(
        str(address.cluster),
        credential=str(address.credential),
        transport=address.transport,
        timeout_seconds=address.timeout_seconds,
        auto_mkdir=auto_mkdir,
    )
    return made
