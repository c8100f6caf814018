"""`weir interference`: how much jobs are slowed by others, from windows of what they and the servers did."""

import click

from weir.cli.common.listing import Listing
from weir.cli.interference.clients import clients
from weir.cli.interference.collect import collect
from weir.cli.interference.evaluate import evaluate
from weir.cli.interference.gather import gather
from weir.cli.interference.import_windows import import_windows
from weir.cli.interference.join import join
from weir.cli.interference.matrix import matrix
from weir.cli.interference.predict import predict
from weir.cli.interference.record import record
from weir.cli.interference.train import train
from weir.cli.interference.watch import serve, watch


@click.group(cls=Listing)
def interference() -> None:
    """Predict how much jobs are slowed by others.

    DATA is a Parquet file of windows, or a folder of such files. A class of slowdown begins at each of --bins.
    """


interference.add_command(clients)
interference.add_command(collect)
interference.add_command(evaluate)
interference.add_command(gather)
interference.add_command(import_windows)
interference.add_command(join)
interference.add_command(matrix)
interference.add_command(predict)
interference.add_command(record)
interference.add_command(train)
interference.add_command(watch)
interference.add_command(serve)
