"""Plots of a running store: its targets, the shares of its jobs, and the slowdown of one job."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from weir.plain_text import plain
from weir.plots.canvas import axes_of, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weir.store.answers import Job, Status, WaitedFor
    from weir.store.instance import Store
    from weir.store.job_windows import JobWindows

CULPRITS_MAX = 5
"""Most jobs that have a colour of their own; further ones are drawn together."""
_WIDTH_INCHES = 7.0
_HATCHES = ("//", "..", "xx", "\\\\", "++", "oo")
"""Patterns that tell bars apart in print."""


def targets(store: "Store | Sequence[Status]", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the fill and the load of each target.

    Args:
        store: A store, whose servers are asked, or their states.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
        StoreError: The store is down, or a server does not answer.
    """
    from weir.store.instance import Store

    states = [server.status() for server in store.servers] if isinstance(store, Store) else store
    found = [target for state in states for target in state.targets]
    place = axes_of(ax, (_WIDTH_INCHES, 0.9 + 0.34 * max(len(found), 1)))
    fills = [100 * target.used_bytes / target.capacity_bytes if target.capacity_bytes else 0.0 for target in found]
    rows = range(len(found))
    place.barh([row - 0.19 for row in rows], fills, 0.36, label="fill", hatch=_HATCHES[0], alpha=0.8)
    loads = [100 * target.load for target in found]
    place.barh([row + 0.19 for row in rows], loads, 0.36, label="load", hatch=_HATCHES[1], alpha=0.8)
    place.set_yticks(rows, [target.target for target in found])
    place.invert_yaxis()
    place.set_xlim(0, 100)
    place.set_xlabel("part of the capacity, and of the last interval (%)")
    place.set_ylabel("target")
    place.legend(loc="best")
    return place


def shares(jobs: "Iterable[Job]", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the shares of device time that the policy owed jobs, and that they received.

    Args:
        jobs: Jobs, such as `Store.jobs()`; those that did nothing are left out.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.simulation.report.drawing import bars_of_shares

    rows = [(plain(job.job), job.share_owed, job.share_received) for job in jobs if job.share_received is not None]
    place = axes_of(ax, (_WIDTH_INCHES, 0.9 + 0.3 * max(len(rows), 1)))
    bars_of_shares(place, [(name, owed, received or 0.0) for name, owed, received in rows])
    return literal(place)


def windows(found: "JobWindows", *, ax: "Axes | None" = None) -> "Axes":
    """Plot what a job received in each window from its first on, and for whom it waited meanwhile.

    The whole height of a window over the height of its lowest part is the slowdown of the job.

    Args:
        found: Windows of the job, such as `Store.windows(job)`.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    place = axes_of(ax, (_WIDTH_INCHES, 3.2))
    while len(found) and not (found[0].received_seconds or found[0].waited_seconds):
        found = found[1:]
    first = found[0].begin_seconds if len(found) else 0.0
    times = [window.begin_seconds - first for window in found]
    heights = [window.received_seconds for window in found]
    width = 0.9 * found.window_seconds
    place.bar(times, heights, width, align="edge", label=f"{plain(found.job)} received")
    bottoms = list(heights)
    culprits = [(wait.job, wait.user) for wait in found.waited_for[:CULPRITS_MAX]]
    parts = [[_waited(window.waited_for, *key) for window in found] for key in culprits]
    known = [sum(column) for column in zip(*parts, strict=True)] if parts else [0.0] * len(found)
    others = [window.waited_seconds - waited for window, waited in zip(found, known, strict=True)]
    labels = [f"waited for {plain(job)}" for job, _ in culprits]
    if any(seconds > 1e-9 for seconds in others):
        parts.append(others)
        labels.append("waited for others")
    for number, (part, label) in enumerate(zip(parts, labels, strict=True)):
        hatch = _HATCHES[number % len(_HATCHES)]
        place.bar(times, part, width, bottom=bottoms, align="edge", label=label, hatch=hatch, alpha=0.75)
        bottoms = [bottom + height for bottom, height in zip(bottoms, part, strict=True)]
    place.set_xlabel("time (s)")
    place.set_ylabel("device time in a window (s)")
    slowdown = "unknown" if found.slowdown is None else f"{found.slowdown:.2f}"
    place.set_title(f"{plain(found.job)}: slowdown {slowdown}")
    place.legend(fontsize=8)
    return literal(place)


def _waited(waits: "Iterable[WaitedFor]", job: str, user: str) -> float:
    return sum(wait.seconds for wait in waits if (wait.job, wait.user) == (job, user))
