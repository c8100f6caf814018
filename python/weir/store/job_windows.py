"""The last windows of one job on all servers: what it received, for whom it waited, and how much it was slowed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from weir.amounts import Quantity, seconds, size
from weir.html_table import html_table
from weir.store.answers import WaitedFor
from weir.store.observations import ObservedJob, Window, Windows, measured_slowdown

_HEADER = ("window", "read", "written", "received", "waited", "slowdown", "waited most for")


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The work of a job in one window, on all servers."""

    begin_seconds: float
    """Begin of the window, in Unix time."""
    read_bytes: int
    """Bytes of reads that were completed."""
    written_bytes: int
    """Bytes of writes that were completed."""
    received_seconds: float
    """Device time that the job received."""
    waited_seconds: float
    """Device time that others received while the job had requests queued."""
    waited_for: tuple[WaitedFor, ...]
    """Jobs that the job waited for, the longest first; further ones are in `waited_seconds` alone."""

    @property
    def slowdown(self) -> float | None:
        """Time received and waited over the time received, 1 where nobody slowed the job; None without work."""
        return measured_slowdown(self.received_seconds, self.waited_seconds)


class JobWindows(Sequence[JobWindow]):
    """The last windows of a job, the oldest first; a notebook shows them as a table.

    Attributes:
        job: Name of the job.
        window_seconds: Length of a window.
    """

    def __init__(self, job: str, window_seconds: float, windows: Iterable[JobWindow]) -> None:
        """Keep the windows of a job.

        Args:
            windows: The windows, the oldest first.
        """
        self.job = job
        self.window_seconds = window_seconds
        self._windows = tuple(windows)

    @overload
    def __getitem__(self, place: int) -> JobWindow: ...

    @overload
    def __getitem__(self, place: slice) -> "JobWindows": ...

    def __getitem__(self, place: int | slice) -> "JobWindow | JobWindows":
        """The window at a place, or the windows of a slice."""
        if isinstance(place, slice):
            return JobWindows(self.job, self.window_seconds, self._windows[place])
        return self._windows[place]

    def __len__(self) -> int:
        """The number of windows."""
        return len(self._windows)

    def __repr__(self) -> str:
        """The job, its windows and its slowdown."""
        slowdown = "unknown" if self.slowdown is None else f"{self.slowdown:.2f}"
        return f"<{len(self)} windows of {self.job}, slowdown {slowdown}>"

    @property
    def received_seconds(self) -> float:
        """Device time that the job received in all windows."""
        return sum(window.received_seconds for window in self)

    @property
    def waited_seconds(self) -> float:
        """Device time that others received in all windows while the job had requests queued."""
        return sum(window.waited_seconds for window in self)

    @property
    def slowdown(self) -> float | None:
        """Slowdown over all windows, as of one window."""
        return measured_slowdown(self.received_seconds, self.waited_seconds)

    @property
    def waited_for(self) -> tuple[WaitedFor, ...]:
        """Jobs that the job waited for in all windows, the longest first."""
        return _summed(wait for window in self for wait in window.waited_for)

    def _repr_html_(self) -> str:
        """The windows with work as a table of HTML."""
        with_work = [window for window in self if window.received_seconds or window.waited_seconds]
        slowdown = "unknown" if self.slowdown is None else f"{self.slowdown:.2f}"
        title = f"{self.job}: slowdown {slowdown} in {len(with_work)} windows with work"
        culprits = ", ".join(f"{each.job} {seconds(each.seconds)}" for each in self.waited_for[:3])
        notes = [f"It waited most for {culprits}."] if culprits else []
        return html_table(title, _HEADER, [self._row(window) for window in with_work], notes=notes)

    def _row(self, window: JobWindow) -> tuple[object, ...]:
        longest = window.waited_for[:1]
        return (
            Quantity(f"{window.begin_seconds - self._windows[0].begin_seconds:g} s"),
            *(size(window.read_bytes), size(window.written_bytes)),
            *(seconds(window.received_seconds), seconds(window.waited_seconds)),
            None if window.slowdown is None else Quantity(f"{window.slowdown:.2f}"),
            f"{longest[0].job} {seconds(longest[0].seconds)}" if longest else None,
        )


def received_and_waited(lines: Iterable[ObservedJob]) -> tuple[float, float]:
    """Add up the lines of a job in one or more windows.

    Args:
        lines: The work of the job at each device.

    Returns:
        Device time that the job received, and device time that it waited for others, in seconds.
    """
    received = waited = 0.0
    for line in lines:
        received += line.device_seconds
        waited += sum(other.seconds for other in line.waited_for) + line.waited_for_others_seconds
    return received, waited


def lines_of(window: Window, job: str, user: str | None = None) -> list[ObservedJob]:
    """Find the lines of a job in a window of one server.

    Args:
        job: Name of the job.
        user: Name of the job's user; None for any.
    """
    return [line for line in window.jobs if line.job == job and user in (None, line.user)]


def joined(answers: Sequence[Windows], job: str, user: str | None = None) -> JobWindows:
    """Join the windows of a job on all servers by their numbers.

    Args:
        answers: The windows of each server.
        job: Name of the job.
        user: Name of the job's user; None for any.
    """
    length = answers[0].window_seconds if answers else 1.0
    by_number: dict[int, list[ObservedJob]] = {}
    for answer in answers:
        for window in answer.windows:
            by_number.setdefault(window.number, []).extend(lines_of(window, job, user))
    return JobWindows(job, length, [_window(number * length, by_number[number]) for number in sorted(by_number)])


def _window(begin_seconds: float, lines: Sequence[ObservedJob]) -> JobWindow:
    received, waited = received_and_waited(lines)
    return JobWindow(
        begin_seconds,
        sum(line.read_bytes for line in lines),
        sum(line.written_bytes for line in lines),
        received,
        waited,
        _summed(wait for line in lines for wait in line.waited_for),
    )


def _summed(waits: Iterable[WaitedFor]) -> tuple[WaitedFor, ...]:
    """The waits for each job added up, the longest first."""
    sums: dict[tuple[str, str, int], float] = {}
    for wait in waits:
        key = (wait.job, wait.user, wait.uid)
        sums[key] = sums.get(key, 0.0) + wait.seconds
    return tuple(WaitedFor(*key, sums[key]) for key in sorted(sums, key=lambda key: (-sums[key], key)))
