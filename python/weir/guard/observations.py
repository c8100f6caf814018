"""One window of a store as the guard sees it: the use of each device by each job, and how much each job is slowed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.store.observations import measured_slowdown

ACTIVE = 0.01
"""A job with less of a window's time on all devices, received and waited for, is not active: its slowdown says
nothing."""
SLOWDOWN_MAX = 1000.0
"""Greatest slowdown that is told: that of a job which received a thousandth of its time, or nothing."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Attributes of a job that a policy may know."""

    name: str
    user: str
    group: str
    nodes: int
    priority: int


@dataclass(frozen=True, slots=True)
class Use:
    """A job at a device in a window."""

    received: float
    """Part of the window in which the device worked for the job."""
    waited_for: Mapping[str, float] = field(default_factory=dict)
    """Part of the window in which the device worked for each other job while this job had requests queued."""
    waited_for_others: float = 0.0
    """The same for further jobs."""

    @property
    def waited(self) -> float:
        """Part of the window for which the job waited for others."""
        return sum(self.waited_for.values()) + self.waited_for_others


@dataclass(frozen=True, slots=True)
class Share:
    """The weight and the limit of a job under a lease."""

    weight: float = 1.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """A window of a store."""

    window: int
    """Number of the window."""
    window_seconds: float
    policy: str
    """Policy that the site has decided."""
    traits: Sequence[Traits]
    """Jobs that the servers know; some may have one name."""
    uses: Mapping[str, Mapping[str, Use]]
    """Use by device, and by the name of the job."""
    predicted: Mapping[str, float] = field(default_factory=dict)
    """Slowdown of jobs as a model predicts it for this window or the next one; of the others the windows tell it."""

    def activity(self, job: str) -> float:
        """Time of a job on all devices, received and waited for.

        Args:
            job: Name of the job.

        Returns:
            The time, in windows.
        """
        return sum(use.received + use.waited for use in self._of(job))

    def users(self, job: str) -> frozenset[str]:
        """The users of all jobs of a name.

        Args:
            job: Name of the job.

        Returns:
            Their names; none where no server knows the job any more.
        """
        return frozenset(each.user for each in self.traits if each.name == job)

    def received(self, job: str) -> float:
        """Device time that a job received on all devices.

        Args:
            job: Name of the job.

        Returns:
            The time, in windows.
        """
        return sum(use.received for use in self._of(job))

    def jobs(self) -> list[str]:
        """The jobs that are active.

        Returns:
            Their names, in order.
        """
        names = {name for at_device in self.uses.values() for name in at_device}
        return sorted(name for name in names if self.activity(name) >= ACTIVE)

    def slowdown(self, job: str) -> float:
        """How much a job is slowed: as predicted, else the time that it received and waited for over that it received.

        Args:
            job: Name of the job.

        Returns:
            The slowdown, 1 for a job that nobody slows; at most `SLOWDOWN_MAX`.
        """
        predicted = self.predicted.get(job)
        if predicted is not None:
            return predicted
        waited = sum(use.waited for use in self._of(job))
        if not waited:
            return 1.0
        measured = measured_slowdown(self.received(job), waited)
        return SLOWDOWN_MAX if measured is None else min(measured, SLOWDOWN_MAX)

    def waits(self, job: str) -> dict[str, float]:
        """The waits of a job by the jobs that it waited for.

        Args:
            job: Name of the job.

        Returns:
            Time in windows by name, the longest first.
        """
        waits: dict[str, float] = {}
        for use in self._of(job):
            for other, time in use.waited_for.items():
                waits[other] = waits.get(other, 0.0) + time
        return dict(sorted(waits.items(), key=lambda each: (-each[1], each[0])))

    def shared_devices(self, job: str, other: str) -> list[str]:
        """Devices that two jobs use.

        Args:
            job: Name of a job.
            other: Name of another one.

        Returns:
            Names of the devices.
        """
        return [device for device, uses in self.uses.items() if job in uses and other in uses]

    def _of(self, job: str) -> Iterable[Use]:
        return (uses[job] for uses in self.uses.values() if job in uses)


Owed = Callable[[str, Sequence[Traits], Mapping[str, Share]], dict[str, float]]
"""Parts of a device's time that a policy owes jobs by their names, with the shares of a lease."""
