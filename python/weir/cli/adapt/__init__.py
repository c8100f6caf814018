"""`weir adapt`: arrays refactored onto tiers, and read as accurately as shared storage allows."""

import click

from weir.cli.adapt.info import show_stream
from weir.cli.adapt.reconstruct import reconstruct
from weir.cli.adapt.refactor import refactor_arrays
from weir.cli.adapt.steps import steps
from weir.cli.common.listing import Listing


@click.group(cls=Listing)
def adapt() -> None:
    """Refactor arrays onto storage tiers, and read them as accurately as there is time for.

    A tier is a folder: a local path, a path on a mount, or any URL that fsspec opens, the fastest first. Its zone may
    stand before it, as in isolation=/fast/run, augmentation=/scratch/run or best-effort=s3://archive/run.
    """


adapt.add_command(show_stream)
adapt.add_command(reconstruct)
adapt.add_command(refactor_arrays)
adapt.add_command(steps)
