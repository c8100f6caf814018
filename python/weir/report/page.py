"""A report as one page of HTML, which needs nothing from elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weir.amounts import clock_time, size_text
from weir.distribution import install_command
from weir.plain_text import plain
from weir.report.errors import ReportError
from weir.report.facts import Facts, Transfers
from weir.report.findings import Finding
from weir.report.rules import RULES
from weir.report.words import phase_words, predicted_words, promise_words, summary

ROWS_MAX = 40
"""Most rows of a table of the page, which is printed whole; the JSON has more."""
EXTRA, FIGURES_EXTRA = "report", "plots"
"""Extras with the library for the page, and with that for its figures."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page."""

    name: str
    """Name of its section, unique in the page."""
    title: str
    words: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    """Columns of numbers."""
    svg: str = ""
    further: int = 0
    """Rows that are left out."""


def page(facts: Facts, findings: Sequence[Finding]) -> str:
    """Write a report as a page.

    Args:
        findings: Faults in these facts, most valuable first.

    Returns:
        The page as HTML, without a script and without anything from elsewhere. Figures are there if matplotlib is.

    Raises:
        ReportError: The library for templates is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ReportError(
            "the page needs the package jinja2, which is not installed", hint=install_command(EXTRA)
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weir.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    has_figures = _has_figures()
    return environment.get_template("page.html").render(
        title=f"{facts.job} - {summary(facts).partition(': ')[2]}",
        job=facts.job,
        summary=summary(facts),
        begun=clock_time(facts.begin),
        facts=facts,
        cards=list(_cards(facts)),
        findings=findings,
        tables=list(_tables(facts, has_figures)),
        rules=RULES,
        missing="" if has_figures else f"The figures need matplotlib: {install_command(FIGURES_EXTRA)}",
    )


def _has_figures() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _cards(facts: Facts) -> Iterator[tuple[str, str]]:
    """The figures at the top, each with its title."""
    yield "time", f"{facts.seconds:.1f} s"
    yield "read", size_text(facts.read_bytes)
    yield "written", size_text(facts.written_bytes)
    promise = facts.promise
    if promise is None:
        return
    if promise.share_owed is not None:
        yield "share owed", f"{promise.share_owed:.1%}"
    if promise.share_received is not None:
        yield "share received", f"{promise.share_received:.1%}"
    if promise.device_seconds > 0:
        yield "slowed by others", f"x {1 + promise.waited_seconds / promise.device_seconds:.2f}"


def _tables(facts: Facts, has_figures: bool) -> Iterator[Table]:
    builders = (_phases, _waits, _targets, _accesses, _files)
    for builder in builders:
        table = builder(facts, has_figures)
        if table is not None:
            yield table


def _phases(facts: Facts, has_figures: bool) -> Table | None:
    phases = facts.phases
    if not phases:
        return None
    rows = tuple(
        (
            f"{phase.begin:.1f}", f"{phase.end:.1f}", phase.kind, f"{phase.operations:,}", size_text(phase.bytes),
            f"{size_text(phase.achieved)}/s", _rate(phase.owed), _rate(phase.possible), f"{phase.waited_seconds:.1f}",
        )
        for phase in phases
    )  # fmt: skip
    greatest = max(phases, key=lambda phase: phase.bytes)
    words = f"The phase that moved most: {phase_words(greatest)}. Possible is {facts.possible_by}."
    return Table(
        "phases", "Phases: achieved and possible", words,
        ("from s", "to s", "kind", "requests", "moved", "achieved", "owed", "possible", "waited s"), rows,
        (0, 1, 3, 4, 5, 6, 7, 8), _figure("timeline", facts, words, has_figures),
    )  # fmt: skip


def _waits(facts: Facts, has_figures: bool) -> Table | None:
    sums: dict[tuple[str, str], list[float]] = {}
    for wait in facts.waits:
        place = sums.setdefault((wait.job, wait.user), [0.0, wait.begin, wait.begin])
        place[0] += wait.seconds
        place[2] = wait.begin
    if facts.promise is None and not sums:
        return None
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    rows = tuple(
        (plain(job) or "not named", plain(user), f"{seconds:.2f}", f"{first:.1f}", f"{last:.1f}")
        for (job, user), (seconds, first, last) in ordered
    )
    owed = [] if facts.promise is None else [promise_words(facts.promise)]
    told = "nobody predicted slowdowns (`weir interference serve` does)"
    predicted = [told if facts.predicted is None else predicted_words(facts.predicted)] if facts.is_store else []
    words = " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in (*owed, *predicted))
    return Table(
        "waits", "Whom it waited for, and when", words, ("job", "user", "waited s", "first at s", "last at s"),
        rows[:ROWS_MAX], (2, 3, 4), further=max(len(rows) - ROWS_MAX, 0),
    )  # fmt: skip


def _targets(facts: Facts, has_figures: bool) -> Table | None:
    if not facts.targets:
        return None
    ordered = sorted(facts.targets, key=lambda target: (target.is_metadata, -target.bytes, target.name))
    rows = tuple(
        (
            target.name, f"{target.operations:,}", size_text(target.bytes), f"{target.seconds:.2f}",
            f"{size_text(target.bytes / target.seconds)}/s" if target.seconds > 0 and target.bytes else "-",
            f"{target.waited_seconds:.2f}", "-" if target.fill is None else f"{target.fill:.0%}",
            ", ".join(word for word, is_so in (("slow", target.is_slow), ("failed", target.is_failed)) if is_so) or "-",
        )
        for target in ordered
    )  # fmt: skip
    words = (
        "Time at work is the time of the target for this job alone; its rate is the bytes over that time."
        if facts.promise is not None
        else "The time is that of requests, as the job's own processes counted it."
    )
    return Table(
        "targets", "Targets", words,
        ("target", "requests", "moved", "at work s", "rate", "for others s", "full", "state"), rows[:ROWS_MAX],
        (1, 2, 3, 4, 5, 6), _figure("targets", facts, words, has_figures), max(len(rows) - ROWS_MAX, 0),
    )  # fmt: skip


def _accesses(facts: Facts, has_figures: bool) -> Table | None:
    found = facts.accesses
    if not found.reads.operations and not found.writes.operations and not found.metadata:
        return None
    rows = (
        _access_row("reads", found.reads),
        _access_row("writes", found.writes),
        ("other requests", f"{found.metadata:,}", "-", "-", "-", "-", f"{found.metadata_seconds:.2f}"),
    )
    counted = "Each call was counted." if found.is_exact else "Sizes are the means of windows at each target."
    aligned = f" {found.unaligned:,} of {found.alignable:,} accesses begin within a block." if found.alignable else ""
    words = counted + aligned
    return Table(
        "accesses", "Accesses: small, astray, unaligned, metadata", words,
        ("kind", "number", "moved", "mean", "below 1 MiB", "astray", "time s"), rows, (1, 2, 3, 4, 5, 6),
        _figure("accesses", facts, words, has_figures),
    )  # fmt: skip


def _access_row(title: str, each: Transfers) -> tuple[str, ...]:
    return (
        title, f"{each.operations:,}", size_text(each.bytes), size_text(each.bytes / max(each.operations, 1)),
        f"{each.small / each.sized:.0%}" if each.sized else "-",
        f"{each.astray / each.placed:.0%}" if each.placed else "-", f"{each.seconds:.2f}",
    )  # fmt: skip


def _files(facts: Facts, has_figures: bool) -> Table | None:
    if not facts.files:
        return None
    rows = tuple(
        (
            plain(file.path), size_text(file.size_bytes), size_text(file.read_bytes), size_text(file.written_bytes),
            f"{file.operations:,}", f"{file.small:,}", f"{file.astray:,}", f"{file.unaligned:,}", f"{file.processes:,}",
            _few(file.targets),
        )
        for file in facts.files[:ROWS_MAX]
    )  # fmt: skip
    return Table(
        "files", "Files, and where they lie", "Those with the most accesses come first.",
        ("file", "size", "read", "written", "accesses", "small", "astray", "unaligned", "processes", "targets"), rows,
        (1, 2, 3, 4, 5, 6, 7, 8), further=max(len(facts.files) - ROWS_MAX, 0),
    )  # fmt: skip


def _few(targets: Sequence[str]) -> str:
    if not targets:
        return "-"
    return ", ".join(targets) if len(targets) <= 6 else f"{', '.join(targets[:5])} and {len(targets) - 5} more"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{size_text(rate)}/s"


def _figure(name: str, facts: Facts, words: str, has_figures: bool) -> str:
    if not has_figures:
        return ""
    from weir.report import figures

    draw: Any = getattr(figures, name)
    return draw(facts, words) or ""
