"""`weir quota`: the bytes and inodes that users and groups may have."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.asking import administered, ask_store, warn_of_silence
from weir.cli.common.errors import FAILED
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option
from weir.cli.common.output import show as show_result
from weir.cli.common.parameters import PATH, Checked
from weir.store import values
from weir.store.errors import SilentServerError, StoreError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.store.control import Server
    from weir.store.quotas import OwnerQuota


@click.group(cls=Listing)
def quota() -> None:
    """Show or set the bytes and inodes that users and groups may have."""


@quota.command()
@click.argument("place", required=False, metavar="[PATH]", type=PATH)
@output_option
@click.pass_obj
def show(home: Home, place: Path | None, output: str) -> int:
    """Show the use and the limits of users and groups.

    The holder of the site's key sees all users and groups, and everybody else their own. With PATH, a directory of a
    mounted store, everybody sees their own.  [default: $WEIR_MOUNT]

    The exit code is 1 if a server does not answer; its files are then not counted.
    """
    from weir.store.access import access_to
    from weir.store.control import Server
    from weir.store.quotas import merge, own

    if place is not None or access_to(home, find_cluster(home)) is None:
        _print(output, own(place or Path(os.environ.get("WEIR_MOUNT") or home.mount_point)))
        return 0
    asked = ask_store(home, Server.quotas)
    _print(output, merge(owners for _, owners in asked if owners is not None))
    return FAILED if any(owners is None for _, owners in asked) else 0


@quota.command(name="set")
@click.option("--user", "user", metavar="NAME|UID", type=Checked("user", values.user), help="The user.")
@click.option("--group", "group", metavar="NAME|GID", type=Checked("group", values.group), help="The group.")
@click.option(
    "--every-user", "kind", flag_value="user", help=("Set the limits of each user who has none of their own.")
)
@click.option(
    "--every-group", "kind", flag_value="group", help=("Set the limits of each group that has none of its own.")
)
@click.option(
    "--bytes",
    "most_bytes",
    metavar="SIZE|none",
    type=Checked("size", values.size_limit),
    help="Largest number of bytes, such as 10GiB. [default: unchanged]",
)
@click.option(
    "--inodes",
    "most_inodes",
    metavar="N|none",
    type=Checked("number", values.count_limit),
    help="Largest number of files and directories. [default: unchanged]",
)
@click.option(
    "--unset", is_flag=True, help=("Remove the owner's own limits: those of every user, or of every group, hold again.")
)
@output_option
@click.pass_obj
def set_quota(
    home: Home,
    user: str | None,
    group: str | None,
    kind: str | None,
    most_bytes: str | None,
    most_inodes: str | None,
    unset: bool,
    output: str,
) -> int:
    """Set the limits of a user or a group, as the holder of the site's key.

    The limits hold at once, on every server, and outlive restarts. A user or group above a limit keeps its files, and
    gets no further bytes or files until it is below the limit. A server that is down takes the policy when it is
    back; the exit code is then 1.
    """
    from weir.store.answers import QuotaLimits
    from weir.store.quotas import limits_of, set_limits

    owner = _owner(user, group, kind)
    if unset == (most_bytes is not None or most_inodes is not None):
        raise click.UsageError("give --bytes, --inodes or both, or --unset alone")
    servers = administered(home, "set its quotas")
    limits = None
    if not unset:
        now = limits_of(servers, *owner)
        limits = QuotaLimits(
            bytes_max=now.bytes_max if most_bytes is None else values.size_limit(most_bytes),
            inodes_max=now.inodes_max if most_inodes is None else values.count_limit(most_inodes),
        )

    def warn(server: "Server", error: SilentServerError) -> None:
        warn_of_silence(home, server, error, then=", with these limits")

    told = set_limits(servers, *owner, limits, warn)
    _print(output, [_line(told, owner)])
    return 0 if len(told) == len(servers) else FAILED


def _owner(user: str | None, group: str | None, kind: str | None) -> tuple[str, int | None]:
    """The owner that the options name."""
    if [user, group, kind].count(None) != 2:
        raise click.UsageError("give one of --user, --group, --every-user and --every-group")
    if kind is not None:
        return kind, None
    return ("user", values.user(user)) if user is not None else ("group", values.group(str(group)))


def _line(servers: "list[Server]", owner: tuple[str, int | None]) -> "OwnerQuota":
    """The limits of an owner, and its use on all of the servers that answer."""
    from weir.store.control import Server, ask_all
    from weir.store.quotas import OwnerQuota, merge

    answers = ask_all(servers, Server.quotas)
    for line in merge(answer for answer in answers if not isinstance(answer, StoreError)):
        if (line.kind, line.id) == owner:
            return line
    return OwnerQuota(*owner, 0, 0, None, None)


def _print(output: str, quotas: "Sequence[OwnerQuota]") -> None:
    from weir.store.quotas import HEADER

    header = tuple(name.upper() for name in HEADER)
    show_result(output, {"owners": [line.document() for line in quotas]}, header, [line.row() for line in quotas])
