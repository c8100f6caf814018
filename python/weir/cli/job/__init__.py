"""`weir job`: a job with storage of its own, without a scheduler."""

import click

from weir.cli.common.listing import Listing
from weir.cli.job.end import end
from weir.cli.job.list import list_jobs
from weir.cli.job.ornament import ornament
from weir.cli.job.release import release
from weir.cli.job.resume import resume
from weir.cli.job.run import run


@click.group(cls=Listing)
def job() -> None:
    """Run a job with storage of its own: planned, started, staged in, run, staged out, ended.

    However a job ends early, none of its processes keeps running, and results that were not staged out are kept. Jobs
    that have not ended are kept in a folder beside the home, whose name ends in `-jobs`.
    """


job.add_command(end)
job.add_command(list_jobs)
job.add_command(ornament)
job.add_command(release)
job.add_command(resume)
job.add_command(run)
