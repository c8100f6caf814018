"""The sources of the room: the servers of the store at present, and its history."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from weir.errors import WeirError
from weir.health.codes import Finding
from weir.history.errors import NoHistoryError
from weir.history.judgements import Judgements
from weir.history.reading import History, JobPast
from weir.room.looks import Look
from weir.store.activity import Interval, Sample, interval, sample_of
from weir.store.answers import Status
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.line_journal import Entry, LineJournal
from weir.store.placement_journal import MOVES, PLACED_RUNS, Move, PlacedRun
from weir.store.predictions import Predictions
from weir.store.quotas import OwnerQuota, merge
from weir.store.step_journal import JOURNAL, StepEntry

Answer = TypeVar("Answer")

INTERVAL_SECONDS = 1.0
"""Time between two questions to the servers, however many visitors look."""
_PAST_MILLISECONDS = 10_000
"""Time for which sums over a stretch that ends now are not made again."""
_JOURNALS_MILLISECONDS = 2_000
"""Time for which journals are not read again."""
ANSWERS_MAX = 16
"""Most answers of the history that are kept."""
ANSWER_SECONDS = 1.5
"""Longest time for which a page waits for a server: one that is cut off keeps nobody from what the others know."""
FIRST_JUDGEMENT_SECONDS = 1.0
"""Longest time for which a page waits for the first judgement of the store."""
QUOTAS_SECONDS = 5.0
"""Time between two questions for quotas, which list every owner."""
_FIRST_SECONDS = 0.3
"""Length of the first interval, which somebody waits for."""
_STALE_SECONDS = 10.0
"""Age from which a sample is no begin of an interval any more."""


@dataclass(frozen=True, slots=True)
class Present:
    """What the servers know at present.

    Attributes:
        interval: The work of the last second; None where no store is up.
        states: State of each server that answered.
        problem: Why nothing is known; empty where something is.
    """

    interval: Interval | None
    states: tuple[Status, ...]
    problem: str = ""


@dataclass
class Sources:
    """The sources of all pages.

    Attributes:
        find: Finds the servers that there are now.
        folder: Folder of the history.
        judge: Finds what is wrong with the store.
        home: The store's home, in which programs and commands keep their journals.
    """

    find: Callable[[], Sequence[Server]]
    folder: Path
    judge: Callable[[], Sequence[Finding]]
    home: Home
    judgements: Judgements = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sample: Sample | None = None
    _present: Present | None = None
    _asked_at: float = float("-inf")
    """Moment at which the last answers of the servers were there, or their error."""
    _reading: threading.RLock = field(default_factory=threading.RLock)
    _answers: dict[Hashable, Any] = field(default_factory=dict)
    """Answers of the history by their keys, the oldest first."""
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _quotas: tuple[float, list[OwnerQuota]] | None = None
    """Moment and quotas of the last question."""
    _noting: threading.Lock = field(default_factory=threading.Lock)
    _noted: dict[str, tuple[Hashable, list[Any]]] = field(default_factory=dict)
    """The last stretch of time of which each journal was read, and its entries, by the journal's ending."""

    def __post_init__(self) -> None:
        """Begin without a judgement."""
        self.judgements = Judgements(self.judge)

    def present(self) -> Present:
        """Ask the servers, unless somebody asked within the last second."""
        with self._lock:
            now = time.monotonic()
            if self._present is not None and now - self._asked_at < INTERVAL_SECONDS:
                return self._present
            last = self._sample
            try:
                self._present = self._asked(last if last and now - last.time_seconds < _STALE_SECONDS else None)
            except WeirError as error:
                self._sample = None
                self._present = Present(None, (), error.line)
            self._asked_at = time.monotonic()
            return self._present

    def prompt(self) -> list[Server]:
        """The servers, none of which a page waits for longer than `ANSWER_SECONDS`.

        Raises:
            StoreError: No store is up.
        """
        return [replace(server, timeout_seconds=ANSWER_SECONDS) for server in self.find()]

    def findings(self) -> Sequence[Finding]:
        """Find what was wrong with the store at the last judgement; the first one is waited for a while.

        Returns:
            The findings, the gravest first; none where no store is up.
        """
        return self.judgements.last(FIRST_JUDGEMENT_SECONDS) or ()

    def quotas(self) -> list[OwnerQuota]:
        """Ask for the use and the limits of users and groups, of the servers that answer, unless somebody did just now.

        Raises:
            StoreError: No store is up.
        """
        with self._counting:
            now = time.monotonic()
            if self._quotas is None or now - self._quotas[0] > QUOTAS_SECONDS:
                answers = ask_all(self.prompt(), Server.quotas)
                self._quotas = (now, merge(each for each in answers if not isinstance(each, StoreError)))
            return self._quotas[1]

    def predictions(self) -> Predictions | None:
        """The slowdowns that somebody predicts now; None where nobody does, or no server answers."""
        try:
            answers = ask_all(self.prompt(), Server.interference)
        except WeirError:
            return None
        told = [each for each in answers if isinstance(each, Predictions) and each.window]
        return max(told, key=lambda each: each.window, default=None)

    def past_jobs(self, look: Look) -> list[JobPast]:
        """Add up what the history knows of each job; none where there is no history."""
        key = ("jobs", *self.past_key(look))
        return self.kept(key, lambda history: history.jobs(look.since, look.until)) or []

    def past_key(self, look: Look) -> tuple[str, int]:
        """The key of sums over a stretch: sums over one that ends now stay as they are for a while."""
        return look.span, look.until // _PAST_MILLISECONDS

    def steps(self, look: Look) -> list[StepEntry]:
        """Read the steps of adaptive streams that programs noted."""
        return self._read(JOURNAL, self.home.step_journals, look)

    def placed_runs(self, look: Look) -> list[PlacedRun]:
        """Read what became of the creations of runs under predictions."""
        return self._read(PLACED_RUNS, self.home.placement_journals, look)

    def moves(self, look: Look) -> list[Move]:
        """Read how far moves of stripes were, each as it was noted last."""
        noted = self._read(MOVES, self.home.placement_journals, look)
        return list({(each.host, each.pid, each.begun): each for each in noted}.values())

    def _read(self, journal: LineJournal[Entry], folder: Path, look: Look) -> list[Entry]:
        """Read a journal, unless the same was read just now."""
        with self._noting:
            key = (look.span, look.until // _JOURNALS_MILLISECONDS)
            known = self._noted.get(journal.ending)
            if known is None or known[0] != key:
                known = (key, journal.read(folder, look.since / 1000, look.until / 1000))
                self._noted[journal.ending] = known
            return known[1]

    def kept(self, key: Hashable, make: Callable[[History], Answer]) -> Answer | None:
        """Ask the history, unless it was asked the same a short while ago: many visitors look at the same.

        Args:
            key: Name of the question and all that its answer depends on.
            make: Finds the answer.

        Returns:
            The answer; None where there is no history.
        """
        with self._reading:
            if key not in self._answers:
                with self.history() as history:
                    answer = None if history is None else make(history)
                while len(self._answers) >= ANSWERS_MAX:
                    del self._answers[next(iter(self._answers))]
                self._answers[key] = answer
            found: Answer | None = self._answers[key]
            return found

    @contextmanager
    def history(self) -> Iterator[History | None]:
        """Open the history.

        Yields:
            The history; None where there is none.
        """
        try:
            found = History(self.folder)
        except NoHistoryError:
            yield None
            return
        try:
            yield found
        finally:
            found.close()

    def _asked(self, before: Sample | None) -> Present:
        servers = self.prompt()
        if before is None:
            before = sample_of(servers)
            time.sleep(_FIRST_SECONDS)
        after = sample_of(servers)
        self._sample = after
        return Present(interval(before, after), tuple(after.status.values()))
