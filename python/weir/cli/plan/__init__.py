"""`weir plan`: the storage that a job needs, from the logs of its past runs."""

import click

from weir.cli.common.listing import Listing
from weir.cli.plan.config import show_config
from weir.cli.plan.emit import emit
from weir.cli.plan.explain import explain
from weir.cli.plan.factors import factors
from weir.cli.plan.identity import show_identity
from weir.cli.plan.learned import learned
from weir.cli.plan.resources import show_resources
from weir.cli.plan.run import plan_run
from weir.cli.plan.schema import show_schema
from weir.cli.plan.similar import show_similar
from weir.cli.plan.sslo import show_sslo


@click.group(cls=Listing)
def plan() -> None:
    """Find the storage that a job needs, from the record of a past run.

    LOG is a Darshan log, the trace of `weir run --trace` (its folder, whose last run counts, or one file of it), a
    folder of Recorder with its text, or the text of `darshan-dxt-parser`. `run` records a program and plans for it at
    once, and --history plans a script by the past runs of its program. --job names the job that is to run: a jobspec
    of Flux, in YAML or JSON, or a batch script of Slurm. Each command shows one product of the way from the log to
    the storage: identity, similar, sslo, resources, config, schema. `explain` describes the way in words.
    """


plan.add_command(show_config)
plan.add_command(emit)
plan.add_command(explain)
plan.add_command(factors)
plan.add_command(show_identity)
plan.add_command(learned)
plan.add_command(show_resources)
plan.add_command(plan_run)
plan.add_command(show_schema)
plan.add_command(show_similar)
plan.add_command(show_sslo)
