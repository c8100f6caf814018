"""The command that helps a job which stays slowed, as `weir interference watch` names it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.cli.common.errors import say
from weir.store.home import Home, find_cluster
from weir.store.observations import JobKey

if TYPE_CHECKING:
    from weir.store.control import Server
    from weir.store.predictions import JobPrediction

WINDOWS_MIN = 3
"""Windows in a row for which a job is slowed before a command is named: `weir guard` waits for as many by default."""
_JOBS_MAX = 256
"""Most jobs that are followed; the one whose window is the oldest is forgotten first."""
_SHARE = "weir policy set size-fair"
_GUARD = "weir guard --slowdown {:g}"


class Remedies:
    """Jobs that are slowed by others, and the commands that help them."""

    def __init__(self, home: Home, find: "Callable[[], list[Server]]") -> None:
        """Begin without a slowed job.

        Args:
            find: Finds the servers there are now.
        """
        from weir.store.access import access_to

        self._find = find
        self._may_change = access_to(home, find_cluster(home)) is not None
        self._slowed: dict[JobKey, int] = {}
        self._policy: tuple[int, str | None] = (0, None)
        """The policy in force, and the window in which it was asked for."""

    def of(self, window: int, job: "JobPrediction") -> str | None:
        """Find the command that helps a job, and tell it once while the job stays slowed.

        Args:
            window: Number of the window.
            job: The job's predictions.

        Returns:
            The command; None for a job that waited for nobody, or is not slowed for long.
        """
        from weir.store.predictions import likely_slowdown

        key = JobKey(job.job, job.uid)
        count = self._slowed.pop(key, 0)
        slowdown = likely_slowdown(job.horizons[:1])
        if slowdown is None or slowdown <= 1 or not job.responsible:
            return None
        self._slowed[key] = count + 1
        while len(self._slowed) > _JOBS_MAX:
            del self._slowed[next(iter(self._slowed))]
        if count + 1 < WINDOWS_MIN:
            return None
        command = _SHARE if self._policy_at(window) == "fifo" else _GUARD.format(slowdown)
        if count + 1 == WINDOWS_MIN:
            other = job.responsible[0]
            who = "" if self._may_change else " (by the owner of the store)"
            say(
                f"window {window}: {job.job} ({job.user}) is slowed {WINDOWS_MIN} windows in a row, and waits for "
                f"{other.job} ({other.user}): `{command}`{who} helps it"
            )
        return command

    def _policy_at(self, window: int) -> str | None:
        """The policy in force, asked for once a window; None where no server answers."""
        from weir.store.errors import StoreError

        if self._policy[0] != window:
            self._policy = (window, None)
            for server in self._find():
                try:
                    self._policy = (window, server.status().policy)
                    break
                except StoreError:
                    continue
        return self._policy[1]
