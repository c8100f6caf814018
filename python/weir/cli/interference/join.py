"""`weir interference join`: windows of jobs with those of servers."""

from pathlib import Path

import click

from weir.cli.common.errors import warn
from weir.cli.common.interference_packages import needed
from weir.cli.common.output import output_option
from weir.cli.common.parameters import PATH, Checked
from weir.cli.interference.window_output import TO, show_written


def _read_name(text: str) -> tuple[str, str]:
    """Read `NAME=SERVER`."""
    name, is_given, server = text.partition("=")
    if not (name and is_given and server):
        raise ValueError(f"{text!r} is no pair of names such as files=sda")
    return name, server


@click.command()
@click.argument("data", metavar="JOBS...", nargs=-1, required=True, type=PATH)
@click.option(
    "--servers",
    "servers",
    required=True,
    multiple=True,
    type=PATH,
    help="Windows of servers, as of `weir stats windows` or `weir interference record`; repeat for more.",
)
@click.option(
    "--server",
    "names",
    metavar="NAME=SERVER",
    multiple=True,
    type=Checked("names", _read_name),
    help="Server that the jobs' windows call by another name, such as files=sda; repeat for more.",
)
@TO
@output_option
def join(data: tuple[Path, ...], servers: tuple[Path, ...], names: tuple[str, ...], target: Path, output: str) -> None:
    """Join windows of jobs with those of servers, by the number of the window and the server's name.

    JOBS are data sets of `weir run --observe`, of Darshan logs or of traces. OST0003 stands for the server whose name
    ends in OST0003.
    """
    needed("numpy", "pyarrow")
    from weir.interference import joining
    from weir.interference.windows import has_simulated, read_rows, write_rows

    joined = joining.join(read_rows(data), read_rows(servers), dict(_read_name(each) for each in names))
    write_rows(joined.rows, target, is_simulated=has_simulated((*data, *servers)))
    if joined.without_server:
        warn(f"{joined.without_server} rows of jobs have no window of their server, and are left out")
    show_written(output, {"rows": len(joined.rows), "left_out": joined.without_server, "file": str(target)})
