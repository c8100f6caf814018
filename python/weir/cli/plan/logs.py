"""The record of past runs, for the commands that look at identities."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.job_identity import identities
from weir.cli.common.parameters import FILE, PATH

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity

LOGS = click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=PATH)
JOB = click.option("--job", "job_file", type=FILE, help="A jobspec or batch script.")


def identities_of(logs: Sequence[Path], job_file: Path | None) -> "list[tuple[Path, Identity]]":
    """The identities of logs, each with its log."""
    from weir.provisioning.jobs.job import read_job

    return identities(logs, None if job_file is None else read_job(job_file))
