"""Judgements of a store now and then, beside a recorder or a room, and the findings that a history keeps of them."""

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


class Judgements:
    """Judgements of a store, one after the other. A thread makes each, as it asks all servers and hosts."""

    def __init__(self, judge: Callable[[], Sequence[Finding]]) -> None:
        """Begin without a judgement.

        Args:
            judge: Finds what is wrong with the store, the gravest first.
        """
        self._judge = judge
        self._lock = threading.Lock()
        self._begun = float("-inf")
        self._thread: threading.Thread | None = None
        self._last: Sequence[Finding] | None = None
        self._values: dict[str, str] | None = None
        self.problem = "the first look at the whole store is not over"
        """The reason why there is no last judgement; empty where there is one."""

    def last(self, wait_seconds: float = 0.0) -> Sequence[Finding] | None:
        """Take the last judgement, and begin the next one when it is time.

        Args:
            wait_seconds: Longest wait for the first one.

        Returns:
            The findings; None before the first judgement has ended, and where no store is up.
        """
        with self._lock:
            is_ended = self._thread is None or not self._thread.is_alive()
            if is_ended and time.monotonic() - self._begun >= EVERY_SECONDS:
                self._begun = time.monotonic()
                self._thread = threading.Thread(target=self._run, name="judgement", daemon=True)
                self._thread.start()
            thread = self._thread
        if self._last is None and thread is not None and wait_seconds:
            thread.join(wait_seconds)
        return self._last

    def values(self) -> Mapping[str, str] | None:
        """Take the last judgement as a history keeps it.

        Returns:
            Level and cause by subject, each as it was first found; None as of `last`.
        """
        self.last()
        return self._values

    def _run(self) -> None:
        try:
            found = self._judge()
        except (WeirError, OSError) as error:
            self._last = self._values = None
            reason = error.line if isinstance(error, WeirError) else str(error)
            self.problem = f"the store cannot be judged: {reason}"
            return
        before = self._values or {}
        values: dict[str, str] = {}
        for each in found[:FINDINGS_MAX]:
            subject = f"{FINDING}{each.code}{_OF}{each.object}"
            was = before.get(subject, "")
            # A cause has figures that change.
            values[subject] = was if was.startswith(f"{each.level}: ") else f"{each.level}: {each.cause}"
        self._last, self._values, self.problem = found, values, ""


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
