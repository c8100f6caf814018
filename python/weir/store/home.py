"""The state directory of a store: what lies where, and who may see it.

A store that root brings up is for every user: its home may be passed through (0711), each file in it says who may read
it. Any other user's home is private (0700).
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
from weir.store.ownership import check_own, check_way

SYSTEM = Path("/run/weir")
"""Where root's store is announced when its home cannot be passed through by other users."""

_RESERVE_BYTES = 64 << 10
_RESERVE_SERVER_BYTES = 32 << 10
"""Room for what commands write into a home, and for each server: small files, each in a block of its own, of which two
versions lie there for a moment."""

_LOCK_SECONDS = 30.0
"""How long a command waits for another one that changes the same home: starting a cluster is bounded by less."""


@dataclass(frozen=True)
class Home:
    """Paths below the state directory."""

    root: Path

    @staticmethod
    def at(chosen: str | None) -> "Home":
        """The home at `chosen`, else where the XDG base directories put it."""
        if chosen:
            return Home(Path(chosen).expanduser().absolute())
        state = os.environ.get("XDG_STATE_HOME")
        # A relative XDG_STATE_HOME is to be ignored (XDG base directory specification, "Basics").
        base = Path(state) if state and Path(state).is_absolute() else Path("~/.local/state").expanduser()
        return Home(base / "weir")

    @property
    def site_key(self) -> Path:
        """64 hexadecimal digits, readable by the owner alone."""
        return self.root / "site.key"

    @property
    def lock(self) -> Path:
        """Held by the command that changes the home."""
        return self.root / "lock"

    @property
    def configuration(self) -> Path:
        """The resolved cluster.toml that the servers run with."""
        return self.root / "cluster.toml"

    @property
    def cluster(self) -> Path:
        """Addresses of the servers; there exactly while the cluster is up."""
        return self.root / "cluster.json"

    @property
    def servers(self) -> Path:
        """One folder for each server."""
        return self.root / "servers"

    @property
    def credentials(self) -> Path:
        """Credential files, each readable by its bearer."""
        return self.root / "credentials"

    @property
    def mounts(self) -> Path:
        """One record for each mount."""
        return self.root / "mounts"

    @property
    def mount_point(self) -> Path:
        """The mount point that `weir up` uses when no other is given."""
        return self.root / "mnt"

    @property
    def reserve(self) -> Path:
        """Room that is kept for the commands that change the home, so that a store on a full disk comes up."""
        return self.root / "reserve"

    def server(self, number: int) -> Path:
        """The folder of one server."""
        return self.servers / str(number)

    def record(self, number: int) -> Path:
        """The process that serves as server `number`."""
        return self.server(number) / "pid"

    def address(self, number: int) -> Path:
        """Where server `number` listens; written by the server once it does."""
        return self.server(number) / "address.json"

    def log(self, number: int) -> Path:
        """What server `number` said."""
        return self.server(number) / "log"

    def server_numbers(self) -> list[int]:
        """Numbers of the servers that have a folder."""
        if not self.servers.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.servers.iterdir() if entry.name.isdecimal())

    def exists(self) -> bool:
        """Whether the folder is a home, and not something else that was named by mistake."""
        return any(path.is_file() for path in (self.lock, self.site_key))

    def create(self) -> None:
        """Make the home and its folders.

        Raises:
            StoreError: The folder is something else, and not to be touched; or others could change what is in it.
        """
        check_way(self.root)
        if self.root.is_dir():
            if any(self.root.iterdir()) and not self.exists():
                raise StoreError(
                    f"{self.root} is not empty, and not the home of a store",
                    hint="name an empty or a new folder with --home or WEIR_HOME",
                )
            self._check()
            self._close()
        else:
            make_folder(self.root, self.passage)
        # First of all, so that a second command that finds anything here also finds that it is a home.
        os.close(self._open_lock())
        for folder in (self.servers, self.credentials):
            make_folder(folder, self.passage)
        # Whoever may use the store may know where it is mounted.
        make_folder(self.mounts, self.passage | 0o044 if self.passage & 0o011 else self.passage)

    def _check(self) -> None:
        """Refuse a home that somebody else may have prepared: who knows its key is every user of its store."""
        check_own(self.root)
        check_own(self.site_key, secret=True)
        files = (self.lock, self.configuration, self.cluster)
        folders = (self.servers, self.credentials, self.mounts, *map(self.server, self.server_numbers()))
        for path in (*files, *folders):
            check_own(path)

    def _close(self) -> None:
        """Take from a home of before what others need not do there: pass through is all."""
        for folder in (self.root, *map(self.server, self.server_numbers())):
            mode = stat.S_IMODE(folder.stat().st_mode)
            if mode & 0o077 & ~self.passage:
                folder.chmod(mode & (0o700 | self.passage))

    @property
    def passage(self) -> int:
        """Mode of the home's folders: passed through by name, or private."""
        return 0o711 if os.geteuid() == 0 else 0o700

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home against every other command that changes it.

        Raises:
            StoreError: Another command held it for too long.
        """
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
        """Give up the reserve where there is less room than it stands for; else others may take what it gives up."""
        room = os.statvfs(self.root)
        if room.f_bavail * room.f_frsize < self._reserve_bytes():
            self.reserve.unlink(missing_ok=True)

    def _take_reserve(self) -> None:
        """Reserve what the next command may need, or what there is of it, where a store lies here."""
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
        """Open the lock file, which its owner alone can: whoever may read a file may lock it, and keep it locked."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def is_passable(self) -> bool:
        """Whether other users can reach files in the home by name."""
        return all(folder.stat().st_mode & 0o001 for folder in (self.root, *self.root.parents))

    def announcement(self) -> Path | None:
        """The folder for the copy of cluster.json that other users read, where they need one."""
        if os.geteuid() != 0 or self.is_passable():
            return None
        if self.root == Home.at(None).root:
            return SYSTEM
        return SYSTEM / self.root.as_posix().strip("/").replace("-", "--").replace("/", "-")

    def owns(self, cluster: Path) -> bool:
        """Whether `cluster` is this home's store, so that this home's key is its key."""
        folder = self.announcement()
        return cluster == self.cluster or (folder is not None and cluster == folder / "cluster.json")

    def read_site_key(self) -> str | None:
        """The site's key, or None for somebody who may not read it or where there is none."""
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


def find_cluster(home: Home) -> Path:
    """The cluster.json that commands of this process use.

    Raises:
        StoreError: No store is up where one was looked for.
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
