"""`weir interference gather`: what programs on this host ask of the store, window by window."""

import json
import time

import click

from weir.cli.common.ending import end_of_signals
from weir.cli.common.output import json_text
from weir.cli.common.window_options import seconds_option
from weir.store.home import Home, find_cluster

_POLL_SECONDS = 0.5


@click.command()
@seconds_option
@click.pass_obj
def gather(home: Home, seconds: float | None) -> None:
    """Write the requests of programs on this host to the store, a JSON object for each window that ends.

    `weir interference record --gather` on another host reads this output.
    """
    from weir.interference.clients import gathered
    from weir.store import client_windows

    document = json.loads(find_cluster(home).read_text())
    length = client_windows.length_of(document)
    ended = end_of_signals(seconds)
    after = 0
    while True:
        is_end = ended()
        found = client_windows.look(document, after)
        for each in gathered(found, length, after):
            print(json_text(each), flush=True)
        after = found.last
        if is_end:
            break
        time.sleep(_POLL_SECONDS)
