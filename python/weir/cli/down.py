"""`weir down`: end a store."""

import click

from weir.cli.errors import say
from weir.cli.output import output_option
from weir.store.home import Home


@click.command()
@click.option("--force", is_flag=True, help="Unmount also where a program uses the mount.")
@click.option("--discard", is_flag=True, help="Remove the store's files in its home, too.")
@output_option
@click.pass_obj
def down(home: Home, force: bool, discard: bool, output: str) -> None:
    """End the store: unmount it and stop its servers.

    The contents of `dir` targets are kept for the next `weir up`, unless --discard is given. The contents of `ram`
    targets are lost.
    """
    from weir.cli.output import human_size, show
    from weir.store import lifecycle

    ended = lifecycle.take_down(home, force=force, discard=discard)
    document = {
        "stopped": ended.servers,
        "unmounted": [str(point) for point in ended.mounts],
        "lost_bytes": ended.lost_bytes,
        "discarded": discard,
    }
    rows = [("servers stopped", ended.servers), ("mounts ended", len(ended.mounts))]
    show(output, document, ("STORE", "down"), rows)
    for path in ended.left:
        say(f"left as it is, because it lies outside of the home: {path}")
    if ended.lost_bytes:
        say(f"the ram targets held {human_size(ended.lost_bytes)}; that data is gone")
    if not ended.servers and not ended.mounts:
        say(f"no server of {home.root} was running")
