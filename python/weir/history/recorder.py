"""The loop of a recorder: it asks the servers of a store, and keeps what they answer."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir.history.database import Database
from weir.history.errors import FullDiskError
from weir.history.levels import DAY, KEPT_MIN, SECOND, STATES_EVERY, levels_of
from weir.history.samples import Decisions, Sample, in_force
from weir.interference.collector import Collector

if TYPE_CHECKING:
    from weir.store.answers import Job, Lease, Status
    from weir.store.control import Server

TURN_SECONDS = 1.0
"""Time from one turn to the next, where windows are not longer."""
_SETTLE_SECONDS = 60.0
"""Time from one folding to the next."""
WAITING_MAX = 600
"""Most samples that wait for room on the disk; the oldest ones are lost beyond."""
_SLICE_SECONDS = 0.1
"""Longest time until a signal ends a pause."""


@dataclass
class Recorder:
    """The recorder of a running store.

    Attributes:
        find: Finds the servers there are now.
        database: The history.
        warn: Takes a line about each loss.
        clock: Tells the Unix time in seconds.
    """

    find: "Callable[[], Sequence[Server]]"
    database: Database
    warn: Callable[[str], None]
    clock: Callable[[], float] = time.time
    judged: Callable[[], Mapping[str, str] | None] = lambda: None
    _collector: Collector = field(init=False)
    _accounts: "dict[int, tuple[str, int, tuple[Job, ...]]]" = field(default_factory=dict)
    """Start, moment in milliseconds and job table of each server, as they were last read."""
    _boots: dict[int, str] = field(default_factory=dict)
    _in_force: Decisions = field(default_factory=dict)
    _reached: dict[int, int] = field(default_factory=dict)
    _predicted: int = 0
    """The last window whose predictions were taken."""
    _waiting: deque[Sample] = field(default_factory=deque)
    _lost: int = 0
    """Samples that were lost since the disk is full."""
    _is_full: bool = False
    _is_shortened: bool = False
    _looked: float = float("-inf")
    _settled: float = float("-inf")

    def __post_init__(self) -> None:
        """Go on where the history ends."""
        self._collector = Collector(self.find, self.warn, keeps_parts=True)
        self._reached = self.database.reached()
        self._in_force = self.database.last_decisions()
        self._predicted = self.database.last_prediction()

    def turn(self) -> None:
        """Ask the servers once, and keep what they answer.

        Raises:
            HistoryError: The history cannot be written, and its disk has room.
        """
        self._collector.poll()
        windows = self._collector.take()
        if not self._collector.window_seconds:
            return
        now = self.clock()
        sample = Sample(round(now * 1000), round(self._collector.window_seconds * 1000))
        for number, at_servers in windows:
            sample.add_windows(number, at_servers, self._reached)
        self._reached |= sample.reached
        self._ask(sample)
        if not sample.is_empty:
            self._waiting.append(sample)
        self._keep()
        if time.monotonic() - self._settled >= _SETTLE_SECONDS and not self._is_full:
            self._settle()

    def look_again(self) -> None:
        """Look at the states of devices in the next turn, however short a time ago the last look was."""
        self._looked = float("-inf")

    def pause(self) -> float:
        """The time until the next turn, in seconds."""
        return max(self._collector.window_seconds, TURN_SECONDS)

    def _ask(self, sample: Sample) -> None:
        """Add accounts, states and decisions of the servers that answer; the collector tells of the others."""
        from weir.store.control import ask_all
        from weir.store.errors import StoreError

        has_states = time.monotonic() - self._looked >= STATES_EVERY / SECOND

        def question(server: "Server") -> "tuple[tuple[Job, ...], Lease | None, Status | None]":
            # A lease names jobs of all users.
            may_ask = server.access is not None and server.access.is_administrator
            return server.jobs(), server.lease() if may_ask else None, server.status() if has_states else None

        silent = set(self._collector.silent())
        sample.add_decisions({(number, "answers"): "no" for number in silent}, self._in_force)
        servers = [server for server in self.find() if server.number not in silent]
        for server, answer in zip(servers, ask_all(servers, question), strict=True):
            if isinstance(answer, StoreError):
                self._accounts.pop(server.number, None)
                continue
            jobs, lease, status = answer
            self._add_promises(sample, server.number, jobs)
            if status is not None:
                level, width = self._level_of_states(sample)
                sample.add_state(status, level, width)
            sample.add_decisions(in_force(server.number, lease, status), self._in_force)
            sample.add_decisions({(server.number, "answers"): "yes"}, self._in_force)
        if (findings := self.judged()) is not None:
            sample.add_findings(findings, self._in_force)
        if has_states:
            self._looked = time.monotonic()
        self._add_predictions(sample, servers)

    def _add_predictions(self, sample: Sample, servers: "Sequence[Server]") -> None:
        """Add the predictions of the last window, of the first server that answers: all are told the same."""
        from weir.store.errors import StoreError

        for server in servers:
            try:
                told = server.interference()
            except StoreError:
                continue
            if told.window > self._predicted and round(told.window_seconds * 1000) == sample.window:
                sample.add_predictions(told)
                self._predicted = told.window
            return

    def _add_promises(self, sample: Sample, server: int, jobs: "tuple[Job, ...]") -> None:
        """Add what the accounts of a server gained since the last turn, unless the server was started again."""
        from weir.store.accounts import difference

        boot = self._collector.boot_of(server)
        at = round(self.clock() * 1000)
        before = self._accounts.get(server)
        self._accounts[server] = (boot, at, jobs)
        if before is None or before[0] != boot or at <= before[1]:
            return
        levels = levels_of(sample.window, KEPT_MIN)
        sample.add_promises(difference(jobs, before[2]), before[1], at - before[1], levels)

    def _level_of_states(self, sample: Sample) -> tuple[int, int]:
        levels = levels_of(sample.window, KEPT_MIN)
        found = next((number for number, level in enumerate(levels) if level.width >= STATES_EVERY), 0)
        return found, levels[found].width

    def _keep(self) -> None:
        """Keep the samples that wait, the oldest first."""
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popleft()
            self._lost += 1
        try:
            while self._waiting:
                self.database.add(self._waiting[0])
                self._waiting.popleft()
        except FullDiskError as error:
            if not self._is_full:
                self.warn(
                    f"{error.message}; {error.hint}; the last {WAITING_MAX} turns are kept in memory until"
                    " they can be written"
                )
            self._is_full = True
            return
        if self._is_full:
            self.warn(f"the history is kept again; {self._lost} turns are lost")
            self._is_full, self._lost = False, 0

    def _settle(self) -> None:
        try:
            settled = self.database.settle(round(self.clock() * 1000))
        except FullDiskError:
            # The next turn tells of it.
            return
        self._settled = time.monotonic()
        if settled.shortened is not None and not self._is_shortened:
            days = settled.shortened / DAY
            self.warn(
                f"{self.database.file} is full at its bound and reaches back {days:.1f} days; give a larger --max-size"
            )
        self._is_shortened = settled.shortened is not None


def run(recorder: Recorder, is_over: Callable[[], bool]) -> None:
    """Record a store until it is over.

    Args:
        is_over: Whether to end.

    Raises:
        HistoryError: The history cannot be written.
    """
    while True:
        begun = time.monotonic()
        is_end = is_over()
        recorder.turn()
        if is_end:
            return
        until = begun + recorder.pause()
        while not is_over() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))
