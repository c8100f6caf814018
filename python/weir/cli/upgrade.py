"""`weir upgrade`: the servers of a store, restarted one after the other with the program that is installed now."""

import click

from weir.cli.common.errors import say, tell
from weir.cli.common.output import output_option, show
from weir.store.home import Home


@click.command()
@click.option("--yes", is_flag=True, help=("Also restart servers whose targets are in memory: their files are lost."))
@output_option
@click.pass_obj
def upgrade(home: Home, yes: bool, output: str) -> None:
    """Restart the servers one after the other, with the version of Weir that is installed now.

    Programs keep running: their requests to the server that restarts wait for it. The next server is restarted once
    all servers answer. Mounts keep the version that they were started with until they are unmounted and mounted
    again.
    """
    from weir.cli.common.progress import working
    from weir.deployment import rolling

    with working("upgrade") as shown:

        def begin(number: int, done: int, servers: int) -> None:
            say(f"restarting server {number}")
            shown(f"server {number}", done, servers)

        restarted = rolling.restart_all(home, tell, with_loss=yes, begun=begin)
    document = {"restarted": restarted}
    show(output, document, ("STORE", "upgraded"), [("servers restarted", len(restarted))])
