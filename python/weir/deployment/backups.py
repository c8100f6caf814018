"""Backups of the metadata of all servers of a store, fetched to the host that the store was deployed from.

Each host takes its own, while the store runs, and gives it in parts. All backups are there in the end, or none.
"""

import base64
import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from weir.deployment import asking, operations
from weir.deployment.operations import BackupPart
from weir.deployment.record import Record
from weir.store.backup import Taken, digest_of
from weir.store.errors import StoreError
from weir.ways import check_closed

_PART_BYTES = 24 << 20
"""Bytes of a backup in one document, which has them in base64 and is limited to 64 MiB."""
_ROUNDS_MAX = 4096
"""Most documents of one backup: journals of about 100 GB."""


def take_all(described: Record, path: Path) -> dict[str, Taken]:
    """Write a backup of each host with servers; the store may run.

    Args:
        path: Path of the backups; the name of its host is added to each.

    Returns:
        The backup of each host, by the host's name.

    Raises:
        WayError: Another user could change the way to the files, and so get the key.
        StoreError: A host has no journal or does not answer, or a file exists. No backup is left.
        OSError: A file cannot be written.
    """
    paths = {part.host: path.with_name(f"{path.name}.{part.host}") for part in described.members if part.servers}
    check_closed(path.parent, hint="keep backups in a folder of your own or of root")
    for each in paths.values():
        if os.path.lexists(each):
            raise StoreError(f"{each} is there already", hint="name a new file")
    token = secrets.token_hex(8)
    unfinished = {host: each.with_name(f".{each.name}.{token}") for host, each in paths.items()}
    try:
        firsts = _fetch(described, token, unfinished)
        for host, each in unfinished.items():
            if digest_of(each) != firsts[host].digest:
                raise StoreError(f"the backup of {host} was damaged on its way", hint="take it again")
        for host, each in unfinished.items():
            each.rename(paths[host])
        return {
            host: Taken(paths[host], first.servers, first.size, first.taken_seconds) for host, first in firsts.items()
        }
    finally:
        for each in unfinished.values():
            each.unlink(missing_ok=True)
        # One that is left on a host goes with the next backup there.
        with contextlib.suppress(StoreError):
            asking.ask(described.reach(), operations.BACKUP, _requests(described, token, dict.fromkeys(paths, 0), True))


def _fetch(described: Record, token: str, files: Mapping[str, Path]) -> dict[str, BackupPart]:
    """Have the hosts take their backups, and write the parts into files; answers the first part of each."""
    have = dict.fromkeys(files, 0)
    firsts: dict[str, BackupPart] = {}
    for _ in range(_ROUNDS_MAX):
        wanted = {host: offset for host, offset in have.items() if host not in firsts or offset < firsts[host].size}
        if not wanted:
            return firsts
        requests = _requests(described, token, wanted, False)
        for host, part in asking.ask_all(described.reach(), operations.BACKUP, requests).items():
            try:
                data = base64.b64decode(part.data, validate=True)
            except ValueError as error:
                raise StoreError(f"{host} sent a damaged part of its backup: {error}", hint="take it again") from error
            if not data:
                raise StoreError(f"{host} sends no more of its backup", hint="take it again")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(files[host], flags, 0o600), "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            firsts.setdefault(host, part)
            have[host] += len(data)
    raise StoreError("the backups are too long to be fetched", hint="call `weir backup` on each host")


def _requests(
    described: Record, token: str, offsets: Mapping[str, int], ends: bool
) -> dict[str, operations.BackupRequest]:
    return {
        host: operations.BackupRequest(described.home, described.deployment, token, offset, _PART_BYTES, ends)
        for host, offset in offsets.items()
    }
