"""Findings in a history: judged now and then beside a recorder, and kept with the decisions."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weir.errors import WeirError
from weir.health.codes import CODES, LEVELS, Finding
from weir.history.reading import History
from weir.history.samples import FINDING

EVERY_SECONDS = 30.0
"""Time between two judgements."""
FINDINGS_MAX = 256
"""Most findings of a judgement that are kept, the gravest."""
_OF = " of "


class Judged:
    """The last judgement. A thread makes each, as it asks all servers and hosts, and a recorder must not wait for it."""

    def __init__(self, judge: Callable[[], Sequence[Finding]]) -> None:
        """Begin without a judgement.

        Args:
            judge: Finds what is wrong with the store, the gravest first.
        """
        self._judge = judge
        self._begun = float("-inf")
        self._thread: threading.Thread | None = None
        self._last: Mapping[str, str] | None = None

    def __call__(self) -> Mapping[str, str] | None:
        """Take the last judgement, and begin the next one when it is time.

        Returns:
            Level and cause by subject, each as it was first found; None before the first judgement has ended.
        """
        is_ended = self._thread is None or not self._thread.is_alive()
        if is_ended and time.monotonic() - self._begun >= EVERY_SECONDS:
            self._begun = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="judgement", daemon=True)
            self._thread.start()
        return self._last

    def _run(self) -> None:
        try:
            found = self._judge()[:FINDINGS_MAX]
        except WeirError:
            # The store is down: the recorder tells of it.
            return
        before = self._last or {}
        now: dict[str, str] = {}
        for each in found:
            subject = f"{FINDING}{each.code}{_OF}{each.object}"
            was = before.get(subject, "")
            # A cause has figures that change.
            now[subject] = was if was.startswith(f"{each.level}: ") else f"{each.level}: {each.cause}"
        self._last = now


@dataclass(frozen=True, slots=True)
class PastFinding:
    """A finding of the past, with its cause as it was first found."""

    code: str
    object: str
    level: str
    cause: str


def found_at(history: History, at: int) -> list[PastFinding]:
    """Find what was wrong at a moment.

    Args:
        at: The moment in Unix milliseconds.

    Returns:
        The findings, the gravest first; none of a time in which nobody judged.
    """
    found = []
    for (_, subject), value in history.in_force(at).items():
        if subject.startswith(FINDING) and value is not None:
            code, _, what = subject.removeprefix(FINDING).partition(_OF)
            level, _, cause = value.partition(": ")
            if code in CODES and level in LEVELS:
                found.append(PastFinding(code, what, level, cause))
    return sorted(found, key=lambda each: (LEVELS.index(CODES[each.code].level), each.code, each.object))
