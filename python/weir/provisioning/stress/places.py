"""Places where kernels run: a store that is up for them, or a folder of their own on a mounted path.

Every place is written down in the folder of the run before it is made. So a run that was killed leaves no store behind:
the next one takes it down, and removes files of kernels alone.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.stress.kernels import KERNELS
from weir.provisioning.stress.systems import LAYOUT_SETTINGS, Candidate
from weir.ways import write_whole

PREFIX = "/weir"
"""Path at which the kernels see a store: by the preload library, so that no mount is needed."""
JOB = "stress"
_RECORD = "place.json"
_FOLDER_PREFIX = "weir-stress-"
_HOME = "home"
_MARGIN_BYTES = 64 << 20
"""Room of each target beyond its part of the kernels' bytes: stripes do not fall evenly."""
_MEBIBYTE = 1 << 20
_NAMES = re.compile(rf"(?:{'|'.join(map(re.escape, KERNELS))})-(?:\d+|shared)", re.ASCII)
"""Names that kernels give to files, and mdtest to folders."""
_MDTEST_NAMES = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True)
class Place:
    """A place for kernels."""

    folder: str
    environment: Mapping[str, str]
    """Variables of the processes."""
    capacity_bytes: int | None
    """Room of a mounted path; None for a store, whose room was chosen for the kernels."""
    is_private: bool
    """Whether the folder is this user's and closed to others."""


@contextlib.contextmanager
def place(candidate: Candidate, *, space_bytes: int, out: Path, scratch: Path | None) -> Iterator[Place]:
    """Make the place of a system under test, for the length of a block.

    Args:
        space_bytes: Bytes that a kernel takes at most.
        out: Folder of the run.
        scratch: Folder in which stores have their homes; None is that of temporary files.

    Yields:
        The place.

    Raises:
        ProvisioningError: The path has not the room, or the folder cannot be made.
        WeirError: The store does not come up; nothing of it is left.
    """
    if candidate.path is None:
        with _store(candidate, space_bytes, out, scratch) as made:
            yield made
    else:
        with _folder(candidate.path, space_bytes, out) as made:
            yield made


def remove_left(out: Path) -> None:
    """Remove what a run that was killed has left: its store, or its files on a mounted path.

    Args:
        out: Folder of the run, which nobody else uses.

    Raises:
        ProvisioningError: Something is left that is not of a kernel.
        WeirError: The store cannot be taken down.
    """
    record = out / _RECORD
    try:
        document = json.loads(record.read_text())
        folder, is_store = Path(document["folder"]), bool(document["is_store"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise ProvisioningError(f"{record} is damaged: {error}", hint="remove it") from None
    if not folder.name.startswith(_FOLDER_PREFIX):
        raise ProvisioningError(f"{record} names {folder}, which no run made", hint="remove it")
    if is_store:
        _remove_store(folder)
    else:
        _remove_folder(folder)
    record.unlink(missing_ok=True)


@contextlib.contextmanager
def _store(candidate: Candidate, space_bytes: int, out: Path, scratch: Path | None) -> Iterator[Place]:
    import weir

    system = candidate.system
    folder = _planned(out, scratch or Path(tempfile.gettempdir()), is_store=True)
    try:
        settings: dict[str, Any] = dict(system.settings)
        layout = {name: settings.pop(name) for name in LAYOUT_SETTINGS if name in settings}
        interval = settings.pop("lambda_milliseconds", None)
        lines = ["version = 1", *([] if interval is None else [f"lambda_milliseconds = {int(interval)}"]), "[layout]"]
        lines += [f'stripe_size = "{layout["stripe_size"]}"'] if "stripe_size" in layout else []
        lines += [f"stripe_count = {int(layout['stripe_count'])}"] if "stripe_count" in layout else []
        file = folder / "cluster.toml"
        file.write_text("\n".join(lines) + "\n")
        share = -(-space_bytes // (system.servers * system.targets_per_server)) + _MARGIN_BYTES
        with (
            weir.store.up(
                file,
                home=folder / _HOME,
                mount=False,
                servers=system.servers,
                targets=system.targets_per_server,
                capacity=f"{-(-share // _MEBIBYTE)}MiB",
                **settings,
            ) as store,
            store.job(JOB, prefix=PREFIX) as variables,
        ):
            yield Place(PREFIX, variables, None, is_private=False)
    finally:
        remove_left(out)


@contextlib.contextmanager
def _folder(path: Path, space_bytes: int, out: Path) -> Iterator[Place]:
    from weir.store.environment import without_store

    try:
        room = os.statvfs(path)
        free = room.f_bavail * room.f_frsize
        if free < space_bytes:
            raise ProvisioningError(
                f"{path} has {free} bytes free, and the kernels need {space_bytes}",
                hint="make room, or give fewer `processes` or `bytes`",
            )
        folder = _planned(out, path, is_store=False)
    except OSError as error:
        raise ProvisioningError(f"cannot use {path}: {error.strerror}", hint="name a folder of your own") from None
    try:
        yield Place(str(folder), without_store(os.environ), free, is_private=True)
    finally:
        remove_left(out)


def _planned(out: Path, parent: Path, *, is_store: bool) -> Path:
    """Make a folder that nobody else may enter, once it is written down."""
    while True:
        folder = parent.absolute() / f"{_FOLDER_PREFIX}{os.urandom(6).hex()}"
        if not os.path.lexists(folder):
            break
    document = {"folder": str(folder), "is_store": is_store}
    write_whole(out / _RECORD, json.dumps(document) + "\n")
    folder.mkdir(mode=0o700)
    return folder


def _opened(folder: Path) -> int | None:
    """Open a folder of this user's that is none's link; None where it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProvisioningError(f"cannot remove {folder}: {error.strerror}", hint="remove it by hand") from None
    there = os.fstat(descriptor)
    if there.st_uid != os.geteuid() or stat.S_IMODE(there.st_mode) & 0o077:
        os.close(descriptor)
        raise ProvisioningError(f"{folder} is not as this run made it", hint="remove it by hand, if it is yours")
    return descriptor


def _remove_store(folder: Path) -> None:
    from weir.store import lifecycle
    from weir.store.home import Home

    descriptor = _opened(folder)
    if descriptor is None:
        return
    os.close(descriptor)
    lifecycle.remove(Home.at(str(folder / _HOME)))
    shutil.rmtree(folder, ignore_errors=True)


def _remove_folder(folder: Path) -> None:
    """Remove files by names that kernels give, and folders that are empty then."""
    descriptor = _opened(folder)
    if descriptor is None:
        return
    try:
        for name in [entry.name for entry in os.scandir(descriptor)]:
            if not _NAMES.fullmatch(name):
                continue
            if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                _remove_mdtest(descriptor, name)
            else:
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    try:
        folder.rmdir()
    except OSError as error:
        raise ProvisioningError(
            f"cannot remove {folder}: {error.strerror}", hint="other files may be in it: look, and remove it by hand"
        ) from None


def _remove_mdtest(parent: int, name: str) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for file in [entry.name for entry in os.scandir(descriptor)]:
            if _MDTEST_NAMES.fullmatch(file):
                os.unlink(file, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=parent)
