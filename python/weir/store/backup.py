"""A backup of a store's metadata: the journals of the servers on this host, and the files that a new home needs.

It is taken while the store runs. A journal's logs only grow, and their groups have consecutive numbers, so a copy of a
journal is the journal of a server that was killed in the moment of the copy (docs/design/journal.md). Each server is
consistent for itself; what was under way between two servers goes on when both are up again.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from weir.store import cluster, restored
from weir.store.configuration import Configuration, is_shaped, read_toml
from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.home import Home
from weir.ways import check_closed, open_believed, write_whole

Told = Callable[[str, int, int], None]
"""Takes the name of a step, the parts of it that are done, and all parts."""
_VERSION = 1
_MANIFEST = "manifest.json"
_MANIFEST_BYTES_MAX = 16 << 20
_JOURNAL_FILE = r"(?:log|snapshot)-[0-9a-f]{16}-[0-9a-f]{8}|durable"
_MEMBER = re.compile(
    r"site\.key|cluster\.toml|identities/\d{1,4}|"
    rf"servers/\d{{1,4}}/(?:settings\.json|audit\.log|journal/(?:{_JOURNAL_FILE}))"
)
"""Names of the files in a backup beside the manifest."""
_OWN = ("settings.json", "audit.log")
"""Files of a server beside its journal. A copy of one is whole, or its reader leaves out a line without an end."""
_LARGE = re.compile(r"servers/\d+/journal/.*")
_RESTORED = "restored"
"""File by which a journal's owner consents that it is older than the stamps of the store's folders know."""
_SMALL_BYTES_MAX = 16 << 20
"""Largest file of a backup that is no part of a journal."""
_TRIES = 20
"""Copies of a journal that are begun: a snapshot, which removes the logs before it, comes once in 32 MiB of changes."""
_BLOCK_BYTES = 1 << 20
_HINT = "keep backups in a folder of your own or of root"


@dataclass(frozen=True)
class Taken:
    """A backup.

    Attributes:
        path: The file.
        servers: Numbers of the servers whose journals it has.
        size_bytes: Bytes of the file.
        taken_seconds: Unix time of the backup.
    """

    path: Path
    servers: tuple[int, ...]
    size_bytes: int
    taken_seconds: float


def take(home: Home, path: Path, *, told: Told = lambda _step, _done, _parts: None) -> Taken:
    """Write a backup of the metadata of the servers on this host; the store may run.

    Args:
        path: The file, which must not exist. It has the site's key, so its owner alone may read it.
        told: Called with the step, its bytes that are done, and all of them.

    Raises:
        WayError: Another user could change the way to the file, and so get the key.
        StoreError: The home has no journals, the file exists, or journals change too fast to be copied.
        OSError: A file cannot be read or written.
    """
    numbers = [number for number in home.server_numbers() if (home.server(number) / "journal").is_dir()]
    if not numbers:
        raise StoreError(
            f"no server in {home.root} has a journal: a store with a target in memory keeps no metadata",
            hint="name the home of a store on directories",
        )
    check_closed(path.parent, hint=_HINT)
    if os.path.lexists(path):
        raise StoreError(f"{path} is there already", hint="name a new file")
    spool = path.with_name(f".{path.name}.{os.getpid()}")
    spool.mkdir(0o700)
    try:
        with home.locked():
            _gather(home, numbers, spool, told)
        taken = time.time()
        unfinished = spool / "backup.tar"
        _pack(spool, unfinished, {"version": _VERSION, "taken_seconds": taken, "servers": numbers}, told)
        unfinished.rename(path)
        _sync_folder(path.parent)
        return Taken(path, tuple(numbers), path.stat().st_size, taken)
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def restore(home: Home, path: Path) -> Taken:
    """Put the metadata of a backup into a home whose store is down; the next start goes on from it.

    The journals that lie there are kept beside the restored ones, as `journal.replaced-TIME`.

    Args:
        home: A new home, or that of the same store.
        path: The backup.

    Raises:
        WayError: Another user could have written the file, and would know the key of the store.
        StoreError: The file is no whole backup, the store is up, or the home is another store's. Nothing is changed.
        OSError: A file cannot be read or written.
    """
    with _opened(path) as archive:
        manifest = _manifest(archive, path)
        home.create()
        with home.locked():
            if home.cluster.is_file() and not cluster.is_down(home):
                raise StoreError(f"the store in {home.root} is up", hint="end it before: `weir down`")
            spool = home.root / f".restore.{os.getpid()}"
            spool.mkdir(0o700)
            try:
                _unpack(archive, manifest, spool, path)
                _check_same(home, spool)
                # It comes first: the next start looks at the whole tree also where this process ends half-way.
                restored.remember(home, manifest["servers"], manifest["taken_seconds"])
                _put(home, spool, manifest)
            finally:
                shutil.rmtree(spool, ignore_errors=True)
    return Taken(path, tuple(manifest["servers"]), path.stat().st_size, manifest["taken_seconds"])


def holds_journals(home: Home) -> bool:
    """Decide whether a restore would replace journals.

    Returns:
        Whether any server has a journal there.
    """
    return any((home.server(number) / "journal").is_dir() for number in home.server_numbers())


def _gather(home: Home, numbers: list[int], spool: Path, told: Told) -> None:
    for source in (home.site_key, home.configuration):
        shutil.copyfile(source, spool / source.name)
    for number in numbers:
        folder = spool / "servers" / str(number)
        folder.mkdir(parents=True)
        if home.identity(number).exists():
            (spool / "identities").mkdir(exist_ok=True)
            shutil.copyfile(home.identity(number), spool / "identities" / str(number))
        for name in _OWN:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(home.server(number) / name, folder / name)
        for _ in range(_TRIES):
            shutil.rmtree(folder / "journal", ignore_errors=True)
            if _copied(home.server(number) / "journal", folder / "journal", partial(told, f"copies journal {number}")):
                break
        else:
            raise StoreError(
                f"the journal of server {number} changed during each of {_TRIES} copies",
                hint="take the backup when fewer files are made, or after `weir down`",
            )


def _copied(source: Path, target: Path, told: Callable[[int, int], None]) -> bool:
    """Copy a journal; tell whether the copy is whole: whether no file was removed meanwhile."""
    target.mkdir()
    form = re.compile(_JOURNAL_FILE)
    # The mark comes first: it never promises more than the logs have, as they are found after it.
    first = source / "durable"
    try:
        if first.exists():
            shutil.copyfile(first, target / first.name)
        names = sorted(entry.name for entry in source.iterdir() if form.fullmatch(entry.name) and entry != first)
        # The logs from the oldest to the newest, so that the copy ends where the newest one ended.
        done, parts = 0, sum((source / name).stat().st_size for name in names)
        for name in sorted(names, key=lambda name: name.partition("-")[2]):
            told(done, parts)
            shutil.copyfile(source / name, target / name)
            done += (target / name).stat().st_size
    except FileNotFoundError:
        return False
    return all((source / name).exists() for name in names)


def _pack(spool: Path, archive: Path, manifest: dict[str, Any], told: Told) -> None:
    files = sorted(path for path in spool.rglob("*") if path.is_file())
    names = {path: str(path.relative_to(spool)) for path in files}
    described = {name: {"bytes": path.stat().st_size, "sha256": digest_of(path)} for path, name in names.items()}
    text = json.dumps({**manifest, "files": described}, indent=1) + "\n"
    (spool / _MANIFEST).write_text(text)
    with os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as packed:
            packed.add(spool / _MANIFEST, _MANIFEST)
            done, parts = 0, sum(path.stat().st_size for path in files)
            for path, name in names.items():
                told("packs", done, parts)
                packed.add(path, name)
                done += path.stat().st_size
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the names of a folder to stable storage: a reported backup is there after a power loss, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(path: Path) -> str:
    """Compute the SHA-256 of a file.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with open_believed(path, secret=True, hint=_HINT) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            yield archive
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _no_backup(path, str(error)) from error


