"""A report as a few lines of text, for the log of a job, and as values for JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from weir.amounts import size_text
from weir.report.facts import Facts, Phase, Predicted, Promise
from weir.report.findings import Finding

_FINDINGS_MAX = 8
"""Most findings of the text; the page has all."""
_PHASES_MAX = 6
_FILES_MAX = 500
"""Most files of the JSON: those with the most accesses."""


def lines_of(facts: Facts, findings: Sequence[Finding]) -> Iterator[str]:
    """Write a report as text.

    Args:
        findings: Faults in these facts, most valuable first.

    Yields:
        The lines.
    """
    yield summary(facts)
    if facts.promise is not None:
        yield promise_words(facts.promise)
    if facts.predicted is not None:
        yield predicted_words(facts.predicted)
    moving = [phase for phase in facts.phases if phase.bytes]
    for phase in sorted(moving, key=lambda each: -each.bytes)[:_PHASES_MAX]:
        yield f"  {phase_words(phase)}"
    for number, finding in enumerate(findings[:_FINDINGS_MAX], start=1):
        cost = "" if finding.seconds is None else f", about {finding.seconds:.1f} s"
        yield f"{number}. {finding.title} ({finding.confidence} confidence{cost}): {finding.words}"
        yield f"   {finding.remedy}"
        yield f"   > {finding.command}"
    if not findings:
        yield "No rule found a fault."
    if len(findings) > _FINDINGS_MAX:
        yield f"{len(findings) - _FINDINGS_MAX} more findings are in the page and in the JSON."
    for sentence in facts.unknown:
        yield f"Not known: {sentence}."


def summary(facts: Facts) -> str:
    """Describe a job in a line."""
    whose = f" of {facts.user}" if facts.user else ""
    ranks = f", {facts.processes:,} processes" if facts.processes and facts.processes > 1 else ""
    return (
        f"{facts.job}{whose}{ranks}: {facts.seconds:.1f} s, {size_text(facts.read_bytes)} read, "
        f"{size_text(facts.written_bytes)} written"
    )


def promise_words(promise: Promise) -> str:
    """Describe what a job was owed and received."""
    policy = f"under {promise.policy}" if promise.policy else "under an unknown policy"
    owed = "nothing is owed" if promise.share_owed is None else f"{promise.share_owed:.1%} of the device time owed"
    received = "" if promise.share_received is None else f", {promise.share_received:.1%} received"
    waited = f"; others had {promise.waited_seconds:.1f} s while it waited" if promise.waited_seconds > 0 else ""
    return f"{policy}: {owed}{received}{waited}"


def predicted_words(predicted: Predicted) -> str:
    """Describe what was predicted."""
    words = f"predicted: a slowdown of two or more in {predicted.slowed} of {predicted.windows} windows"
    if not predicted.slowed:
        return words
    whom = f", mostly for {predicted.responsible}" if predicted.responsible else ""
    return f"{words}, at worst {predicted.worst:g} or more ({predicted.basis}){whom}"


def phase_words(phase: Phase) -> str:
    """Describe a phase."""
    words = (
        f"{phase.begin:.1f} to {phase.end:.1f} s, {phase.kind}: {size_text(phase.bytes)} at "
        f"{size_text(phase.achieved)}/s"
    )
    return words if phase.possible is None else f"{words} of {size_text(phase.possible)}/s possible"


def document(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    """Make a report's values for JSON.

    Args:
        findings: Faults in these facts, most valuable first.
    """
    found = asdict(facts)
    found["files"] = found["files"][:_FILES_MAX]
    return {"findings": [asdict(finding) for finding in findings], **found}
