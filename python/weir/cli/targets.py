"""`weir targets`: the rates of targets, the allocator, and emulated speeds."""

from typing import TYPE_CHECKING

import click

from weir.cli.common.asking import administered, ask_store, backend_words, warn_of_silence
from weir.cli.common.errors import FAILED, CommandError
from weir.cli.common.findings import warn_of
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, share, show, size
from weir.cli.common.parameters import Checked
from weir.store import values
from weir.store.errors import SilentServerError, StoreError
from weir.store.home import Home

if TYPE_CHECKING:
    pass
from weir.cli.common.target_lines import Line, add, rate, since, target_lines

_RATE = Checked("rate", values.rate)
_HEADER = (
    "TARGET",
    "BACKEND",
    "CAPACITY",
    "USED",
    "FILL",
    "LOAD",
    "ACHIEVED/S",
    "EXPECTED/S",
    "SLOW SINCE",
    "STRIPES",
)


@click.group(cls=Listing, invoke_without_command=True)
@output_option
@click.pass_context
def targets(context: click.Context, output: str) -> int | None:
    """Show the targets with their speed, the time since when slow ones are slow, and the stripes placed on each.

    ACHIEVED is the usual rate of a target's last requests above 256 KiB; for a slow target, of its largest requests.
    No rate is shown if requests take less than 200 us each, as in memory: moving the bytes is then only a small part
    of that time. EXPECTED is the rate that such requests achieve on the other targets of the class. The warnings
    about targets are those of `weir health`. The exit code is 1 if a server does not answer, a target has failed, or
    the store is full.
    """
    if context.invoked_subcommand is not None:
        return None
    from weir.health import of_targets
    from weir.store.control import Server

    asked = ask_store(context.obj, Server.status)
    answers = [answer for _, answer in asked if answer is not None]
    silent = [server.number for server, answer in asked if answer is None]
    lines = target_lines(answers)
    allocators = {str(answer.server): answer.allocator for answer in answers}
    stripes: dict[str, int] = {}
    refused: dict[str, int] = {}
    for answer in answers:
        add(stripes, answer.placements.stripes)
        add(refused, answer.placements.refused)
    document = {
        "targets": [line.document() for line in lines],
        "allocators": allocators,
        "stripes_placed": stripes,
        "files_refused": refused,
        "silent_servers": silent,
    }
    show(output, document, _HEADER, [_row(line) for line in lines])
    if output == "table":
        print(f"\nallocator  {' and '.join(sorted(set(allocators.values()))) or '-'}")
        placed = ", ".join(f"{count} by {name}" for name, count in sorted(stripes.items()))
        print(f"stripes    {placed or 'none placed'}")
        if refused:
            print(f"refused    {', '.join(f'{count} {reason}' for reason, count in sorted(refused.items()))}")
    return FAILED if warn_of(list(of_targets(answers))) or silent else 0


@targets.command(name="set")
@click.argument("target", metavar="SERVER.INDEX", type=Checked("target", values.target))
@click.option("--bandwidth", metavar="RATE", type=_RATE, help="Speed of reads and writes, such as 29MB/s.")
@click.option("--read", metavar="RATE", type=_RATE, help="Speed of reads.")
@click.option("--write", metavar="RATE", type=_RATE, help="Speed of writes.")
@click.option(
    "--fixed", metavar="TIME", type=Checked("time", values.duration), help="Time of each request, such as 1ms."
)
@click.option("--real", is_flag=True, help="End the emulation.")
@output_option
@click.pass_obj
def set_speed(
    home: Home,
    target: str,
    bandwidth: str | None,
    read: str | None,
    write: str | None,
    fixed: str | None,
    real: bool,
    output: str,
) -> None:
    """Emulate another speed on a target until its server is restarted."""
    from weir.store.answers import WantedSpeed

    speed = {"read": read or bandwidth, "write": write or bandwidth, "fixed": fixed}
    body = {key: value for key, value in speed.items() if value is not None}
    if real == bool(body):
        raise click.UsageError("give a speed such as --bandwidth 29MB/s, or --real")
    number = target.partition(".")[0]
    servers = administered(home, f"change the speed of {target}")
    server = next((server for server in servers if str(server.number) == number), None)
    if server is None:
        raise CommandError(f"the store has no target {target}", hint="`weir targets` lists them")
    server.set_speed(target, WantedSpeed(**body))
    words = ", ".join(f"{key} {value}" for key, value in body.items()) or "as fast as it is"
    show(output, {"target": target, "speed": body or None}, ("TARGET", "SPEED"), [(target, words)])


@targets.command()
@click.argument("name", metavar="ALLOCATOR", type=Checked("allocator", values.allocator))
@output_option
@click.pass_obj
def allocator(home: Home, name: str, output: str) -> int:
    """Set the allocator, which chooses the targets of new files, on every server at once.

    A server that is down takes the policy when it is back; the exit code is then 1. The allocator outlives restarts,
    until it is changed again or `weir up` is given another one.

    ALLOCATOR is balanced (least load over speed), lustre-standard (in turn, or by free space) or random.
    """
    from weir.store.control import Server, ask_all

    servers = administered(home, "change the allocator")
    changed = []
    # All are asked before one is told, because servers tell each other.
    for server, was in zip(servers, ask_all(servers, Server.allocator), strict=True):
        try:
            if isinstance(was, StoreError):
                raise was
            now = server.set_allocator(name)
        except SilentServerError as error:
            warn_of_silence(home, server, error, then=", with this allocator")
            continue
        changed.append({"server": server.number, "was": was, "is": now})
    if not changed:
        raise CommandError("no server answers, so nothing was changed", hint="`weir up` starts the servers again")
    rows = [(each["server"], each["was"], each["is"]) for each in changed]
    show(output, {"allocator": name, "servers": changed}, ("SERVER", "WAS", "IS"), rows)
    return 0 if len(changed) == len(servers) else FAILED


def _row(line: Line) -> tuple[object, ...]:
    target = line.target
    capacity = target.capacity_bytes
    return (
        target.target,
        backend_words(target),
        size(capacity),
        size(target.used_bytes),
        share(target.used_bytes / capacity if capacity else 0.0),
        share(target.load),
        rate(target.achieved_bytes_per_second),
        rate(target.expected_bytes_per_second),
        since(target.slow_since),
        line.stripes_placed,
    )
