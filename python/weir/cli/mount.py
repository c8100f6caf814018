"""`weir mount` and `weir umount`: mounts of a store."""

from pathlib import Path

import click

from weir.cli.common.errors import CommandError
from weir.cli.common.options import option
from weir.cli.common.output import output_option, show
from weir.store.home import Home, find_cluster
from weir.store.settings import CREDENTIAL


@click.command()
@click.argument("point", metavar="[PATH]", required=False, type=click.Path(path_type=Path, readable=False))
@option(CREDENTIAL)
@output_option
@click.pass_obj
def mount(home: Home, point: Path | None, credential: str | None, output: str) -> None:
    """Mount the store at PATH, by default in its home.

    Root's mount serves every user; a user's own mount serves that user.
    """
    from weir.store import mounts

    cluster = find_cluster(home)
    chosen = (point or home.mount_point).absolute()
    home.create()
    with home.locked():
        mounts.start(home, chosen, cluster=cluster, credential=_credential(home, credential))
    show(output, {"mount": str(chosen), "cluster": str(cluster)}, ("MOUNT", "STORE"), [(chosen, cluster)])


@click.command()
@click.argument("point", metavar="[PATH]", required=False, type=click.Path(path_type=Path, readable=False))
@click.option("--force", is_flag=True, help="Unmount even while a program uses the mount.")
@output_option
@click.pass_obj
def umount(home: Home, point: Path | None, force: bool, output: str) -> None:
    """Unmount the store from PATH, by default from everywhere."""
    from weir.store import mounts

    wanted = point.absolute() if point else None
    known = [mount for mount in mounts.mounts_of(home) if wanted is None or mount.point == wanted]
    if not known:
        place = f" at {wanted}" if wanted else ""
        raise CommandError(f"the store in {home.root} is not mounted{place}", hint="see `weir status`")
    with home.locked():
        for each in known:
            mounts.stop(each, force=force)
    points = [str(each.point) for each in known]
    show(output, {"unmounted": points}, ("UNMOUNTED",), [(each,) for each in points])


def _credential(home: Home, chosen: str | None) -> Path:
    """The credential of a mount: that of the store's owner where it can be read, else the user's own grant."""
    import os

    from weir.store.identity import read_claims
    from weir.store.launch import credential_path

    own = home.credentials / "mount.json"
    if chosen is None and os.access(own, os.R_OK):
        return own
    path = Path(chosen).absolute() if chosen else credential_path(home)
    if path is None:
        raise CommandError("no credential to mount with", hint="ask the owner of the store for one: `weir grant`")
    read_claims(path)
    return path
