"""Options of commands that look at windows until they are told to end."""

import click

from weir.cli.common.parameters import Checked, Number
from weir.store import values

seconds_option = click.option(
    "--seconds", type=Number(0, min_open=True), help="Seconds after which the command ends.  [default: until ^C]"
)
max_size_option = click.option(
    "--max-size",
    "bytes_max",
    default="1GiB",
    type=Checked("size", values.size),
    help="Largest size of the folder in bytes: beyond it the oldest windows are removed.",
)
