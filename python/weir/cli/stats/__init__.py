"""`weir stats`: statistics of Lustre servers, published, collected, and seen as a file system."""

import click

from weir.cli.common.listing import Listing
from weir.cli.stats.publish import publish
from weir.cli.stats.show import show
from weir.cli.stats.subscribe import subscribe
from weir.cli.stats.windows import windows


@click.group(cls=Listing)
def stats() -> None:
    """Collect the statistics of storage servers: for the placement of files on Lustre, and of interference.

    For placement, run `weir stats publish` on each OSS, and `weir stats subscribe` on the MDS or on the host that
    places files. `weir stats windows` records the windows of any block device, and of Lustre's services.
    """


stats.add_command(publish)
stats.add_command(show)
stats.add_command(subscribe)
stats.add_command(windows)
