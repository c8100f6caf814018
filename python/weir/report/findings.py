"""The forms of a report's findings and rules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from weir.report.facts import Facts

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a job."""

    rule: str
    title: str
    words: str
    """The finding as a sentence with its figure."""
    number: float
    unit: str
    seconds: float | None
    """Estimated time that the fault cost; None where no time follows from the facts."""
    confidence: Confidence
    because: str
    """The reason for the confidence."""
    remedy: str
    command: str
    """A command, or a line of a program, that mends it."""
    where: tuple[str, ...] = ()
    """Files, targets or jobs that it concerns, the most important first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    name: str
    title: str
    trigger: str
    """The trigger in words, with its thresholds."""
    source: str
    """The origin of the thresholds."""
    find: Callable[[Facts], "Found | None"]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a trigger that holds."""

    words: str
    number: float
    unit: str
    seconds: float | None
    confidence: Confidence
    because: str
    remedy: str
    command: str
    where: tuple[str, ...] = ()
