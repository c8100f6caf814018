"""`weir layout`: the distribution of files' bytes over targets."""

import click

from weir.cli.common.listing import Listing
from weir.cli.layout.advise import advise
from weir.cli.layout.get import show_layout
from weir.cli.layout.set import set_layout


@click.group(cls=Listing)
def layout() -> None:
    """Show, set or judge the distribution of files' bytes over targets."""


layout.add_command(advise)
layout.add_command(show_layout)
layout.add_command(set_layout)
