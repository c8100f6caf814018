"""The environment of a program that uses a store, and the credential of a job that is one run."""

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from weir import native
from weir.store import mounts, window_folders
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster
from weir.store.identity import Identity
from weir.store.processes import Process
from weir.ways import write_whole

_LASTING_SECONDS = 30 * 86400
"""Time for which a credential of one run holds: longer than any job queue lets a job run."""
_runs = itertools.count()
"""Numbers of this process's jobs."""
_credentials = itertools.count()
"""Numbers of this process's credentials."""
_PROGRAM_NAME_MAX = 100
"""Most characters of the program's name in a job's name, which has at most 128 bytes and ends in a process number."""


def credential_path(home: Home) -> Path | None:
    """Find the credential that this user was given.

    Returns:
        Path of the credential file: the one that WEIR_CREDENTIAL names, else the user's file beside cluster.json or in
        the home; None where there is none.

    Raises:
        StoreError: No store is up.
    """
    chosen = os.environ.get("WEIR_CREDENTIAL")
    if chosen:
        return Path(chosen).absolute()
    name = f"uid-{os.getuid()}.json"
    for folder in (Home(find_cluster(home).parent).credentials, home.credentials):
        if os.access(folder / name, os.R_OK):
            return folder / name
    return None


def mount_point(home: Home) -> Path | None:
    """Find the mount point of the store.

    Returns:
        The place that WEIR_MOUNT names if it is mounted, else the oldest mount that is served; None where there is
        none.

    Raises:
        StoreError: No store is up.
    """
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


def places(home: Home) -> tuple[str, ...]:
    """Find the paths below which programs see a store: mount points, and the prefix of the environment.

    Returns:
        The paths, the mount point of `weir run` first if there is one; none where no store is up and none is named.
    """
    found: list[str] = []
    with contextlib.suppress(StoreError):
        point = mount_point(home)
        found += [] if point is None else [str(point)]
    if os.access(home.mounts, os.R_OK):
        found += [str(mount.point) for mount in mounts.mounts_of(home)]
    found += [os.path.normpath(named) for name in ("WEIR_MOUNT", "WEIR_PREFIX") if (named := os.environ.get(name))]
    return tuple(place for place in dict.fromkeys(found) if place != "/")


def library_path(environment: Mapping[str, str]) -> str:
    """Put the preload library in front of LD_PRELOAD.

    Args:
        environment: Variables by their names.

    Returns:
        The new value of LD_PRELOAD.

    Raises:
        StoreError: LD_PRELOAD cannot name the library's path.
        NotInstalledError: The library is missing.
    """
    library = str(native.preload_library())
    if ":" in library or " " in library:
        # ld.so(8): the list's items are separated by spaces or colons, and there is no escape.
        raise StoreError(
            f"LD_PRELOAD cannot name {library}: its path has a blank or a colon",
            hint="install the package elsewhere, or use the mount without the library",
        )
    present = environment.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = [item for item in present if item and item != library]
    return ":".join([library, *others])


def is_prefix(prefix: str) -> bool:
    """Decide whether a path can be one below which a store is seen without a mount.

    Args:
        prefix: The path.

    Returns:
        Whether the path is absolute, and not the root.
    """
    return prefix.startswith("/") and os.path.normpath(prefix) != "/"


def environment(
    present: Mapping[str, str], cluster: Path, place: Path, *, is_mounted: bool, is_preloaded: bool = True
) -> dict[str, str]:
    """Make the environment of a program that uses a store, without its credential.

    Args:
        present: The other variables of the program.
        cluster: The store's cluster.json.
        place: Path at which the program sees the store: a mount point, or a path below which the preload library serves
            it.
        is_mounted: Whether `place` is a mount point.
        is_preloaded: Whether the program takes the fast path.

    Returns:
        Variables by their names.

    Raises:
        StoreError: LD_PRELOAD cannot name the library.
        NotInstalledError: The library is missing.
    """
    variables = {name: value for name, value in present.items() if name not in ("WEIR_MOUNT", "WEIR_PREFIX")}
    variables |= window_folders.variables(present)
    variables["WEIR_CLUSTER"] = str(cluster)
    variables["WEIR_MOUNT" if is_mounted else "WEIR_PREFIX"] = os.path.normpath(place)
    if is_preloaded:
        variables["LD_PRELOAD"] = library_path(present)
    return variables


def run_job(program: str, **claims: str | int | None) -> Identity:
    """Make the identity of one run of a program by this process.

    Args:
        program: Path or name of the program; the job is named after it unless the claims name the job.
        claims: Claims that are not this user's own; those that are None stay the user's own.

    Returns:
        The job's identity.
    """
    # The number of this process makes the name unique for its user.
    name = f"{Path(program).name[:_PROGRAM_NAME_MAX]}-{os.getpid()}{_suffix(_runs)}"
    return Identity.of_process(name).narrowed(**claims)


@contextlib.contextmanager
def minted(home: Home, identity: Identity) -> Iterator[Path]:
    """Mint a credential for one run, in a file that is removed at the end of the block.

    Args:
        home: Home of the store, whose key this user may read.

    Yields:
        The file, which this user alone may read.

    Raises:
        StoreError: The key cannot be read, or a claim is outside of its limit.
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
    """Name a credential file so that the name tells which process has to remove it."""
    process = Process.current()
    return home.credentials / f"run-{process.pid}-{process.start_ticks}{_suffix(_credentials)}.json"


def _suffix(numbers: Iterator[int]) -> str:
    """Tell the runs of one process apart. Its first run needs no number; a command has no other."""
    number = next(numbers)
    return f"-{number}" if number else ""


def _sweep(home: Home) -> None:
    """Remove credentials of runs that were killed before they removed them."""
    boot = Process.current().boot
    for path in home.credentials.glob("run-*-*.json"):
        pid, ticks = path.stem.split("-")[1:3]
        if not Process(int(pid), int(ticks), boot).is_alive():
            path.unlink(missing_ok=True)
