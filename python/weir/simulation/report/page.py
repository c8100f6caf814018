"""The page: an overview of the runs, then its sections."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir.simulation.errors import SimulationError
from weir.simulation.report import jobs, machines
from weir.simulation.report.section import ROWS_MAX, Cell, Section, megabytes
from weir.simulation.report.template import check_libraries, rendered

if TYPE_CHECKING:
    from weir.simulation.records import Record

_TEMPLATE = "page.html"


def page(records: "Sequence[Record]") -> str:
    """Write a page about runs.

    Args:
        records: The runs, with distinct names, of one workload.

    Returns:
        The page as HTML, which needs nothing from elsewhere and runs no script.

    Raises:
        SimulationError: The runs cannot be compared, or a library that draws is not installed.
    """
    check_libraries()
    _check(records)
    interrupted = [record.name for record in records if record.outcome.is_interrupted]
    words = f"Ended early by the user: {', '.join(interrupted)}. The figures have what was done until then."
    return rendered(
        _TEMPLATE,
        title=" · ".join(record.name for record in records) if len(records) <= 3 else f"{len(records)} runs",
        names=[record.name for record in records],
        settings=_settings(records),
        overview=_overview(records),
        sections=sections(records),
        rows_max=ROWS_MAX,
        warnings=[words] if interrupted else [],
    )


def sections(records: "Sequence[Record]") -> list[Section]:
    """Draw all figures of runs.

    Args:
        records: The runs, with distinct names, of one workload.

    Returns:
        The sections that the runs have something for, in their order on the page.
    """
    found = [
        jobs.slowdowns(records),
        jobs.bandwidths(records),
        jobs.shares(records),
        jobs.device_times(records),
        machines.target_map(records),
        machines.servers(records),
        machines.uses(records),
    ]
    return [section for section in found if section is not None]


def _check(records: "Sequence[Record]") -> None:
    first = records[0]
    for record in records:
        if not record.jobs or not record.outcome.targets or not record.outcome.servers:
            raise SimulationError(f"{record.name} has no jobs or no machines", hint="run the scenario again")
        if [job.name for job in record.jobs] != [job.name for job in first.jobs]:
            raise SimulationError(
                f"{record.name} ({len(record.jobs)} jobs) has other jobs than {first.name} ({len(first.jobs)} jobs)",
                hint="a page compares runs of one workload; make a page for each",
            )


def _settings(records: "Sequence[Record]") -> list[tuple[str, list[str]]]:
    """The settings of the runs, those of one value in all runs as well."""
    titles = {
        "topology": "Topology",
        "client_nodes": "Client nodes",
        "servers": "Servers",
        "targets": "Targets",
        "policy": "Policy",
        "scheduler": "Scheduler",
        "allocator": "Allocator",
        "stripe_count": "Stripes of a file (0: all targets)",
        "stripe_bytes": "Bytes of a stripe",
        "lambda_seconds": "Exchange interval (s)",
        "exchange_loss": "Lost exchanges",
        "mode": "Model",
        "seed": "Seed",
        "faults": "Faults",
    }
    return [(title, [_setting(record.settings.get(key)) for record in records]) for key, title in titles.items()]


def _setting(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, list):
        return "; ".join(_fault(each) for each in value) or "none"
    return str(value)


def _fault(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    kind = fault.get("kind")
    words = " ".join(f"{name} {value}" for name, value in kind.items()) if isinstance(kind, dict) else str(kind)
    place = (
        f"{fault.get('server')}.{fault.get('target')}" if isinstance(kind, dict) else f"server {fault.get('server')}"
    )
    return f"{place} {words} at {fault.get('at_seconds')} s"


def _overview(records: "Sequence[Record]") -> list[tuple[str, list[Cell]]]:
    figures = [record.figures for record in records]
    rows: list[tuple[str, list[Cell]]] = [
        ("Jobs that ended", [f"{one.jobs_complete} of {one.jobs}" for one in figures]),
        ("Time of the run (s)", [one.seconds for one in figures]),
        ("Slowdown of I/O, mean", [one.io_slowdown_mean for one in figures]),
        ("Slowdown of I/O, median", [one.io_slowdown_median for one in figures]),
        ("Slowdown of I/O, most", [one.io_slowdown_max for one in figures]),
        ("Slowdown of the jobs, mean", [one.slowdown_mean for one in figures]),
        ("All jobs together (MB/s)", [one.bytes_per_second / 1e6 for one in figures]),
        ("A job in its I/O, mean (MB/s)", [megabytes(one.job_bytes_per_second) for one in figures]),
        ("Device time astray from the policy", [_percentage(one.share_error) for one in figures]),
        ("Target cost (OST cost)", [one.target_cost for one in figures]),
        ("Targets busy, mean", [f"{100 * one.target_busy:.1f}%" for one in figures]),
    ]  # fmt: skip
    refused = [one.refused_files for one in figures]
    return [*rows, ("Files refused for lack of room", list(refused))] if any(refused) else rows


def _percentage(part: float | None) -> str | None:
    return None if part is None else f"{100 * part:.2f}%"
