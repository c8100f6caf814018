"""`weir interference clients`: what programs on this host asked of the store in their last windows."""

import json

import click

from weir.cli.common.errors import warn
from weir.cli.common.output import output_option, show
from weir.store.home import Home, find_cluster


@click.command()
@output_option
@click.pass_obj
def clients(home: Home, output: str) -> None:
    """Show the requests of programs on this host to the store in the windows that ended last.

    A user sees their own programs, and the superuser those of all users. IOPS counts reads, writes and metadata
    operations together.
    """
    from dataclasses import asdict

    from weir.cli.common import client_lines
    from weir.store import client_windows

    document = json.loads(find_cluster(home).read_text())
    length = client_windows.length_of(document)
    found = client_windows.look(document, 0)
    for problem in found.problems:
        warn(problem)
    lines = [asdict(line) for line in found.lines]
    in_order = sorted(lines, key=lambda line: (line["window"], line["job"], line["device"]))
    shown = {
        "window_seconds": length,
        "last": found.last,
        "left_out": found.left_out,
        "lines": lines,
    }
    show(output, shown, client_lines.HEADINGS, [client_lines.cells(line, length) for line in in_order])
