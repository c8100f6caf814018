"""The files of a store in this process, over the client that all programs of a store have.

A call gives the interpreter's lock up while it waits for servers. Its errors are those of `os`: `FileNotFoundError`,
`PermissionError` and others with `errno` and `filename`. A server that is silent for longer than the timeout fails the
call. The child of a fork gets connections of its own before it runs.
"""

import contextlib
import io
import os
import stat
import weakref
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from weir import _core
from weir.store.client_files import BUFFER_BYTES, File, buffered

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from weir.store.client_address import Address

_clients: "weakref.WeakSet[_core.StoreClient]" = weakref.WeakSet()
_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}
_FILE_PERMISSIONS = 0o666
_FOLDER_PERMISSIONS = 0o777
_BLOCK_UNIT = 512
"""Unit of `st_blocks` in bytes."""
_NANOSECONDS = 10**9


class Space(NamedTuple):
    """The room of a store: bytes that it can hold in all, and bytes that it can still take."""

    total_bytes: int
    free_bytes: int


class FileSystem:
    """The files of a store; `weir.store.connect` makes it.

    Paths lead from the root of the store, with or without a slash at the begin. Threads may use one at once. It pickles
    by its address and its credential's file, so that another process of the same user goes on as the same job.
    """

    def __init__(self, address: "Address") -> None:
        """Name a store. Its first call connects.

        Raises:
            SettingsError: A setting cannot be used.
        """
        from weir.store.errors import SettingsError

        self.address = address
        try:
            self._client: _core.StoreClient | None = _core.StoreClient(address.variables())
        except ValueError as error:
            message, _, hint = str(error).partition("; hint: ")
            raise SettingsError(message, hint=hint) from error
        _clients.add(self._client)

    def __enter__(self) -> "FileSystem":
        """Use the store in a block, whose end closes the connections."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe the store for `pickle`: its address, and the file of the job's credential."""
        return FileSystem, (self.address,)

    def __repr__(self) -> str:
        """Name the store and the credential."""
        return f"<weir.store.FileSystem {self.address.cluster} as {self.address.credential}>"

    def close(self) -> None:
        """Close the connections once the last open file is closed. Another call raises ValueError afterwards."""
        self._client = None

    @property
    def job(self) -> str:
        """Name of the job under which the servers count this process."""
        from weir.store.identity import read_claims

        return read_claims(self.address.credential)["job"]

    def counters(self) -> dict[str, int]:
        """Count the calls of this client so far.

        Returns:
            Numbers by names such as `read_bytes`, `requests` and `connections`.
        """
        return self._calls.counters()

    def open(
        self,
        path: str | os.PathLike[str],
        mode: str = "rb",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """Open a file, as the `open` of Python does.

        Args:
            mode: One of `r`, `w`, `x` and `a`, with `+`, `b` and `t` as for `open`; without `t` the file has bytes.
            buffering: Bytes of the buffer; 0 is none, and -1 is 256 KiB. Reads and writes that are larger go past the
                buffer.
            encoding: Encoding of a text; None is UTF-8.

        Returns:
            A `File` without a buffer, else a file with one; an `io.TextIOWrapper` around it for a text.

        Raises:
            ValueError: The mode is none, or the file system is closed.
            OSError: The file cannot be opened.
        """
        kind, flags = _flags(mode)
        name = _name(path)
        opened = self._calls.open(name, flags, _FILE_PERMISSIONS & ~self._mask)
        raw = File(self, opened, name, kind)
        if "t" not in mode:
            return raw if buffering == 0 else buffered(raw, BUFFER_BYTES if buffering < 0 else buffering)
        below: IO[bytes] = buffered(raw, BUFFER_BYTES if buffering <= 0 else buffering)
        return io.TextIOWrapper(below, encoding or "utf-8", errors, newline)

    def read_bytes(self, path: str | os.PathLike[str], start: int = 0, end: int | None = None) -> bytes:
        """Read a file, or a part of it, in one call.

        Args:
            start: Offset of the first byte; counted from the end where negative.
            end: Offset behind the last byte; counted from the end where negative. None stands for the end of the
                file.

        Raises:
            OSError: The file cannot be read.
        """
        return self._calls.read_file(_name(path), start, end)

    def write_bytes(self, path: str | os.PathLike[str], data: "ReadableBuffer", *, exclusive: bool = False) -> None:
        """Make a file, or replace the bytes of one, in one call.

        Args:
            exclusive: Whether a file that is there is an error.

        Raises:
            OSError: The file cannot be written; a part of the bytes may be there.
        """
        flags = _FLAGS["x" if exclusive else "w"]
        self._calls.write_file(_name(path), data, flags, _FILE_PERMISSIONS & ~self._mask)

    def copy(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
        """Copy the bytes of a file to another, which is made or replaced.

        Returns:
            Number of bytes.

        Raises:
            OSError: The copy failed, or both are one file.
        """
        return self._calls.copy_file(_name(source), _name(target), _FILE_PERMISSIONS & ~self._mask)

    def stat(self, path: str | os.PathLike[str], *, follow_symlinks: bool = True) -> os.stat_result:
        """Read the attributes of a node.

        Raises:
            OSError: There is none, or it cannot be reached.
        """
        return status_of(self._calls.attributes(_name(path), follow_symlinks))

    def info(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Describe a node as `fsspec` does.

        Returns:
            `name`, `size`, `type` (`file`, `directory` or `other`), `islink`, `mode`, `uid`, `gid`, `ino`, `nlink`,
            `mtime` and `created` in seconds since 1970; of a symbolic link those of the node to which it leads, and
            `destination`.

        Raises:
            OSError: There is none, or it cannot be reached.
        """
        name = _name(path)
        return self._described(name, self._calls.attributes(name, False))

    def ls(self, path: str | os.PathLike[str] = "/", *, detail: bool = False) -> list[Any]:
        """List a directory.

        Args:
            detail: Whether each entry is described as by `info`.

        Returns:
            The paths of the entries in the order of the directory, or their descriptions.

        Raises:
            OSError: The directory cannot be listed.
        """
        folder = _name(path).rstrip("/")
        entries = self._calls.list(folder or "/")
        if not detail:
            return [f"{folder}/{name}" for name, _, _ in entries]
        return [found for name, _, row in entries if (found := self._entry(f"{folder}/{name}", row)) is not None]

    def walk(self, top: str | os.PathLike[str] = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """Walk down a tree, as `os.walk` does: a caller may take names out of the list of directories.

        Yields:
            Path of a directory, the names of its directories, and those of its other nodes. Symbolic links are not
            followed.

        Raises:
            OSError: A directory cannot be listed.
        """
        waiting = [_name(top).rstrip("/") or "/"]
        while waiting:
            folder = waiting.pop()
            folders: list[str] = []
            others: list[str] = []
            for name, kind, _ in self._calls.list(folder):
                (folders if stat.S_ISDIR(kind) else others).append(name)
            yield folder, folders, others
            waiting += [f"{folder.rstrip('/')}/{name}" for name in reversed(folders)]

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Decide whether a path leads to a node. A server that does not answer is an error, and no answer.

        Raises:
            OSError: The path could not be followed.
        """
        return self._found(path) is not None

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Decide whether a path leads to a regular file.

        Raises:
            OSError: The path could not be followed.
        """
        found = self._found(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_dir(self, path: str | os.PathLike[str]) -> bool:
        """Decide whether a path leads to a directory.

        Raises:
            OSError: The path could not be followed.
        """
        found = self._found(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def mkdir(self, path: str | os.PathLike[str], *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory.

        Args:
            parents: Whether the directories above are made, too.
            exist_ok: Whether a directory that is there is no error.

        Raises:
            OSError: The directory cannot be made.
        """
        name = _name(path)
        try:
            self._calls.make_directory(name, _FOLDER_PERMISSIONS & ~self._mask)
        except FileNotFoundError:
            above = name.rstrip("/").rpartition("/")[0]
            if not parents or not above:
                raise
            self.mkdir(above, parents=True, exist_ok=True)
            self.mkdir(name, exist_ok=exist_ok)
        except FileExistsError:
            if not exist_ok or not self.is_dir(name):
                raise

    def rmdir(self, path: str | os.PathLike[str]) -> None:
        """Remove an empty directory.

        Raises:
            OSError: The directory cannot be removed.
        """
        self._calls.remove(_name(path), True)

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Remove the name of a file or of another node that is no directory.

        Raises:
            OSError: The name cannot be removed.
        """
        self._calls.remove(_name(path), False)

    def remove_tree(self, path: str | os.PathLike[str]) -> None:
        """Remove a directory with all that is below it.

        Raises:
            OSError: Something could not be removed; a part of the tree is left.
        """
        folder = _name(path).rstrip("/")
        for name, kind, _ in self._calls.list(folder or "/"):
            below = f"{folder}/{name}"
            # What another program removes meanwhile is gone.
            with contextlib.suppress(FileNotFoundError):
                (self.remove_tree if stat.S_ISDIR(kind) else self.remove)(below)
        if folder:
            self.rmdir(folder)

    def rename(self, source: str | os.PathLike[str], target: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Move a name in one step, also that of a directory.

        Args:
            replace: Whether a node of the new name goes; otherwise that is an error.

        Raises:
            OSError: The name cannot be moved; `errno.EXDEV` between trees of different home servers.
        """
        self._calls.move_name(_name(source), _name(target), replace)

    def symlink(self, target: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Make a symbolic link.

        Args:
            target: The text of the link, relative to the link's directory unless it begins with a slash. An absolute
                one means a path of the host.

        Raises:
            OSError: The link cannot be made.
        """
        self._calls.make_link(os.fspath(target), _name(path))

    def readlink(self, path: str | os.PathLike[str]) -> str:
        """Read the text of a symbolic link.

        Raises:
            OSError: The node is none.
        """
        return self._calls.link_target(_name(path))

    def chmod(self, path: str | os.PathLike[str], permissions: int) -> None:
        """Set the permission bits of a node.

        Raises:
            OSError: The node is another user's.
        """
        self._calls.change(_name(path), permissions=permissions)

    def truncate(self, path: str | os.PathLike[str], size: int) -> None:
        """Cut or extend a file.

        Raises:
            OSError: The size cannot be set.
        """
        self._calls.change(_name(path), size_bytes=size)

    def utime(self, path: str | os.PathLike[str], accessed_ns: int, modified_ns: int) -> None:
        """Set the times of a node.

        Args:
            accessed_ns: Nanoseconds since 1970.
            modified_ns: Nanoseconds since 1970.

        Raises:
            OSError: The node is another user's.
        """
        self._calls.change(_name(path), accessed=accessed_ns, modified=modified_ns)

    def getxattr(self, path: str | os.PathLike[str], attribute: str) -> bytes:
        """Read an extended attribute.

        Raises:
            OSError: There is none of this name.
        """
        return self._calls.xattr(_name(path), attribute)

    def setxattr(self, path: str | os.PathLike[str], attribute: str, value: bytes) -> None:
        """Set an extended attribute, such as `user.weir.layout`.

        Raises:
            OSError: The attribute cannot be set.
        """
        self._calls.set_xattr(_name(path), attribute, value)

    def listxattr(self, path: str | os.PathLike[str]) -> list[str]:
        """List the names of the extended attributes.

        Raises:
            OSError: The node cannot be reached.
        """
        return self._calls.xattr_names(_name(path))

    def removexattr(self, path: str | os.PathLike[str], attribute: str) -> None:
        """Remove an extended attribute.

        Raises:
            OSError: There is none of this name.
        """
        self._calls.remove_xattr(_name(path), attribute)

    def space(self) -> Space:
        """Add up the room of all servers that answer.

        Raises:
            OSError: No server answers.
        """
        return Space(*self._calls.room())

    @property
    def _calls(self) -> "_core.StoreClient":
        if self._client is None:
            raise ValueError(f"the files of {self.address.cluster} are closed")
        return self._client

    @cached_property
    def _mask(self) -> int:
        """The process's mask of permissions: only the process status shows it without a change of it."""
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)

    def _found(self, path: str | os.PathLike[str]) -> os.stat_result | None:
        try:
            return self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _entry(self, path: str, row: "_core._Attributes | None") -> dict[str, Any] | None:
        """The description of an entry; None where it was removed meanwhile."""
        try:
            return self._described(path, row or self._calls.attributes(path, False))
        except FileNotFoundError:
            return None

    def _described(self, path: str, row: "_core._Attributes") -> dict[str, Any]:
        found = status_of(row)
        extra: dict[str, Any] = {"islink": stat.S_ISLNK(found.st_mode)}
        if extra["islink"]:
            extra["destination"] = self.readlink(path)
            # A link that leads nowhere, or out of the store, is described itself.
            with contextlib.suppress(OSError):
                found = self.stat(path)
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
        return {
            "name": path.rstrip("/") or "/",
            "size": found.st_size,
            "type": kinds.get(stat.S_IFMT(found.st_mode), "other"),
            "created": row[-1] / _NANOSECONDS,
            "mtime": found.st_mtime,
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "ino": found.st_ino,
            "nlink": found.st_nlink,
            **extra,
        }


def status_of(row: "_core._Attributes") -> os.stat_result:
    """Make the result of `os.stat` from attributes of the client."""
    mode, ino, links, uid, gid, size, allocated, accessed, modified, changed, _ = row
    times = {"atime": accessed, "mtime": modified, "ctime": changed}
    more: dict[str, float] = {f"st_{name}": time / _NANOSECONDS for name, time in times.items()}
    more |= {f"st_{name}_ns": time for name, time in times.items()}
    more |= {"st_blocks": -(-allocated // _BLOCK_UNIT), "st_blksize": BUFFER_BYTES}
    seconds = (time // _NANOSECONDS for time in times.values())
    return os.stat_result((mode, ino, 0, links, uid, gid, size, *seconds), more)


def _flags(mode: str) -> tuple[str, int]:
    """The mode without `t` and with `b`, and its flags of `os.open`."""
    letters = set(mode)
    kinds = letters & set(_FLAGS)
    if len(kinds) != 1 or len(letters) != len(mode) or letters - set("rwxab+t") or {"b", "t"} <= letters:
        raise ValueError(f"the mode is {mode!r}: expected one of r, w, x and a, with +, and with b or t")
    kind = kinds.pop()
    flags = _FLAGS[kind]
    if "+" in mode:
        return f"{kind}+b", flags & ~os.O_WRONLY | os.O_RDWR
    return f"{kind}b", flags


def _name(path: str | os.PathLike[str]) -> str:
    """A path from the root of the store."""
    name = os.fspath(path)
    if "\0" in name:
        raise ValueError(f"the path {name!r} has a null character")
    return name if name.startswith("/") else f"/{name}"


def _after_fork() -> None:
    for client in _clients:
        client.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork)
