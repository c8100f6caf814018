"""`weir simulate what-if`: what another setting would do to the jobs of a site."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import FAILED, say, warn
from weir.cli.common.output import Quantity, output_option
from weir.cli.common.parameters import EXISTING_FILE, EXISTING_PATH, Checked, Reader
from weir.cli.simulate.names import TOPOLOGY
from weir.cli.simulate.present import now_of_store
from weir.cli.simulate.words import skip_unreadable_option, skipped_document, tell_remarks
from weir.store import values
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.simulation.intervals import Interval
    from weir.simulation.scenario import Scenario
    from weir.simulation.what_if import Answer, Setting
    from weir.simulation.workload import SkippedLog

NOW = "now"
_TOPOLOGY = "testbed-35"
_SEEDS_MAX = 1000
_TARGETS_MAX = 100_000
_COPIES_MAX = 10_000
_FACTOR_MAX = 10_000
"""Factors from here on are spelled by their order of magnitude."""


def _alternative(name: str) -> Reader:
    """The reader of a setting in question: the function of that name in `weir.simulation.alternatives`."""

    def read(text: str) -> object:
        from weir.simulation import alternatives

        return getattr(alternatives, name)(text)

    return read


@click.command(name="what-if")
@click.option(
    "--logs",
    metavar="PATH",
    multiple=True,
    required=True,
    type=EXISTING_PATH,
    help="A Darshan log, or a folder of logs; may be given again.",
)
@skip_unreadable_option
@click.option("--from-store", is_flag=True, help=("Take the machines and the present settings of the running store."))
@click.option("--topology", metavar="NAME|FILE", type=TOPOLOGY, help=("The present machines.  [default: testbed-35]"))
@click.option(
    "--policy",
    "policies",
    metavar="POLICY",
    multiple=True,
    type=Checked("policy", _alternative("another_policy")),
    help="Another policy; `X by Y` is policy X by scheduler Y.",
)
@click.option(
    "--allocator",
    "allocators",
    metavar="NAME",
    multiple=True,
    type=Checked("allocator", _alternative("another_allocator")),
    help="Another choice of targets.",
)
@click.option(
    "--layout",
    "layouts",
    metavar="LAYOUT",
    multiple=True,
    type=Checked("layout", _alternative("another_layout")),
    help="Another layout of files.",
)
@click.option(
    "--targets",
    metavar="COUNT",
    multiple=True,
    type=click.IntRange(1, _TARGETS_MAX),
    help="Another number of targets on the same servers.",
)
@click.option(
    "--server-dies",
    "deaths",
    metavar="N@T[-T]",
    multiple=True,
    type=Checked("death", _alternative("a_dying_server")),
    help="A server that ends at a moment.",
)
@click.option("--together", "is_together", is_flag=True, help="Make all changes at once, instead of one by one.")
@click.option(
    "--arrivals",
    metavar="FILE",
    type=EXISTING_FILE,
    help="Slurm's accounting, the output of `sacct --parsable2`: when each job ran.",
)
@click.option("--copies", type=click.IntRange(1, _COPIES_MAX), default=1, help="Number of jobs for each log.")
@click.option(
    "--spread",
    metavar="TIME",
    type=Checked("time", values.duration),
    help="Time over which jobs arrive.  [default: that of the longest job alone]",
)
@click.option("--seeds", type=click.IntRange(1, _SEEDS_MAX), default=5, help="Number of runs of each setting.")
@click.option("--mode", type=click.Choice(["flow", "request"]), default="flow", help="The model.")
@output_option
@click.pass_obj
def what_if(home: Home, /, output: str, seeds: int, is_together: bool, spread: str | None, **options: Any) -> int:
    """Compare settings of a store by the site's own logs.

    The first row is the present setting, each further row another one, with the mean over seeds and its 95% interval.
    A seed draws the arrival times of the jobs, unless --arrivals gives them.
    """
    from weir.cli.common.progress import progress
    from weir.simulation.what_if import ask

    settings = _settings(options, is_together=is_together)
    now = _now(home, options)
    tell_remarks(now.workload)
    spread_seconds = 0.0 if options["arrivals"] is not None else None if spread is None else values.duration(spread)
    with progress() as show:
        answers = ask(now, settings, seeds=range(seeds), spread_seconds=spread_seconds, progress=show)
    _show(answers, seeds, now.workload.skipped, output)
    return _tell_unfinished(answers)


def _settings(options: dict[str, Any], *, is_together: bool) -> "list[Setting]":
    from weir.simulation import alternatives

    settings = [
        *(alternatives.another_policy(text) for text in options["policies"]),
        *(alternatives.another_allocator(name) for name in options["allocators"]),
        *(alternatives.another_layout(text) for text in options["layouts"]),
        *(alternatives.another_number_of_targets(count) for count in options["targets"]),
        *(alternatives.a_dying_server(text) for text in options["deaths"]),
    ]
    if not settings:
        raise click.UsageError(
            "there is nothing to compare: give --policy, --allocator, --layout, --targets, or --server-dies"
        )
    return [alternatives.together(settings)] if is_together else settings


def _now(home: Home, options: dict[str, Any]) -> "Scenario":
    """The scenario of now: the machines and settings of the store or of a topology, and the work of the logs."""
    from weir.simulation.documents import Document
    from weir.simulation.scenario import scenario_of

    if options["from_store"] and options["topology"] is not None:
        raise click.UsageError("give --from-store or --topology, not both")
    logs, accounting = options["logs"], options["arrivals"]
    if accounting is not None and len(logs) > 1:
        raise click.UsageError("with --arrivals give one folder of logs")
    if accounting is not None and options["copies"] > 1:
        raise click.UsageError("--arrivals tells which jobs ran; leave --copies out")
    unreadable = "skip" if options["skip_unreadable"] else "error"
    if accounting is None:
        tables = [{"log": str(path), "count": options["copies"], "unreadable": unreadable} for path in logs]
        work: dict[str, Any] = {"jobs": tables}
    else:
        work = {"accounting": [{"file": str(accounting), "logs": str(logs[0]), "unreadable": unreadable}]}
    machines = now_of_store(home) if options["from_store"] else {"topology": options["topology"] or _TOPOLOGY}
    document = Document({**machines, **work, "mode": options["mode"]}, {}, origin="what-if", folder=Path())
    return scenario_of(document)


def _tell_unfinished(answers: "Sequence[Answer]") -> int:
    """Name the settings with which jobs did not end; return the exit code."""
    is_whole = True
    for answer in answers:
        jobs = sum(run.jobs for run in answer.runs)
        left = jobs - sum(run.jobs_complete for run in answer.runs)
        if left:
            is_whole = is_whole and answer.name != NOW
            warn(f"{answer.name}: {left} of {jobs} jobs did not end, so their slowdowns are not counted")
    return 0 if is_whole else FAILED


def _show(answers: "Sequence[Answer]", seeds: int, skipped: "Sequence[SkippedLog]", output: str) -> None:
    from weir.cli.common.output import show
    from weir.simulation.intervals import LEVEL, METHOD

    rows = [_row(answer) for answer in answers]
    header = ("SETTING", "ENDED", "SLOWED", "MOST SLOWED", "MB/S", "ASTRAY", "COST", "SLOWED BESIDE NOW")
    document = {
        "version": 1,
        "interval": {"level": LEVEL, "method": METHOD, "seeds": seeds},
        "skipped_logs": skipped_document(skipped),
        "settings": [_document(answer) for answer in answers],
    }
    show(output, document, header, rows)
    if output == "table":
        count = f"{seeds} seed{'s' * (seeds > 1)}"
        say(f"means over {count}" + (f", with {LEVEL:.0%} intervals ({METHOD})" if seeds > 1 else ""))


def _document(answer: "Answer") -> dict[str, Any]:
    scenario = answer.scenario
    return {
        "name": answer.name,
        "policy": scenario.policy,
        "scheduler": scenario.scheduler,
        "allocator": scenario.allocator,
        "layout": scenario.layout,
        "targets": scenario.topology.targets,
        "faults": [fault.document() for fault in scenario.faults],
        "figures": {key: _interval(found) for key, found in answer.figures.items()},
        "beside_now": {key: _interval(found) for key, found in answer.ratios.items()},
        "runs": [dataclasses.asdict(run) for run in answer.runs],
    }


def _interval(found: "Interval | None") -> dict[str, Any] | None:
    return None if found is None else dataclasses.asdict(found)


def _row(answer: "Answer") -> tuple[Any, ...]:
    figures = answer.figures
    ended, jobs = sum(run.jobs_complete for run in answer.runs), sum(run.jobs for run in answer.runs)
    return (
        answer.name,
        Quantity(f"{ended}/{jobs}"),
        _about(figures["io_slowdown_mean"], 1.0, 2),
        _about(figures["io_slowdown_max"], 1.0, 2),
        _about(figures["bytes_per_second"], 1e-6, 1),
        _about(figures["share_error"], 100.0, 1, "%"),
        _about(figures["target_cost"], 1.0, 2),
        Quantity(spelled_ratio(answer.ratios["io_slowdown_mean"]) if answer.name != NOW else "-"),
    )


def _about(found: "Interval | None", factor: float, digits: int, unit: str = "") -> Any:
    """A mean with the half of its interval."""
    if found is None:
        return Quantity("-")
    mean = f"{factor * found.mean:.{digits}f}"
    half = "" if found.high is None else f" ±{factor * (found.high - found.mean):.{digits}f}"
    return Quantity(f"{mean}{half}{unit}")


def spelled_ratio(found: "Interval | None") -> str:
    """Spell a factor with its interval, which is not even around it.

    Args:
        found: The factor, or None where there is none.

    Returns:
        The words.
    """
    if found is None:
        return "-"
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {_end(found.high)})"
    return f"x{found.mean:.2f}{ends}"


def _end(factor: float) -> str:
    """The upper end of an interval. Where few seeds differ much, its order of magnitude is enough."""
    return f"{factor:.2f}" if factor < _FACTOR_MAX else f"{factor:.0e}"
