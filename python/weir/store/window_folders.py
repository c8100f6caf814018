"""The folders of the windows in which programs count their operations: one for each user, in the memory of the host.

Anyone may make folders there, also one with the name of another user's. Where a user's name is taken, the user's folder
has a random ending, which nobody can take before. `crates/windows` checks the folder again when it opens a file in it.
"""

import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

_VARIABLE = "WEIR_WINDOWS"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "weir-"
_NAME = re.compile(rf"{_PREFIX}(?P<uid>0|[1-9][0-9]{{0,9}})(?P<ending>\.[a-z0-9_]+)?", re.ASCII)
_FOLDERS_MAX = 1024
"""Most folders whose windows are read."""
_ENTRIES_MAX = 1_000_000
"""Most entries of the shared memory that are looked at: they take a second, and more are told as a problem."""
_FURTHER_MAX = 4
"""Most folders of a user beside the usual one: a user with many cannot take the places of others in `_FOLDERS_MAX`."""


def variables(present: Mapping[str, str]) -> dict[str, str]:
    """Choose the folder in which the programs of this user count, and make it unless the user chose it.

    Args:
        present: Variables by their names. WEIR_WINDOWS in them names another folder, or none.

    Returns:
        WEIR_WINDOWS, with a folder or `off`.
    """
    chosen = present.get(_VARIABLE)
    if chosen and _uid_of(Path(chosen)) is None:
        return {_VARIABLE: chosen}
    # The folder of a user may come from a program of another user, or from one that ran while a name was taken.
    return {_VARIABLE: str(_own_folder(os.geteuid()))}


def problem(present: Mapping[str, str]) -> str | None:
    """Find out whether programs of this user count in the usual or the chosen folder.

    Args:
        present: Variables of a program, with that of `variables`.

    Returns:
        The folder that is not used, the reason, and the one in its place; None where nothing is wrong.
    """
    own, path = os.geteuid(), Path(present[_VARIABLE])
    if not path.is_absolute():
        return None
    why = _unfit(path, own)
    if why is not None:
        return f"operations are not counted: {path} is not used for windows, because {why}"
    usual = _usual(own)
    why = _unfit(usual, own)
    if why is not None and path in _further(own, _named()[0]):
        return f"operations are counted in {path}: {usual} is not used for windows, because {why}"
    return None


def readable() -> tuple[list[tuple[Path, int]], str | None]:
    """List the folders whose windows this process may read: those of this user, for the superuser those of all users.

    Returns:
        The folders, each with the user who must own it, and the reason for which some may be missing.
    """
    own, chosen = os.geteuid(), os.environ.get(_VARIABLE)
    if chosen and Path(chosen).is_absolute() and _uid_of(Path(chosen)) is None:
        found = {Path(chosen): own}
        if own != 0:
            return list(found.items()), None
    else:
        found = {}
    named, problem = _named()
    further = _further(own, named)
    usual = [] if further and _unfit(_usual(own), own) else [_usual(own)]
    found |= dict.fromkeys([*usual, *further], own)
    if own == 0:
        found |= _of_others(named)
    return list(found.items())[:_FOLDERS_MAX], problem


def _of_others(named: Iterable[tuple[Path, int]]) -> dict[Path, int]:
    """The folders of all users but the superuser, a bounded number of each."""
    found: dict[Path, int] = {}
    counts: Counter[int] = Counter()
    for path, uid in named:
        if uid != 0 and counts[uid] <= _FURTHER_MAX and _belongs(path, uid):
            counts[uid] += 1
            found[path] = uid
    return found


def _own_folder(uid: int) -> Path:
    """The folder of this user, which is made where it is missing: the usual one, or another where that is not fit."""
    usual = _usual(uid)
    with suppress(OSError):
        usual.mkdir(mode=stat.S_IRWXU)
    if _unfit(usual, uid) is None:
        return usual
    further = _further(uid, _named()[0])
    if not further:
        with suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=f"{usual.name}.", dir=_SHARED_MEMORY))
            # Another process of this user may have made one at the same time: all later ones take the first.
            further = _further(uid, _named()[0])
            if further and further[0] != made:
                made.rmdir()
    return next(iter(further), usual)


def _further(uid: int, named: Iterable[tuple[Path, int]]) -> list[Path]:
    """The fit folders of a user with an ending, the first few."""
    found = [path for path, of in named if of == uid and path != _usual(uid)]
    return list(islice((path for path in found if _unfit(path, uid) is None), _FURTHER_MAX))


def _named() -> tuple[list[tuple[Path, int]], str | None]:
    """The entries of the shared memory that are named as folders of windows, in order, each with its user.

    Beside them is the reason for which some may be missing.
    """
    problem = None
    try:
        with os.scandir(_SHARED_MEMORY) as entries:
            names = sorted(entry.name for entry in islice(entries, _ENTRIES_MAX) if _NAME.fullmatch(entry.name))
            if next(entries, None) is not None:
                problem = f"{_SHARED_MEMORY} has over {_ENTRIES_MAX} entries, so windows of some users may be missing"
    except OSError as error:
        return [], f"{_SHARED_MEMORY} cannot be read: {error.strerror}"
    paths = [_SHARED_MEMORY / name for name in names]
    return [(path, uid) for path in paths if (uid := _uid_of(path)) is not None], problem


def _usual(uid: int) -> Path:
    return _SHARED_MEMORY / f"{_PREFIX}{uid}"


def _uid_of(path: Path) -> int | None:
    """The user for whose windows a folder is named; None for a folder of another name, or elsewhere."""
    found = _NAME.fullmatch(path.name) if path.parent == _SHARED_MEMORY else None
    return None if found is None else int(found["uid"])


def _belongs(path: Path, uid: int) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid


def _unfit(path: Path, uid: int) -> str | None:
    """The reason for which programs of a user do not count in a folder; None where they do, or would make it."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid != uid:
        return "it belongs to another user"
    return "others may use it" if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) else None
