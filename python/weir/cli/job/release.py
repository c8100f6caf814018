"""`weir job release`: a job of Slurm that is held because its storage could not be had."""

import time
from pathlib import Path

import click

from weir.cli.common.errors import say
from weir.cli.common.parameters import FILE

_WAIT_SECONDS_MAX = 120.0
"""Longest wait for the end of the storage that could not be had, which Slurm ends first."""
_PAUSE_SECONDS = 1.0


@click.command(name="release")
@click.argument("job", metavar="JOB")
@click.option(
    "--socket",
    type=FILE,
    envvar="WEIR_PLANNER",
    help="Socket of the planner.  [default: this user's own, else /run/weir/planner.sock]  [env: WEIR_PLANNER]",
)
def release(job: str, socket: Path | None) -> None:
    """Release the job JOB of Slurm, which is held because its storage could not be set up, and set the storage up
    again.

    Slurm lets no user release such a job. Mend the cause first: `scontrol show job JOB` shows it.
    """
    from weir.planner import protocol
    from weir.planner.client import Client
    from weir.planner.errors import PlannerError

    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    with Client(socket) as client:
        while True:
            try:
                client.ask(protocol.Release(job=job), protocol.Hello)
                break
            except PlannerError as error:
                if error.code != "busy" or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
    say(f"job {job} is released: its storage is set up again")
