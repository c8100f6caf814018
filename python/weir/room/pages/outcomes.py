"""The section *What runs brought* of the page *Plans*: each run of `weir job run` beside what its plan expected."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weir.amounts import Quantity, clock_time, seconds, share_or_dash
from weir.distribution import install_command
from weir.errors import WeirError
from weir.room.looks import Look
from weir.room.panels import Mark, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor

if TYPE_CHECKING:
    from weir.provisioning.outcomes.outcome import Outcome

_HEADER = ("begun", "program", "storage", "objective", "ended", "of what was expected", "owed", "received", "waited")
_TITLE = "What runs brought"
_LITTLE = 0.8
"""Part of an expected rate below which a run stands out."""


def panel_of(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    """Make the section: runs of the store's owner that began in the stretch of time, for those who see all jobs."""
    if not visitor.sees_all:
        return Panel("outcomes", _TITLE, none="these are for those alone who see the names of all jobs")
    try:
        from weir.provisioning.lifecycle.execution import jobs_folder
        from weir.provisioning.outcomes import archive

        found = archive.read(archive.file_of(jobs_folder(sources.home.root)))
    except ImportError:
        return Panel("outcomes", _TITLE, none=f"runs are read by packages of an extra: `{install_command('planner')}`")
    except WeirError as error:
        return Panel("outcomes", _TITLE, none=error.line)
    shown = [each for each in found if look.since <= each.begun * 1000 < look.until]
    rows = [_row(each) for each in reversed(shown)]
    words = "Rates over those that each plan expected; `weir plan learned` says what later plans take from them."
    return Panel("outcomes", _TITLE, words, table_of(_HEADER, rows), none="no run of `weir job run` began in this time")


def _row(run: "Outcome") -> tuple[Text, ...]:
    parts = dict(_parts(run))
    words = ", ".join(f"{kind} {part:.0%}" for kind, part in parts.items()) or run.fault or "not told"
    return (
        clock_time(run.begun),
        run.planned.program or "-",
        f"{run.system.servers} x {run.system.targets_per_server} {run.system.device} of {run.system.kind}",
        run.sslo,
        Mark("well", "good") if run.exit_code == 0 else Mark(f"exit code {run.exit_code}", "bad"),
        Mark(words, "odd") if parts and min(parts.values()) < _LITTLE else words,
        share_or_dash(run.share_owed),
        share_or_dash(run.share_received),
        seconds(run.wait_seconds) if run.wait_seconds else Quantity("-"),
    )


def _parts(run: "Outcome") -> "Iterator[tuple[str, float]]":
    """The measured rate of each kind of calls over the expected one, where both are known."""
    from weir.provisioning.outcomes.outcome import KINDS, measured_rate

    expected = {
        "read": run.predicted.read_bytes_per_second,
        "write": run.predicted.write_bytes_per_second,
        "metadata": run.predicted.metadata_operations_per_second,
    }
    for kind in KINDS:
        rate, wanted = measured_rate(run, kind), expected[kind]
        if rate is not None and wanted:
            yield kind, rate / wanted
