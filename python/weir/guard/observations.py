"""One window of a store as the guard sees it: the use of each device by each job, and how much each job is slowed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.store.observations import JobKey, measured_slowdown

ACTIVE = 0.01
"""A job with less of a window's time on all devices, received and waited for, is not active: its slowdown says
nothing."""
SLOWDOWN_MAX = 1000.0
"""Greatest slowdown that is told: that of a job which received a thousandth of its time, or nothing."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Attributes of a job that a policy may know."""

    key: JobKey
    user: str
    """User whom the job is accounted to."""
    group: str
    nodes: int
    priority: int


@dataclass(frozen=True, slots=True)
class Use:
    """A job at a device in a window."""

    received: float
    """Part of the window in which the device worked for the job."""
    waited_for: Mapping[JobKey, float] = field(default_factory=dict)
    """Part of the window in which the device worked for each other job while this job had requests queued."""
    waited_for_others: float = 0.0
    """The same for further jobs."""

    @property
    def waited(self) -> float:
        """Part of the window for which the job waited for others."""
        return sum(self.waited_for.values()) + self.waited_for_others


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction of a model for a job."""

    slowdown: float
    """Slowdown in this window or the next one."""
    driven_by: tuple[str, ...] = ()
    """Devices that have most of the features that speak for the prediction."""


@dataclass(frozen=True, slots=True)
class Share:
    """A job under a lease."""

    weight: float = 1.0
    limit: float | None = None
    avoid: tuple[str, ...] = ()
    """Targets that new files of the job avoid."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A window of a store."""

    window: int
    """Number of the window."""
    window_seconds: float
    policy: str
    """Policy that the site has decided."""
    traits: Sequence[Traits]
    """Jobs that the servers know."""
    uses: Mapping[str, Mapping[JobKey, Use]]
    """Use by device, and by job."""
    predicted: Mapping[JobKey, Predicted] = field(default_factory=dict)
    """Jobs that a model predicts; of the others the windows tell the slowdown."""
    targets: frozenset[str] = frozenset()
    """Targets of the store, used ones and others."""

    def activity(self, job: JobKey) -> float:
        """Time of a job on all devices, received and waited for.

        Returns:
            The time, in windows.
        """
        return sum(use.received + use.waited for use in self._of(job))

    def user(self, job: JobKey) -> str:
        """The user whom a job is accounted to.

        Returns:
            The user's name; the number of the user where no server knows the job any more.
        """
        return next((each.user for each in self.traits if each.key == job), str(job.uid))

    def words(self, job: JobKey) -> str:
        """The name of a job, for people.

        Returns:
            The name and the user.
        """
        return f"{job.job} ({self.user(job)})"

    def received(self, job: JobKey) -> float:
        """Device time that a job received on all devices.

        Returns:
            The time, in windows.
        """
        return sum(use.received for use in self._of(job))

    def jobs(self) -> list[JobKey]:
        """The jobs that are active.

        Returns:
            The jobs, in order.
        """
        jobs = {job for at_device in self.uses.values() for job in at_device}
        return sorted(job for job in jobs if self.activity(job) >= ACTIVE)

    def slowdown(self, job: JobKey) -> float:
        """How much a job is slowed: time received and waited for over that received, or more where more is predicted.

        Returns:
            The slowdown, 1 for a job that nobody slows; at most `SLOWDOWN_MAX`.
        """
        predicted = self.predicted.get(job)
        least = 1.0 if predicted is None else predicted.slowdown
        waited = sum(use.waited for use in self._of(job))
        if not waited:
            return least
        measured = measured_slowdown(self.received(job), waited)
        return SLOWDOWN_MAX if measured is None else max(min(measured, SLOWDOWN_MAX), least)

    def waits(self, job: JobKey) -> dict[JobKey, float]:
        """The waits of a job by the jobs that it waited for.

        Returns:
            Time in windows by job, the longest first.
        """
        waits: dict[JobKey, float] = {}
        for use in self._of(job):
            for other, time in use.waited_for.items():
                waits[other] = waits.get(other, 0.0) + time
        return dict(sorted(waits.items(), key=lambda each: (-each[1], each[0])))

    def shared_devices(self, job: JobKey, other: JobKey) -> list[str]:
        """Devices that two jobs use.

        Args:
            other: Another one.

        Returns:
            Names of the devices.
        """
        return [device for device, uses in self.uses.items() if job in uses and other in uses]

    def demands(self, job: JobKey) -> dict[str, float]:
        """The demand of a job on each device: the time that it received and waited for.

        Returns:
            Time in windows by device.
        """
        return {device: uses[job].received + uses[job].waited for device, uses in self.uses.items() if job in uses}

    def _of(self, job: JobKey) -> Iterable[Use]:
        return (uses[job] for uses in self.uses.values() if job in uses)


Owed = Callable[[str, Sequence[Traits], Mapping[JobKey, float]], dict[JobKey, float]]
"""Parts of a device's time that a policy owes jobs, with the weights of a lease."""
