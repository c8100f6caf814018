"""`weir plan learned`: what earlier runs tell later plans."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import say
from weir.cli.common.known_outcomes import known_outcomes
from weir.cli.common.output import Quantity, output_option, seconds, share_or_dash, show
from weir.cli.common.parameters import FILE, Checked
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.objectives.sslos import SsloTable
    from weir.provisioning.outcomes.outcome import Outcome

_HEADER = ("JOB", "PROGRAM", "DEVICE", "RUNS", "SILENT", "TIME", "FROM", "TO", "OWED", "RECEIVED", "WAITED")


def _read_job(text: str) -> None:
    if text != "all" and not re.fullmatch(r"[0-9a-f]{32}", text):
        raise ValueError(f"{text!r:.40} is no key of a job, which has 32 digits; JOB of `weir plan learned` shows them")


_JOB = Checked("job", _read_job)


@click.command(name="learned")
@click.option("--sslos", "sslos_file", type=FILE, help="Objectives to compare the runs with.")
@click.option("--forget", metavar="JOB", type=_JOB, help="Forget the runs of a job by its key, or of `all` jobs.")
@click.option("--yes", is_flag=True, help="Do not ask before runs are forgotten.")
@output_option
@click.pass_obj
def learned(home: Home, sslos_file: Path | None, forget: str | None, yes: bool, output: str) -> None:
    """Show what later plans learn from earlier runs of `weir job run`.

    TIME is the measured time of a job's I/O on such devices over the predicted time; four in five further runs are
    expected between FROM and TO. SILENT counts runs from which nothing could be learned. OWED and RECEIVED are the
    shares of the last run, and WAITED is the time that its requests waited for their turn. --output json has also the
    guarantees of objectives and the interference factors with their intervals, the demand for devices, and the
    classes of behaviour.
    """
    if forget is not None:
        _forget(home, forget, yes=yes)
    outcomes = known_outcomes(home.root)
    document = _document(outcomes, _table(sslos_file))
    rows = [
        (
            each["job"],
            each["program"],
            each["device"],
            each["runs"],
            each["silent_runs"],
            *(Quantity(f"{each[name]:.2g}") if each["runs"] else "-" for name in ("ratio", "low", "high")),
            *(share_or_dash(each[name]) for name in ("share_owed", "share_received")),
            seconds(each["wait_seconds"]),
        )
        for each in document["jobs"]
    ]
    show(output, document, _HEADER, rows)


def _forget(home: Home, job: str, *, yes: bool) -> None:
    from weir.cli.common.confirmation import confirm
    from weir.provisioning.lifecycle.execution import jobs_folder
    from weir.provisioning.outcomes import archive

    confirm(f"forget the runs of {'all jobs' if job == 'all' else job}", yes=yes)
    count = archive.forget(archive.file_of(jobs_folder(home.root)), "" if job == "all" else job)
    say(f"forgot {count} {'run' if count == 1 else 'runs'}")


def _table(file: Path | None) -> "tuple[SsloTable, SsloTable]":
    """The objectives, and the measurements behind them."""
    from weir.provisioning.objectives import shipped, sslo_tables

    if file is None:
        return shipped.built_in(), sslo_tables.measured()
    table = sslo_tables.read_table(file)
    return table, table


def _document(outcomes: "tuple[Outcome, ...]", tables: "tuple[SsloTable, SsloTable]") -> dict[str, Any]:
    from weir.cli.common.job_identity import document
    from weir.provisioning.behaviour.classes import built_in
    from weir.provisioning.objectives.sslo_tables import simulated
    from weir.provisioning.outcomes.history import with_demand, with_history
    from weir.provisioning.planning.corrections import Corrections, group_of
    from weir.provisioning.planning.learned_factors import learned_factors
    from weir.provisioning.planning.performance import PerformanceModel
    from weir.provisioning.planning.selection import default_prices, known_factors

    model = PerformanceModel(tables[1].sslos, simulated().sslos)
    last = {(each.job, group_of(each.system)): each for each in outcomes}
    jobs = []
    for (job, _), each in last.items():
        told = Corrections(model, outcomes, job, {}).learned(each.system, each.planned)
        if told is not None:
            row = {"job": job, "program": each.planned.program, "class": each.behaviour_class}
            row |= {"system": each.system.kind, "device": each.system.device, **document(told)}
            row |= {name: getattr(each, name) for name in ("share_owed", "share_received", "wait_seconds")}
            jobs.append(row)
    corrections = Corrections(model, outcomes, "", {})
    factors = set(learned_factors(known_factors(), outcomes, corrections).factors) - set(known_factors().factors)
    return {
        "jobs": jobs,
        "objectives": [document(each) for each in corrections.guarantees(tables[0])],
        "factors": [document(each) for each in sorted(factors, key=lambda each: (each.one, each.other))],
        "demand": document(with_demand(default_prices(), outcomes, time.time()).demands),
        "classes": [
            {"name": each.name, "jobs_fraction": each.jobs_fraction}
            for each in with_history(built_in(), outcomes).classes
        ],
    }
