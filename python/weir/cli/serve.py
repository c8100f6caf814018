"""`weir serve`: a server or a mount in the foreground, for a supervisor."""

from pathlib import Path

import click

from weir.cli.common.listing import Listing
from weir.store.home import Home


@click.group(cls=Listing)
def serve() -> None:
    """Run one server or mount in the foreground, for a supervisor such as systemd.

    `weir up` and `weir deploy` start servers and mounts without it. The process writes its log to the journal of
    systemd, or to standard error.
    """


@serve.command()
@click.argument("number", metavar="SERVER", type=click.IntRange(0, 1023))
@click.pass_obj
def server(home: Home, number: int) -> None:
    """Run a server of the store in the home, which was brought up once before and has fixed ports."""
    from weir.store import service

    service.serve(home, number)


@serve.command()
@click.argument("point", metavar="[PATH]", required=False, type=click.Path(path_type=Path, readable=False))
@click.pass_obj
def mount(home: Home, point: Path | None) -> None:
    """Mount the store in the home at PATH until SIGTERM, by default where `weir deploy` mounts it, or in the home."""
    from weir.deployment.member import member_of
    from weir.store import service

    part = None if point else member_of(home)
    deployed = Path(part.mount) if part and part.mount else home.mount_point
    service.mount(home, (point or deployed).absolute())
