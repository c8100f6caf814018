"""`weir stats publish`: this server's statistics."""

from pathlib import Path

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.parameters import Number
from weir.cli.stats.addresses import ADDRESS, ENDPOINT, root_option, zmq_errors


@click.command()
@click.option("--bind", "endpoint", type=ADDRESS, default=ENDPOINT, help="ZeroMQ address to publish at.")
@click.option(
    "--interval", "interval_seconds", type=Number(0.1, 3600), default=60.0, help="Seconds between two readings."
)
@click.option(
    "--heartbeat", "heartbeat_seconds", type=Number(0.1, 3600), default=5.0, help="Seconds between two signs of life."
)
@click.option("--server", help="Name of this server.  [default: its host name]")
@root_option
def publish(endpoint: str, interval_seconds: float, heartbeat_seconds: float, server: str | None, root: Path) -> None:
    """Publish this server's statistics until SIGTERM or Ctrl-C.

    Messages are neither signed nor encrypted: bind to an address of the management network.
    """
    import socket

    from weir.lustre.publisher import Publisher

    publisher = Publisher(
        root=root,
        server=server or socket.gethostname(),
        interval_seconds=interval_seconds,
        heartbeat_seconds=heartbeat_seconds,
        tell=lambda trouble: warn(trouble),
    )
    with zmq_errors(f"publish at {endpoint}"):
        publisher.run(endpoint, bound=lambda address: say(f"publishing at {address} every {interval_seconds:g} s"))
