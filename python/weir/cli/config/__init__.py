"""`weir config`: the values of the settings, and their origins."""

import click

from weir.cli.common.listing import Listing
from weir.cli.config.diff import diff
from weir.cli.config.export import export
from weir.cli.config.reference import reference
from weir.cli.config.show import show


@click.group(cls=Listing)
def config() -> None:
    """Show the settings and their origins, and print files for Prometheus and Grafana."""


config.add_command(diff)
config.add_command(export)
config.add_command(reference)
config.add_command(show)
