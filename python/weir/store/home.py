"""The state directory of a store: its files, and their readers.

A store that root brings up is for every user: its home may be passed through (0711), and each file in it has a mode of
its own. Any other user's home is private (0700).
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.ownership import HINT, check_own
from weir.ways import check_closed

SYSTEM = Path("/run/weir")
"""Place where root's store is announced when other users cannot pass through its home."""

_RESERVE_BYTES = 64 << 10
_RESERVE_SERVER_BYTES = 32 << 10
"""Room for the files that commands write into a home, and for each server. They are small files, each in a block of its
own, of which two versions lie there for a moment."""

_LOCK_SECONDS = 150.0
"""Longest wait for another command that changes the same home: the start of a store takes less."""


@dataclass(frozen=True)
class Home:
    """Paths below the state directory."""

    root: Path

    @staticmethod
    def at(chosen: str | None) -> "Home":
        """Find a home.

        Args:
            chosen: Path of the home; None or empty is the place that the XDG base directories give.

        Returns:
            The home, which need not exist.
        """
        if chosen:
            return Home(Path(chosen).expanduser().absolute())
        state = os.environ.get("XDG_STATE_HOME")
        # A relative XDG_STATE_HOME is ignored (XDG base directory specification, "Basics").
        base = Path(state) if state and Path(state).is_absolute() else Path("~/.local/state").expanduser()
        return Home(base / "weir")

    @property
    def site_key(self) -> Path:
        """The site's key: 64 hexadecimal digits, readable by the owner alone."""
        return self.root / "site.key"

    @property
    def lock(self) -> Path:
        """The file that a command locks while it changes the home."""
        return self.root / "lock"

    @property
    def configuration(self) -> Path:
        """The resolved cluster.toml that the servers run with."""
        return self.root / "cluster.toml"

    @property
    def cluster(self) -> Path:
        """Addresses of the servers; the file is there exactly while the store is up."""
        return self.root / "cluster.json"

    @property
    def servers(self) -> Path:
        """The folder with one folder for each server."""
        return self.root / "servers"

    @property
    def identities(self) -> Path:
        """The folder with each server's stamp, by which the server knows its other folders."""
        return self.root / "identities"

    @property
    def credentials(self) -> Path:
        """The folder of credential files, each readable by its bearer."""
        return self.root / "credentials"

    @property
    def mounts(self) -> Path:
        """The folder with one record for each mount."""
        return self.root / "mounts"

    @property
    def mount_point(self) -> Path:
        """The mount point that `weir up` uses when no other is given."""
        return self.root / "mnt"

    @property
    def step_journals(self) -> Path:
        """The folder of the journals of adaptive readers."""
        return self.root / "adaptive"

    @property
    def placement_journals(self) -> Path:
        """The folder of the journals of placed runs and of moves."""
        return self.root / "placement"

    @property
    def reserve(self) -> Path:
        """Room for the commands that change the home, so that a store on a full disk comes up."""
        return self.root / "reserve"

    def server(self, number: int) -> Path:
        """Name the folder of a server."""
        return self.servers / str(number)

    def identity(self, number: int) -> Path:
        """Name the stamp of a server, which the server writes in its first run."""
        return self.identities / str(number)

    def record(self, number: int) -> Path:
        """Name the record of a server's process."""
        return self.server(number) / "pid"

    def address(self, number: int) -> Path:
        """Name the file of a server's addresses, which the server writes once it listens."""
        return self.server(number) / "address.json"

    def arriving(self, number: int) -> Path:
        """Name the folder of the files of a server that come here from another host."""
        return self.servers / f"{number}.arriving"

    def sealed(self, number: int) -> Path:
        """Name the folder of a server that went to another host: while it is there, the server cannot start here."""
        return self.servers / f"{number}.sealed"

    def log(self, number: int) -> Path:
        """Name the log of a server."""
        return self.server(number) / "log"

    def server_numbers(self) -> list[int]:
        """Find the servers that have a folder.

        Returns:
            Numbers of the servers, in ascending order.
        """
        if not self.servers.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.servers.iterdir() if entry.name.isdecimal())

    def exists(self) -> bool:
        """Decide whether the folder is a home, and not something else that was named by mistake.

        Returns:
            Whether a lock or a key lies there.
        """
        return any(path.is_file() for path in (self.lock, self.site_key))

    def create(self) -> None:
        """Make the home and its folders.

        Raises:
            WayError: Other users could make the way lead elsewhere.
            StoreError: The folder is something else, which must not be touched; or other users could change its
                contents.
            OSError: A folder cannot be made.
        """
        check_closed(self.root, hint=HINT)
        if self.root.is_dir():
            if any(self.root.iterdir()) and not self.exists():
                raise not_a_home(self.root)
            self._check()
            self._close()
        else:
            make_folder(self.root, self.passage)
        # The lock comes first, so that a second command that finds any file here also finds that this is a home.
        os.close(self._open_lock())
        for folder in (self.servers, self.credentials):
            make_folder(folder, self.passage)
        # A user of the store may know its mount points.
        make_folder(self.mounts, self.passage | 0o044 if self.passage & 0o011 else self.passage)

    def remove_empty(self) -> None:
        """Remove the folders that `create` made, where nothing lies in the home."""
        for folder in (self.mount_point, self.mounts, self.credentials, self.servers):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            left = {entry.name for entry in self.root.iterdir()}
            if self.lock.name in left and left <= {self.lock.name, self.reserve.name}:
                self.reserve.unlink(missing_ok=True)
                self.lock.unlink()
                self.root.rmdir()

    def _check(self) -> None:
        """Refuse a home that another user may have prepared: a user who knows the key could be every user of the
        store.
        """
        check_own(self.root)
        check_own(self.site_key, secret=True)
        files = (self.lock, self.configuration, self.cluster)
        own = (self.servers, self.identities, self.credentials, self.mounts)
        folders = (*own, *map(self.server, self.server_numbers()))
        for path in (*files, *folders):
            check_own(path)

    def _close(self) -> None:
        """Take from the folders of an earlier home all rights of others but the right to pass through."""
        for folder in (self.root, *map(self.server, self.server_numbers())):
            mode = stat.S_IMODE(folder.stat().st_mode)
            if mode & 0o077 & ~self.passage:
                folder.chmod(mode & (0o700 | self.passage))

    @property
    def passage(self) -> int:
        """Mode of the home's folders: 0711 for root's home, else 0700."""
        return 0o711 if os.geteuid() == 0 else 0o700

    def check_owner(self) -> None:
        """Refuse a home that another user could change: whoever changes a home believes its records, and root would end
        the processes that another user wrote down.

        Raises:
            WayError: Other users could make the way lead elsewhere.
            StoreError: Another user owns the home, or others could change it.
        """
        check_closed(self.root, hint=HINT)
        check_own(self.root)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home against every other command that changes it, for the length of a block.

        Yields:
            Nothing.

        Raises:
            WayError: Other users could make the way lead elsewhere.
            StoreError: Another command held the home for too long, or another user owns it.
            OSError: The lock cannot be opened.
        """
        self.check_owner()
        with os.fdopen(self._open_lock(), "w") as lock:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StoreError(
                            f"another weir command has been changing {self.root} for {_LOCK_SECONDS:.0f} s",
                            hint="wait for it to end, or end it",
                        ) from None
                    time.sleep(0.05)
            self._give_reserve()
            try:
                yield
            finally:
                self._take_reserve()

    def _reserve_bytes(self) -> int:
        return _RESERVE_BYTES + _RESERVE_SERVER_BYTES * len(self.server_numbers())

    def _give_reserve(self) -> None:
        """Free the reserve where there is less room than the reserve has; with more room, others could take the freed
        blocks.
        """
        room = os.statvfs(self.root)
        if room.f_bavail * room.f_frsize < self._reserve_bytes():
            self.reserve.unlink(missing_ok=True)

    def _take_reserve(self) -> None:
        """Reserve the room that the next command may need, or a part of it, where a store lies here."""
        if not self.configuration.is_file():
            return
        wanted = self._reserve_bytes()
        with contextlib.suppress(OSError):
            descriptor = os.open(self.reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                while wanted > os.fstat(descriptor).st_size and not _allocated(descriptor, wanted):
                    wanted //= 2
            finally:
                os.close(descriptor)

    def _open_lock(self) -> int:
        """Open the lock file, which only its owner can: a user who may read a file may lock it, and keep it locked."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def is_passable(self) -> bool:
        """Decide whether other users can reach files in the home by name.

        Returns:
            Whether every folder on the way lets them pass.
        """
        return all(folder.stat().st_mode & 0o001 for folder in (self.root, *self.root.parents))

    def announcement(self) -> Path | None:
        """Find the folder for the copy of cluster.json that other users read.

        Returns:
            The folder; None where other users need no copy.
        """
        if os.geteuid() != 0 or self.is_passable():
            return None
        if self.root == Home.at(None).root:
            return SYSTEM
        return SYSTEM / self.root.as_posix().strip("/").replace("-", "--").replace("/", "-")

    def owns(self, cluster: Path) -> bool:
        """Decide whether a store is this home's, so that this home's key is the store's key.

        Args:
            cluster: The store's cluster.json.

        Returns:
            Whether the file is this home's own, or its announced copy.
        """
        # A home that is not there has announced nothing.
        folder = self.announcement() if self.root.is_dir() else None
        return cluster == self.cluster or (folder is not None and cluster == folder / "cluster.json")

    def read_site_key(self) -> str | None:
        """Read the site's key.

        Returns:
            The key; None where there is none, or where this user may not read it.
        """
        try:
            return self.site_key.read_text()
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return None


def _allocated(descriptor: int, size: int) -> bool:
    """Whether the file has room for `size` bytes on its device now."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True


def not_a_home(folder: Path) -> StoreError:
    """Make the error of a folder with foreign files, which must not be touched."""
    return StoreError(
        f"{folder} is not empty, and not the home of a store",
        hint="name an empty or a new folder with `home` or WEIR_HOME",
    )


def find_cluster(home: Home) -> Path:
    """Find the cluster.json that commands of this process use.

    Returns:
        Path of the file that WEIR_CLUSTER names, else the home's file, else that of the machine's store.

    Raises:
        StoreError: No store is up there.
    """
    chosen = os.environ.get("WEIR_CLUSTER")
    if chosen:
        path = Path(chosen).absolute()
        if not os.access(path, os.R_OK):
            raise StoreError(f"WEIR_CLUSTER={chosen} cannot be read", hint="is the store up? see `weir status`")
        return path
    for path in (home.cluster, SYSTEM / "cluster.json"):
        if os.access(path, os.R_OK):
            return path
    raise StoreError(
        f"no store is up in {home.root}",
        hint="start one with `weir up`, or set WEIR_HOME or WEIR_CLUSTER to one that is up",
    )
