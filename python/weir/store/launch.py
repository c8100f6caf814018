"""What a program needs in its environment to use a store, and the credential of a job that is one run."""

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from weir import native
from weir.store import mounts
from weir.store.errors import StoreError
from weir.store.files import write_whole
from weir.store.home import Home, find_cluster
from weir.store.identity import Identity
from weir.store.processes import Process

_LASTING_SECONDS = 30 * 86400
"""How long a credential minted for one run holds: longer than any job queue lets a job run."""
_runs = itertools.count()
"""Numbers of this process's jobs."""
_credentials = itertools.count()
"""Numbers of this process's credentials."""
_PROGRAM_NAME_MAX = 100
"""A job's name has at most 128 bytes, and a process number follows that of the program."""


def credential_path(home: Home) -> Path | None:
    """The credential that this user has been given: by WEIR_CREDENTIAL, or in its usual place beside cluster.json."""
    chosen = os.environ.get("WEIR_CREDENTIAL")
    if chosen:
        return Path(chosen).absolute()
    name = f"uid-{os.getuid()}.json"
    for folder in (Home(find_cluster(home).parent).credentials, home.credentials):
        if os.access(folder / name, os.R_OK):
            return folder / name
    return None


def mount_point(home: Home) -> Path | None:
    """Where the store is mounted: by WEIR_MOUNT if that is mounted, else the oldest mount that is served."""
    chosen = os.environ.get("WEIR_MOUNT")
    if chosen and mounts.is_mount_point(Path(chosen).absolute()):
        return Path(chosen).absolute()
    beside = Home(find_cluster(home).parent)
    for known in (home, beside):
        if os.access(known.mounts, os.R_OK):
            for mount in mounts.mounts_of(known):
                if mounts.is_mount_point(mount.point):
                    return mount.point
    announced = beside.root / mounts.ANNOUNCEMENT
    if announced.is_file():
        point = Path(announced.read_text().strip())
        return point if mounts.is_mount_point(point) else None
    return None


def library_path(environment: Mapping[str, str]) -> str:
    """LD_PRELOAD with the preload library in front of what is there.

    Raises:
        StoreError: The library is missing, or lies where LD_PRELOAD cannot name it.
    """
    library = str(native.preload_library())
    if ":" in library or " " in library:
        # ld.so(8): the list's items are separated by spaces or colons, and there is no escape.
        raise StoreError(
            f"LD_PRELOAD cannot name {library}: its path has a blank or a colon",
            hint="install the package elsewhere, or use the mount with --no-preload",
        )
    present = environment.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = [item for item in present if item and item != library]
    return ":".join([library, *others])


def is_prefix(prefix: str) -> bool:
    """Whether a path can be one below which the store is seen without a mount: absolute, and not the root."""
    return prefix.startswith("/") and os.path.normpath(prefix) != "/"


def environment(
    present: Mapping[str, str], cluster: Path, place: Path, *, is_mounted: bool, is_preloaded: bool = True
) -> dict[str, str]:
    """The environment of a program that uses a store, but for its credential.

    Args:
        present: The environment otherwise.
        cluster: The store's cluster.json.
        place: Where the program sees the store: a mount point, or a path below which the preload library serves it.
        is_mounted: Whether `place` is a mount point.
        is_preloaded: Whether the program takes the fast path.

    Returns:
        Variables by their names.

    Raises:
        StoreError: LD_PRELOAD cannot name the library.
        NotInstalledError: The library is missing.
    """
    variables = {name: value for name, value in present.items() if name not in ("WEIR_MOUNT", "WEIR_PREFIX")}
    variables["WEIR_CLUSTER"] = str(cluster)
    variables["WEIR_MOUNT" if is_mounted else "WEIR_PREFIX"] = os.path.normpath(place)
    if is_preloaded:
        variables["LD_PRELOAD"] = library_path(present)
    return variables


def run_job(program: str, **claims: str | int | None) -> Identity:
    """The job that one run of a program by this process is.

    Args:
        program: Path or name of the program; the job is called after it unless the claims say otherwise.
        claims: Claims of its credential that are not this user's own; None is one that is.

    Returns:
        The job's identity.
    """
    # The number of this process makes the name unique for its user.
    name = f"{Path(program).name[:_PROGRAM_NAME_MAX]}-{os.getpid()}{_suffix(_runs)}"
    return Identity.of_process(name).narrowed(**claims)


@contextlib.contextmanager
def minted(home: Home, identity: Identity) -> Iterator[Path]:
    """Mint a credential for one run, in a file that goes at the end of the block.

    Args:
        home: The home of the store, whose key this user may read.
        identity: Whose run it is.

    Yields:
        The file, which this user alone may read.

    Raises:
        StoreError: The key cannot be read, or a claim is outside its limit.
        OSError: The file cannot be written.
    """
    site_key = home.read_site_key()
    if site_key is None:
        raise StoreError(f"cannot read {home.site_key}")
    _sweep(home)
    text = identity.mint(site_key, _LASTING_SECONDS)
    path = _run_credential(home)
    try:
        write_whole(path, text)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # A program that is to remove files from a full store finds room in the home's reserve.
        with home.locked():
            write_whole(path, text)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _run_credential(home: Home) -> Path:
    """A name that tells which process has to remove the file."""
    process = Process.current()
    return home.credentials / f"run-{process.pid}-{process.start_ticks}{_suffix(_credentials)}.json"


def _suffix(numbers: Iterator[int]) -> str:
    """Tell the runs of one process apart; its first, and that of a command is its only one, needs no number."""
    number = next(numbers)
    return f"-{number}" if number else ""


def _sweep(home: Home) -> None:
    """Remove credentials of runs that were killed before they could."""
    boot = Process.current().boot
    for path in home.credentials.glob("run-*-*.json"):
        pid, ticks = path.stem.split("-")[1:3]
        if not Process(int(pid), int(ticks), boot).is_alive():
            path.unlink(missing_ok=True)
