"""`weir down`: end a store."""

import click

from weir.cli.errors import say
from weir.cli.output import Row, output_option, show
from weir.store.home import Home


@click.command()
@click.option("--force", is_flag=True, help="Unmount also where a program uses the mount.")
@click.option("--discard", is_flag=True, help="Remove the store's files in its home, too.")
@click.option("--yes", is_flag=True, help="Do not ask before files are removed.")
@output_option
@click.pass_obj
def down(home: Home, force: bool, discard: bool, yes: bool, output: str) -> None:
    """End the store: unmount it and stop its servers, on every host that it was deployed on.

    The contents of `dir` targets are kept for the next `weir up` or `weir deploy`, unless --discard is given. The
    contents of `ram` targets are lost.
    """
    from weir.amounts import size_text
    from weir.cli.confirmation import confirm
    from weir.deployment import deployment, record
    from weir.store import cluster, lifecycle

    described = record.read(home)
    if discard and (described is not None or cluster.stored(home) is not None):
        confirm(f"remove the files of the store in {home.root}", yes=yes)
    if described is not None:
        ended = deployment.take_down(home, described, force=force, discard=discard)
    else:
        ended = lifecycle.take_down(home, force=force, discard=discard)
    document = {
        "stopped": ended.servers,
        "unmounted": [str(point) for point in ended.mounts],
        "lost_bytes": ended.lost_bytes,
        "discarded": discard,
        "left": list(ended.left),
    }
    rows: list[Row] = [("servers stopped", ended.servers), ("mounts ended", len(ended.mounts))]
    if discard:
        rows.append(
            ("files removed", f"those in {home.root}" if described is None else f"those in {home.root} of each host")
        )
    show(output, document, ("STORE", "down"), rows)
    for path in ended.left:
        say(f"left as it is, because it lies outside of the home: {path}")
    if ended.lost_bytes:
        say(f"the ram targets held {size_text(ended.lost_bytes)}; that data is gone")
    if not ended.servers and not ended.mounts:
        say(f"no server of {home.root} was running")
