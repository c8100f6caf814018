"""A host's part in the upkeep of a store: the ends of its logs, and a backup of its servers' metadata."""

import base64
import contextlib
import re
import time
from pathlib import Path

from weir.deployment import operations
from weir.deployment.member import part_of
from weir.store import backup as metadata
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.log_files import logs_of, text_of

_LOGS_BYTES_MAX = 16 << 20
"""Most bytes of logs in an answer, which is limited to 64 MiB."""
_TOKEN = re.compile(r"[a-z0-9]{1,64}")
_FORGOTTEN_SECONDS = 3600.0
"""Age from which a backup here is one that nobody fetches any more: the command that asked for it has died."""


def logs(request: operations.LogsRequest) -> operations.Logs:
    """Show the last lines of logs.

    Args:
        request: The servers, and whether the mounts are wanted, too.

    Returns:
        The last lines of each log that exists.

    Raises:
        StoreError: The home has no part of the store.
        OSError: A log cannot be read.
    """
    home = Home.at(request.home)
    part = part_of(home, request.deployment)
    found = logs_of(home, [number for number in part.servers if number in request.servers], with_mounts=request.mounts)
    ends = []
    for log in found:
        with contextlib.closing(log):
            lines = [text_of(line) for line in log.last(request.lines)]
        ends.append(operations.LogEnd(log.name, _newest(lines, _LOGS_BYTES_MAX // len(found))))
    return operations.Logs(tuple(ends))


def backup(request: operations.BackupRequest) -> operations.BackupPart:
    """Take a backup of the metadata of the host's servers, and give it in parts.

    Args:
        request: The part that is wanted; the first one takes the backup.

    Returns:
        The part. The first one tells what the backup has.

    Raises:
        StoreError: The home has no part of the store, no server here has a journal, or there is no such backup.
        OSError: A file cannot be read or written.
    """
    home = Home.at(request.home)
    part_of(home, request.deployment)
    if not _TOKEN.fullmatch(request.token):
        raise StoreError(f"{request.token!r} is no name of a backup", hint="it has small letters and digits")
    path = home.root / f".backup.{request.token}"
    if request.ends:
        path.unlink(missing_ok=True)
        return operations.BackupPart((), 0, "", 0.0, "")
    if request.offset > 0:
        return operations.BackupPart((), path.stat().st_size, "", 0.0, _data(path, request))
    _forget_old(home)
    taken = metadata.take(home, path)
    size, digest = path.stat().st_size, metadata.digest_of(path)
    return operations.BackupPart(taken.servers, size, digest, taken.taken_seconds, _data(path, request))


def _data(path: Path, request: operations.BackupRequest) -> str:
    with path.open("rb") as file:
        file.seek(request.offset)
        return base64.b64encode(file.read(request.bytes_max)).decode()


def _forget_old(home: Home) -> None:
    for path in home.root.glob(".backup.*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _FORGOTTEN_SECONDS:
                path.unlink()


def _newest(lines: list[str], bytes_max: int) -> tuple[str, ...]:
    """The last lines that have room."""
    kept: list[str] = []
    for line in reversed(lines):
        bytes_max -= len(line.encode()) + 1
        if bytes_max < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))