def _no_backup(path: Path, reason: str) -> StoreError:
    return StoreError(f"{path} is no whole backup: {reason}", hint="name a file that `weir backup` wrote")


def _manifest(archive: tarfile.TarFile, path: Path) -> dict[str, Any]:
    first = archive.next()
    if first is None or first.name != _MANIFEST or not first.isreg() or first.size > _MANIFEST_BYTES_MAX:
        raise _no_backup(path, "it has no manifest")
    try:
        manifest = json.loads(_content(archive, first).read())
        if manifest["version"] != _VERSION:
            raise ValueError(f"its version is {manifest['version']}, and this program reads {_VERSION}")
        float(manifest["taken_seconds"])
        names, servers = dict(manifest["files"]), [int(number) for number in manifest["servers"]]
        if not servers or {"site.key", "cluster.toml"} - names.keys():
            raise ValueError("it lacks files")
        if any(f"servers/{number}/" not in "\n".join(names) for number in servers):
            raise ValueError("it lacks a server")
        for name, described in names.items():
            _check_described(name, described)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _no_backup(path, str(error)) from error
    return {**manifest, "servers": servers, "taken_seconds": float(manifest["taken_seconds"])}


def _check_described(name: object, described: dict[str, Any]) -> None:
    if not isinstance(name, str) or _MEMBER.fullmatch(name) is None:
        raise ValueError(f"{name} has no place in a store")
    size, digest = described["bytes"], described["sha256"]
    if not isinstance(size, int) or not isinstance(digest, str) or size < 0:
        raise ValueError(f"{name} is not described")
    if _LARGE.fullmatch(name) is None and size > _SMALL_BYTES_MAX:
        raise ValueError(f"{name} has {size} bytes")


