"""A server's own files on their way to another host: sent in parts, checked, and put in place as a whole.

The files are those of a server without targets: its journal, its settings and its stamp in the home. In a store in
memory the names that are to go stand in place of the journal, in files of the same form. The logs and snapshots of a
journal only grow (docs/design/journal.md), so most of them goes while the server runs. Once the server has ended, its
folder is sealed by another name, and no server can start from it any more. The rest goes then, with the digest of each
file.
"""

import base64
import hashlib
import os
import re
import shutil
from pathlib import Path

from weir.deployment.operations import Fetched, FilePart, FileState
from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.home import Home

_LEAVING = "names"
"""Folder of names that go to another host (crates/core/src/server/handover.rs)."""
_ARRIVED = "arrived"
"""Folder from which a server takes them."""
_JOURNALS = ("journal", _LEAVING)
_GROWING = re.compile(r"(?:journal|names)/(?:log|snapshot)-[0-9a-f]{16}-[0-9a-f]{8}")
_REWRITTEN = ("journal/durable", "journal/identity", "names/durable", "settings.json", "audit.log", "identity")
"""Files that are written in place: they go when the server has ended."""
_IDENTITY = "identity"
"""The home's stamp of a server, which lies with the server's files while they go."""
_WHOLE = "whole"
"""File in a folder of arrivals to which nothing is added any more."""


def seal(home: Home, number: int) -> None:
    """Keep any server from starting from the files of one that has ended. Repeated, it changes nothing.

    Raises:
        StoreError: The server's files are not here.
        OSError: The folder cannot be renamed.
    """
    folder, goal = home.server(number), home.sealed(number)
    if folder.is_dir() and goal.is_dir():
        raise StoreError(
            f"both {folder} and {goal} exist", hint=("only one of them belongs to the server: look at both")
        )
    if folder.is_dir():
        if home.identity(number).exists():
            home.identity(number).rename(folder / _IDENTITY)
        folder.rename(goal)
        _sync(home.servers)
    elif not goal.is_dir():
        raise _missing(home, number)


def fetch(home: Home, number: int, have: dict[str, int], bytes_max: int) -> Fetched:
    """Read the part of a server's files that another host does not have.

    Args:
        have: Bytes of each file that the other host has.
        bytes_max: Most bytes of the parts.

    Returns:
        The files, and some of the missing parts.

    Raises:
        StoreError: The server's files are not here.
        OSError: A file cannot be read.
    """
    is_sealed = home.sealed(number).is_dir()
    folder = home.sealed(number) if is_sealed else home.server(number)
    if not folder.is_dir() or (is_sealed and not any(folder.iterdir())):
        raise _missing(home, number)
    parts, states = [], []
    for name in _names(folder, with_rewritten=is_sealed):
        path = folder / name
        try:
            size = path.stat().st_size
            begin = min(have.get(name, 0), size)
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read(min(bytes_max, size - begin)) if bytes_max else b""
        except FileNotFoundError:
            # A snapshot replaced it.
            continue
        bytes_max -= len(data)
        states.append(FileState(name, size, _digest(path) if is_sealed else ""))
        if data:
            parts.append(FilePart(name, begin, base64.b64encode(data).decode()))
    return Fetched(tuple(states), tuple(parts), is_sealed)


def store(home: Home, number: int, fetched: Fetched) -> tuple[dict[str, int], bool]:
    """Take parts of a server's files.

    Args:
        fetched: The files as the other host has them, and the parts.

    Returns:
        Bytes of each file that is here, and whether all of them are here as they were sealed.

    Raises:
        StoreError: A name is none of a server's file.
        OSError: A file cannot be written.
    """
    folder = home.arriving(number)
    if _is_here(home, number):
        return {}, True
    make_folder(folder, 0o700)
    for part in fetched.parts:
        path = folder / _checked(part.name)
        make_folder(path.parent, 0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            file.seek(part.offset)
            file.write(base64.b64decode(part.data, validate=True))
            file.truncate()
    wanted = {_checked(state.name): state for state in fetched.files}
    for name in _names(folder, with_rewritten=True):
        # Without a list of files the other host was not asked.
        if wanted and name not in wanted:
            (folder / name).unlink()
    if fetched.is_sealed and fetched.files and _are_whole(folder, wanted):
        (folder / _WHOLE).touch()
        for path in (*(folder / name for name in wanted), folder / _WHOLE, *_journals(folder), folder):
            _sync(path)
        return {}, True
    return {name: (folder / name).stat().st_size for name in _names(folder, with_rewritten=True)}, False


def put_in_place(home: Home, number: int) -> bool:
    """Put the files of a server that came here in their place.

    Returns:
        Whether the server may start; false where some of its files are still missing.

    Raises:
        OSError: A folder cannot be renamed.
    """
    folder = home.arriving(number)
    if not folder.is_dir():
        return not home.sealed(number).is_dir()
    if not (folder / _WHOLE).is_file():
        return False
    if home.sealed(number).is_dir():
        # It was here before.
        shutil.rmtree(home.sealed(number))
    if (folder / _LEAVING).is_dir():
        (folder / _LEAVING).rename(folder / _ARRIVED)
    if (folder / _IDENTITY).exists():
        make_folder(home.identities, 0o700)
        (folder / _IDENTITY).rename(home.identity(number))
        _sync(home.identities)
    (folder / _WHOLE).unlink()
    folder.rename(home.server(number))
    home.server(number).chmod(home.passage)
    _sync(home.servers)
    return True


def forget(home: Home, number: int) -> None:
    """Remove the files of a server that went elsewhere, or of one that did not come.

    The sealed folder stays, empty: it keeps a supervisor from starting the server here anew, without its files.

    Raises:
        OSError: A file cannot be removed.
    """
    if home.arriving(number).is_dir():
        shutil.rmtree(home.arriving(number))
    if home.sealed(number).is_dir():
        for entry in home.sealed(number).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _missing(home: Home, number: int) -> StoreError:
    return StoreError(f"the files of server {number} are not in {home.root}", hint="see `weir status`")


def _is_here(home: Home, number: int) -> bool:
    """Whether all files of a server are here, to which nothing is added any more: it can start, or did so."""
    return (home.arriving(number) / _WHOLE).is_file() or home.server(number).is_dir()


def _names(folder: Path, *, with_rewritten: bool) -> list[str]:
    """The names of the server's files that are there, the oldest part of the journal first."""
    found = [f"{journal.name}/{entry.name}" for journal in _journals(folder) for entry in journal.iterdir()]
    growing = [name for name in found if _GROWING.fullmatch(name)]
    # By the number of the first group, which follows the kind of the file.
    names = sorted(growing, key=lambda name: name.partition("-")[2])
    return names + [name for name in _REWRITTEN if with_rewritten and (folder / name).is_file()]


def _journals(folder: Path) -> list[Path]:
    return [folder / name for name in _JOURNALS if (folder / name).is_dir()]


def _checked(name: str) -> str:
    if not _GROWING.fullmatch(name) and name not in _REWRITTEN:
        raise StoreError(f"{name!r} is no file of a server")
    return name


def _are_whole(folder: Path, wanted: dict[str, FileState]) -> bool:
    """Whether all files are there as they were sealed. One that is as long and differs is removed, and comes anew."""
    is_right = True
    for name, state in wanted.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size < state.size:
            is_right = False
        elif path.stat().st_size > state.size or _digest(path) != state.digest:
            # A log can have been cut back at its end since its first part came.
            path.unlink()
            is_right = False
    return is_right


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
