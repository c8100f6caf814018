"""`weir room`: the control room, pages about the store in a browser."""

import grp
import ipaddress
import pwd
import re
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.history_options import folder_of, history_option
from weir.cli.common.parameters import FILE, Checked
from weir.cli.common.window_options import seconds_option
from weir.distribution import install_command
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.room.web import Room
    from weir.store.control import Server

_PACKAGES = ("aiohttp", "altair", "jinja2", "vl_convert")
_DAY = 86_400_000
_KEPT_DAYS = 35
"""Age that the history of the room reaches, as of `weir record`."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})(:[0-9]{1,5})?", re.ASCII)
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}", re.ASCII)


def _loopback(text: str) -> None:
    if not ipaddress.ip_address(text).is_loopback:
        raise ValueError(f"{text} is no loopback address: others come by `ssh -L`, or by a proxy with --unix")


def _named(form: "re.Pattern[str]", what: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if form.fullmatch(text) is None:
            raise ValueError(f"{text!r} is no {what}")

    return check


def _group(text: str) -> None:
    try:
        grp.getgrnam(text)
    except KeyError:
        raise ValueError(f"this host knows no group {text!r}") from None


def _user(text: str) -> None:
    try:
        pwd.getpwnam(text)
    except KeyError:
        raise ValueError(f"this host knows no user {text!r}") from None


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    type=Checked("address", _loopback),
    help="Loopback address at which the room listens.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8642, help=("Port at which the room listens; 0 takes a free one.")
)
@click.option(
    "--unix", type=FILE, help=("Listen on this Unix socket instead of TCP; the kernel identifies its callers.")
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    type=Checked("host", _named(_HOST, "name of a host")),
    help="Another host name under which browsers may open the room.",
)
@click.option(
    "--operators", type=Checked("group", _group), help="Unix group whose members see all jobs and change the policy."
)
@click.option("--administrators", type=Checked("group", _group), help=("Unix group whose members are administrators."))
@click.option("--proxy-user", type=Checked("user", _user), help="User that runs the reverse proxy.")
@click.option(
    "--proxy-header",
    metavar="NAME",
    type=Checked("header", _named(_HEADER, "header")),
    help="HTTP header in which the proxy names the user; read only from the Unix socket.",
)
@click.option("--all-names", is_flag=True, help="Show everybody the names of everybody's jobs.")
@history_option
@seconds_option
@click.pass_context
def room(
    context: click.Context,
    /,
    host: str,
    port: int,
    unix: Path | None,
    hosts: tuple[str, ...],
    operators: str | None,
    administrators: str | None,
    proxy_user: str | None,
    proxy_header: str | None,
    all_names: bool,
    history: Path | None,
    seconds: float | None,
) -> None:
    """Open the control room of the store in the home, until ^C: pages in a browser about the present and the past.

    The command prints the address of the pages with a token; whoever knows the token may enter. With --unix the
    kernel names each
    caller: the owner of the store and root are administrators, and members of the groups have their roles. Other
        users see only the names of their own jobs, unless --all-names is given.

    The room records the history while no `weir record` runs. The command needs the site's key. Operators may change
    the policy and limit a job for a minute; administrators may also change quotas and targets. The room shows each
    change before it asks for a confirmation, and `weir audit` shows who changed what.
    """
    import asyncio
    import signal

    home: Home = context.obj
    if (proxy_user is None) != (proxy_header is None) or (proxy_header and unix is None):
        raise click.UsageError("--proxy-user and --proxy-header go together, and with --unix", context)
    for name in _PACKAGES:
        if find_spec(name) is None:
            raise CommandError(f"{name} is not installed", hint=install_command("room"))
    groups = {"operators": operators, "administrators": administrators}
    made = _made(home, history, hosts, groups, (proxy_user or "", proxy_header or ""), all_names=all_names)

    async def serving() -> None:
        from contextlib import suppress

        from weir.room.web import serve

        task = asyncio.ensure_future(serve(made, host=host, port=port, unix=unix, ready=_tell))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(task, seconds)

    from weir.room.recording import Recording

    recording = Recording(made.sources.find, made.sources.folder, _KEPT_DAYS * _DAY, warn, made.sources.judgements)
    recording.start()
    try:
        asyncio.run(serving())
    finally:
        recording.end()


def _tell(address: str) -> None:
    print(address, flush=True)
    say("the room is open until ^C")


def _made(
    home: Home,
    history: Path | None,
    hosts: tuple[str, ...],
    groups: dict[str, str | None],
    proxy: tuple[str, str],
    *,
    all_names: bool,
) -> "Room":
    """The room of the store in a home, for its owner alone to open."""
    from weir.cli.common.asking import administered
    from weir.health import findings
    from weir.health.gathering import PATIENT_SECONDS
    from weir.room.doors import Rights
    from weir.room.sources import Sources
    from weir.room.visitors import Role
    from weir.room.web import Room

    def find() -> "list[Server]":
        return administered(home, "open its room")

    find()
    home.check_owner()
    judge = partial(findings, home, seconds=PATIENT_SECONDS)
    roles = {Role.OPERATOR: groups["operators"], Role.ADMINISTRATOR: groups["administrators"]}
    return Room(
        sources=Sources(find, folder_of(home, history), judge, home),
        hosts={"localhost", *(name.lower() for name in hosts)},
        rights=Rights({role: group for role, group in roles.items() if group}, proxy[1], proxy[0], all_names),
    )
