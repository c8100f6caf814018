"""`weir simulate`: scenarios run in virtual time, by the decisions of the store."""

import click

from weir.cli.common.listing import Listing
from weir.cli.simulate.report import report
from weir.cli.simulate.run import run_scenario
from weir.cli.simulate.sweep import sweep
from weir.cli.simulate.topology import topology
from weir.cli.simulate.tune import tune
from weir.cli.simulate.what_if import what_if


@click.group(cls=Listing)
def simulate() -> None:
    """Run a store, its jobs and its machines in virtual time.

    The simulator makes the same decisions as the store: shares by its policies, targets by its allocators.
    """


simulate.add_command(run_scenario)
simulate.add_command(report)
simulate.add_command(what_if)
simulate.add_command(sweep)
simulate.add_command(tune)
simulate.add_command(topology)
