"""`weir df`: the room on a store, by target."""

from typing import TYPE_CHECKING, Any

import click

from weir.cli.errors import FAILED
from weir.cli.output import output_option, share, show, size
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.answers import Status

_HEADER = ("TARGET", "BACKEND", "SIZE", "USED", "FREE", "USE")


@click.command()
@output_option
@click.pass_obj
def df(home: Home, output: str) -> int:
    """Show the size of each target, and how much of it is used and free.

    Each target is shown as if it had its disk alone. The last line counts a disk once, however many targets lie on it.
    A file needs room on each of its targets: the fullest target may refuse bytes while others are empty. The exit code
    is 1 where a server does not answer; its targets are not counted then.
    """
    from weir.cli.asking import ask_store
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
