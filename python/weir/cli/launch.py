"""What a program needs in its environment to use a store."""

import os
from collections.abc import Mapping
from pathlib import Path

from weir import native
from weir.cli import mounts
from weir.cli.errors import Failure, not_installed
from weir.cli.home import Home, find_cluster


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
        Failure: The library is missing, or lies where LD_PRELOAD cannot name it.
    """
    try:
        library = str(native.preload_library())
    except native.NotInstalledError as error:
        not_installed(error)
    if ":" in library or " " in library:
        # ld.so(8): the list's items are separated by spaces or colons, and there is no escape.
        raise Failure(
            f"LD_PRELOAD cannot name {library}: its path has a blank or a colon",
            hint="install the package elsewhere, or use the mount with --no-preload",
        )
    present = environment.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = [item for item in present if item and item != library]
    return ":".join([library, *others])
