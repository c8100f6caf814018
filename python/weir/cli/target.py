"""`weir target`: targets that join and leave the store while programs use it."""

import click

from weir.cli.common.errors import say, tell
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import Checked
from weir.store import values
from weir.store.home import Home

_INTERRUPTED = 130


@click.group(cls=Listing)
def target() -> None:
    """Add a target to the store, or let one retire, while programs use the store."""


@target.command()
@click.argument("server", metavar="SERVER", type=click.IntRange(0))
@click.option(
    "--backend",
    type=click.Choice(["ram", "dir"]),
    help="Place of the bytes.  [default: that of the server's first target]",
)
@click.option("--path", metavar="DIR", help="Folder of a dir target on the server's host.  [default: below the home]")
@click.option(
    "--capacity",
    metavar="SIZE",
    type=Checked("size", values.size),
    help="Capacity of the target. [default: that of the server's first target]",
)
@click.option(
    "--bandwidth",
    metavar="RATE",
    type=Checked("rate", values.rate),
    help="Emulated speed of reads and writes, such as 29MB/s.",
)
@click.option("--class", "speed_class", metavar="NAME", help="Class of targets that are equally fast.")
@output_option
@click.pass_obj
def add(
    home: Home,
    server: int,
    backend: str | None,
    path: str | None,
    capacity: str | None,
    bandwidth: str | None,
    speed_class: str | None,
    output: str,
) -> None:
    """Add a target to SERVER, and write it into the store's configuration.

    New files use the target at once; `weir rebalance` moves stripes of existing files to it. The target is named
    SERVER.INDEX, with an index that this server has never used. A target joins without a restart. A store that keeps
    its files refuses a ram target, because a restart would lose its bytes.
    """
    from pathlib import Path

    from weir.cli.common.draining import changeable
    from weir.store.answers import WantedSpeed, WantedTarget
    from weir.store.membership import add_target, unkept_notice

    chosen, file = changeable(home, str(server), "add a target")
    state = chosen.status()
    first = next(iter(state.targets), None)
    backend = backend or (first.backend if first else "dir")
    if capacity is None and backend == "ram":
        if first is None or first.backend != "ram":
            raise click.UsageError("a ram target needs --capacity")
        capacity = str(first.capacity_bytes)
    whole = None if path is None else str(Path(path).absolute())
    speed = None if bandwidth is None else WantedSpeed(read=bandwidth, write=bandwidth)
    wanted = WantedTarget(backend, capacity, whole, speed, speed_class)
    name = add_target(file, chosen, wanted)
    if notice := unkept_notice([state], [wanted]):
        tell(notice)
    now = next((each for each in chosen.status().targets if each.target == name), None)
    bytes_free = now.capacity_bytes - now.used_bytes if now else 0
    folder = whole
    if backend == "dir" and whole is None:
        folder = str(home.server(server) / f"target-{name.partition('.')[2]}")
    rows = [(name, backend, size(now.capacity_bytes) if now else "-", folder or "-")]
    document = {"target": name, "backend": backend, "path": whole, "free_bytes": bytes_free}
    show(output, document, ("TARGET", "BACKEND", "CAPACITY", "FOLDER"), rows)


@target.command()
@click.argument("name", metavar="SERVER.INDEX", type=Checked("target", values.target))
@click.option(
    "--rate",
    metavar="BYTES/s",
    type=Checked("rate", values.rate),
    help="Highest rate of the moves, in bytes per second.  [default: the policy's share]",
)
@click.option("--cancel", is_flag=True, help="Let a retiring target take new files again.")
@output_option
@click.pass_obj
def retire(home: Home, name: str, rate: str | None, cancel: bool, output: str) -> int | None:
    """Empty a target and take it out of the store.

    The target gets no new files from now on. Its objects move to the other targets, as by `weir rebalance`, while
    programs use the files. If a file has an object on every other target already, one of these targets gets a second
    object of the file. Then the target leaves the store. Its number is not given again. If the command is ended
    before that, the target stays closed to new files: the same command continues, and --cancel opens the target
    again.
    """
    from weir.cli.common.draining import await_end, changeable, empty
    from weir.store.membership import begin_retirement, end_retirement, reopen

    server, file = changeable(home, name.partition(".")[0], f"let {name} retire")
    if cancel:
        reopen(file, server, name)
        show(output, {"target": name, "state": "open"}, ("TARGET", "STATE"), [(name, "open")])
        return None
    moved = 0
    if begin_retirement(file, server, name):
        interrupted, moved = empty(home, (name,), rate)
        if interrupted:
            say(f"{name} takes no new files; the same command continues, and --cancel opens it again")
            return _INTERRUPTED
        await_end(lambda: end_retirement(file, server, name))
    show(
        output,
        {"target": name, "state": "retired", "objects_moved": moved},
        ("TARGET", "STATE", "OBJECTS MOVED"),
        [(name, "retired", moved)],
    )
    return None