def _unpack(archive: tarfile.TarFile, manifest: dict[str, Any], spool: Path, path: Path) -> None:
    """Write the files of a backup into a folder, each as large and with the digest that the manifest says."""
    missing = dict(manifest["files"])
    for member in archive:
        if member.name == _MANIFEST:
            continue
        described = missing.pop(member.name, None)
        # Holes of a sparse member are not in the archive, and have no end.
        is_plain = member.isreg() and not member.issparse()
        if described is None or not is_plain or member.size != described["bytes"]:
            raise _no_backup(path, f"{member.name!r} is not as its manifest says")
        target = spool / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            shutil.copyfileobj(_content(archive, member), file, _BLOCK_BYTES)
            file.flush()
            os.fsync(file.fileno())
        if digest_of(target) != described["sha256"]:
            raise _no_backup(path, f"{member.name} is damaged")
    if missing:
        raise _no_backup(path, f"{min(missing)} is missing")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None, "regular files have contents"
    return content


def _check_same(home: Home, spool: Path) -> None:
    """Refuse a home that is another store's."""
    key = home.read_site_key()
    if key is not None and key != (spool / "site.key").read_text():
        raise StoreError(f"{home.root} is the home of another store", hint="choose a new `home`, or that of the backup")
    restored = read_toml(spool / "cluster.toml")
    if not is_shaped(restored):
        raise StoreError("the backup's cluster.toml has no servers", hint="name a file that `weir backup` wrote")
    stored = cluster.stored(home)
    if stored is not None and stored.shape() != Configuration(restored).shape():
        if key is None:
            raise StoreError(
                f"{home.root} has other servers and targets than the backup",
                hint="take the backup of this store, or choose a new `home`",
            )
        now, then = _counts(stored), _counts(Configuration(restored))
        raise StoreError(
            f"the store of {home.root} has changed since the backup: it has {now}, and had {then}",
            hint="take the newest backup: after each server or target that joins, a new backup is needed",
        )


def _counts(configuration: Configuration) -> str:
    return f"{len(configuration.servers)} servers with {len(configuration.targets())} targets"


def _put(home: Home, spool: Path, manifest: dict[str, Any]) -> None:
    replaced = f"journal.replaced-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    for number in manifest["servers"]:
        source, target = spool / "servers" / str(number), home.server(number)
        (source / "journal").mkdir(mode=0o700, exist_ok=True)
        target.mkdir(mode=home.passage, parents=True, exist_ok=True)
        target.chmod(home.passage)
        if (target / "journal").exists():
            (target / "journal").rename(target / replaced)
        (source / "journal").chmod(0o700)
        write_whole(source / "journal" / _RESTORED, "")
        identity = spool / "identities" / str(number)
        # The stamp of a home that is there knows of later starts.
        if identity.exists() and not home.identity(number).exists():
            make_folder(home.identities, 0o700)
            identity.rename(home.identity(number))
        (source / "journal").rename(target / "journal")
        if (source / "settings.json").exists():
            (source / "settings.json").replace(target / "settings.json")
        # An audit that is there has all entries of the older one.
        if (source / "audit.log").exists() and not (target / "audit.log").exists():
            (source / "audit.log").replace(target / "audit.log")
    write_whole(home.site_key, (spool / "site.key").read_text())
    if not home.configuration.exists():
        write_whole(home.configuration, (spool / "cluster.toml").read_text())
