"""`weir down`: end a store."""

import click

from weir.cli.errors import Failure, say
from weir.cli.home import Home
from weir.cli.output import output_option


@click.command()
@click.option("--force", is_flag=True, help="Unmount also where a program is using the mount.")
@click.option("--discard", is_flag=True, help="Also remove the files of the store that lie in its home.")
@output_option
@click.pass_obj
def down(home: Home, force: bool, discard: bool, output: str) -> None:
    """End the store: unmount it and stop its servers.

    What is on `dir` targets is kept for the next `weir up`, unless --discard is given; what is on `ram` targets goes.
    """
    from weir.cli import cluster, mounts
    from weir.cli.output import human_size, show

    if not home.exists():
        raise Failure(f"there is no store in {home.root}", hint="set WEIR_HOME to that of the store")
    with home.locked():
        lost = _used_ram(home)
        unmounted = []
        for mount in mounts.mounts_of(home):
            mounts.stop(mount, force=force)
            unmounted.append(str(mount.point))
        stopped = cluster.stop(home)
        left = cluster.discard(home) if discard else []
    document = {"stopped": stopped, "unmounted": unmounted, "lost_bytes": lost, "discarded": discard}
    rows = [("servers stopped", stopped), ("mounts ended", len(unmounted))]
    show(output, document, ("STORE", "down"), rows)
    for path in left:
        say(f"left as it is, because it lies outside of the home: {path}")
    if lost:
        say(f"the ram targets held {human_size(lost)}; that data is gone")
    if not stopped and not unmounted:
        say(f"no server of {home.root} was running")


def _used_ram(home: Home) -> int:
    """Bytes on ram targets of the servers that answer."""
    from weir.cli.control import ask_all, servers_of

    if not home.cluster.is_file():
        return 0
    answers = ask_all(servers_of(home.cluster), "/v1/status")
    targets = [target for answer in answers if not isinstance(answer, Failure) for target in answer["targets"]]
    return sum(target["used_bytes"] for target in targets if target["backend"] == "ram")
