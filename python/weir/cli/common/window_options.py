"""Options of commands that look at windows until they are told to end."""

import click

from weir.cli.common.parameters import Checked, Number
from weir.store import values

seconds_option = click.option(
    "--seconds", type=Number(0, min_open=True), help="Time after which it ends.  [default: until ^C]"
)
max_size_option = click.option(
    "--max-size",
    "bytes_max",
    default="1GiB",
    type=Checked("size", values.size),
    help="Most bytes in the folder: the oldest windows are removed beyond it.",
)
