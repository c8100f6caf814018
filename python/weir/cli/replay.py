"""`weir replay`: what jobs of the past would have had under another policy."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.history_options import MOMENT, history_option, opened, stretch, warn_of_gaps
from weir.cli.common.output import Quantity, name, output_option, seconds, share, show, size
from weir.cli.common.parameters import Checked
from weir.store import values
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.history.counterfactual import Had, JobReplay, Replay

_HEADER = ("JOB", "USER", "NODES", "HAD/S", "WOULD/S", "CHANGE", "SHARE", "WOULD", "ENDED", "WOULD END", "ERROR")


@click.command()
@click.option("--since", required=True, type=MOMENT, help="Start of the stretch of time.")
@click.option("--until", type=MOMENT, help="End of that stretch.  [default: now]")
@click.option("--policy", required=True, type=Checked("policy", values.policy), help="Policy in question.")
@click.option(
    "--scheduler", type=Checked("scheduler", values.scheduler), help="Scheduler.  [default: that of the policy]"
)
@history_option
@output_option
@click.pass_obj
def replay(
    home: Home, since: str, until: str | None, policy: str, scheduler: str | None, history: Path | None, output: str
) -> None:
    """Show what the jobs of a past stretch of time would have received under another policy.

    The simulator replays the work that `weir record` kept, with the scheduler of the store. HAD/S and WOULD/S are
    bytes per second from the start of a job's work in this time to its end, as recorded and as replayed. SHARE and
    WOULD are fractions of the targets' time, as recorded and as replayed. ENDED and WOULD END count from --since; a
    job that was still at work has no end.

    ERROR is the difference between the record and a replay under the policy that was then in force: in the time to
    the job's end, or in bytes if the job was still at work. The replay assumes that a job does the same work under
    any policy.
    """
    from weir.history.counterfactual import replay as replayed

    begin, end = stretch(since, until)
    found = opened(home, history)
    try:
        result = replayed(found, begin, end, policy, scheduler=scheduler, configuration=_configuration(home))
    finally:
        found.close()
    warn_of_gaps(list(result.gaps))
    if result.error_max is None:
        warn(f"the policy changed in that time ({', '.join(result.policies)}): no error can be computed")
    else:
        then = result.policies[0]
        say(f"replayed under {then}, the policy of then, no job is off by more than {result.error_max:.1%}")
    show(output, _document(result), _HEADER, [_row(job, result.seconds) for job in result.jobs])


def _configuration(home: Home) -> dict[str, Any]:
    """The configuration of the store, whose shares count; nothing where it is gone."""
    from weir.store.configuration import read_toml

    return dict(read_toml(home.configuration)) if home.configuration.exists() else {}


def _row(job: "JobReplay", stretch_seconds: float) -> tuple[object, ...]:
    had, would = job.had.bytes_per_second(stretch_seconds), job.would_have.bytes_per_second(stretch_seconds)
    return (
        name(job.job),
        name(job.user),
        job.nodes,
        size(had),
        size(would),
        Quantity(f"x{would / had:.2f}" if had else "-"),
        share(job.had.share),
        share(job.would_have.share),
        _end(job.had),
        _end(job.would_have),
        Quantity("-" if job.replayed is None else f"{job.had.distance(job.replayed):.1%}"),
    )


def _end(had: "Had") -> Quantity:
    return Quantity("-") if had.ended_seconds is None else seconds(had.ended_seconds)


def _document(result: "Replay") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "policies": list(result.policies),
        "policy": result.policy,
        "seconds": result.seconds,
        "error_max": result.error_max,
        "jobs": [asdict(job) for job in result.jobs],
        "gaps": [{"server": gap.server, "since": gap.begin / 1000, "until": gap.end / 1000} for gap in result.gaps],
    }
