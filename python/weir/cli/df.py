"""`weir df`: the room on a store, by target."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import FAILED
from weir.cli.common.history_options import clock, history_option, opened
from weir.cli.common.output import Quantity, output_option, share, show, size
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.answers import Status

_HEADER = ("TARGET", "BACKEND", "SIZE", "USED", "FREE", "USE")
_TREND_HEADER = ("TARGET", "SIZE", "USED", "A DAY", "FULL ON")


@click.command()
@click.option("--trend", is_flag=True, help="Show how targets fill, and the day on which each will be full.")
@history_option
@output_option
@click.pass_context
def df(context: click.Context, /, trend: bool, history: Path | None, output: str) -> int:
    """Show the size of each target, and how much of it is used and free.

    Each target is shown as if no other target were on its disk. The last line counts a disk once, however many
    targets lie on it. A file needs room on each of its targets: the fullest target may refuse bytes while others are
    empty. The exit code is 1 if a server does not answer; its targets are then not counted.

    --trend draws a line through what each target held in the last fourteen days that `weir record` kept, of which it
    needs an hour, and shows where the line ends.
    """
    home: Home = context.obj
    if trend:
        return _show_trend(home, history, output)
    if history is not None:
        raise click.UsageError("--history needs --trend", context)
    from weir.cli.common.asking import ask_store
    from weir.store.control import Server
    from weir.store.room import together

    asked = ask_store(home, Server.status)
    states = [state for _, state in asked if state is not None]
    targets = _targets(states)
    size_bytes, free_bytes = together([target for state in states for target in state.targets])
    total = {"size_bytes": size_bytes, "used_bytes": size_bytes - free_bytes, "free_bytes": free_bytes}
    inodes = sum(state.inodes for state in states)
    rows = [
        (
            each["target"],
            each["backend"],
            size(each["size_bytes"]),
            size(each["used_bytes"]),
            size(each["free_bytes"]),
            share(each["used_bytes"] / each["size_bytes"] if each["size_bytes"] else 0.0),
        )
        for each in [*targets, {"target": "all", "backend": "", **total}]
    ]
    show(output, {"targets": targets, **total, "inodes": inodes}, _HEADER, rows)
    if output == "table":
        print(f"\ninodes   {inodes}")
    return FAILED if any(state is None for _, state in asked) else 0


def _show_trend(home: Home, history: Path | None, output: str) -> int:
    """Show the trend of each target, as of the last moment that the history knows."""
    from dataclasses import asdict

    from weir.history.capacity import trends

    found = opened(home, history)
    try:
        span = found.span()
        known = [] if span is None else trends(found, span[1] + 1)
    finally:
        found.close()
    rows = [
        (
            each.target,
            size(each.capacity_bytes),
            size(each.used_bytes),
            Quantity("-") if each.bytes_per_day is None else _signed(each.bytes_per_day),
            "-" if each.full_at is None else clock(each.full_at).partition(" ")[0],
        )
        for each in known
    ]
    show(output, [asdict(each) for each in known], _TREND_HEADER, rows)
    return 0


def _signed(count: float) -> Quantity:
    return Quantity(f"{'-' if count < 0 else ''}{size(abs(count))}")


def _targets(states: "list[Status]") -> list[dict[str, Any]]:
    return [
        {
            "target": target.target,
            "backend": target.backend,
            "size_bytes": target.capacity_bytes,
            "used_bytes": target.used_bytes,
            "free_bytes": max(0, target.capacity_bytes - target.used_bytes),
            "disk": target.disk,
        }
        for state in states
        for target in state.targets
    ]
