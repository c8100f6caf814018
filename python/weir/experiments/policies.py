"""The shares that a policy owes, computed naively: the reference for the experiments.

The division shares no code with the servers, and follows the definition of the policies only (ThemisIO, SC'23, section
2.2.2); the spelling of policies is the servers'.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol


class Entity(Protocol):
    """The knowledge of a policy about a job."""

    @property
    def name(self) -> str:
        """Name of the job, unlike any other's."""

    @property
    def user(self) -> str:
        """User that the job is accounted under."""

    @property
    def group(self) -> str:
        """Group that the job is accounted under."""

    @property
    def nodes(self) -> int:
        """Compute nodes of the job."""

    @property
    def priority(self) -> int:
        """Priority of the job."""


_CLASSES: dict[str, Callable[[Entity], object]] = {
    "group": lambda job: job.group,
    "user": lambda job: job.user,
    "size": lambda job: job.nodes,
    "priority": lambda job: job.priority,
    "job": lambda job: job.name,
}
"""Key of a job at each level: a level takes jobs with one key together."""
_WEIGHTS: dict[str, Callable[[Entity], int]] = {"size": lambda job: job.nodes, "priority": lambda job: job.priority}
"""Weight of a job at each level; 1 at levels that are not here."""


def _one(job: Entity) -> int:
    return 1


def shares_owed(policy: str, jobs: Iterable[Entity]) -> dict[str, float] | None:
    """Compute the share of the whole that a policy owes each job while all jobs have requests waiting.

    Args:
        policy: Name of the policy.

    Returns:
        Shares by the name of the job, whose sum is 1; None under `fifo`, which owes nothing.

    Raises:
        ValueError: There is no such policy.
    """
    from weir import _core

    levels = _core.policy_levels(policy)
    return _divide(levels, list(jobs), 1.0) if levels else None


def _divide(levels: Sequence[str], jobs: Sequence[Entity], whole: float) -> dict[str, float]:
    """Divide `whole` among `jobs`: by the first level among its classes, inside each class by the levels below."""
    if len(jobs) == 1:
        return {jobs[0].name: whole}
    level = levels[0] if levels else "job"
    # The last level divides among jobs themselves: two jobs of one size are not one job.
    is_last = len(levels) <= 1 and level not in ("group", "user")
    classes: dict[object, list[Entity]] = {}
    for job in jobs:
        classes.setdefault(job.name if is_last else _CLASSES[level](job), []).append(job)
    weight = _WEIGHTS.get(level, _one)
    total = sum(weight(members[0]) for members in classes.values())
    owed: dict[str, float] = {}
    for members in classes.values():
        owed |= _divide(levels[1:], members, whole * weight(members[0]) / total)
    return owed


def shares_owed_by_device(
    policy: str, jobs: Sequence[Entity], devices: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]] | None:
    """Compute the share of each device that a policy, applied to the whole store, owes each job.

    A job's share of the whole is divided evenly over the devices of its files. The shares on a device are then
    stretched to its whole time: the token counts of ThemisIO's figure 5 (SC'23, section 3.1).

    Args:
        jobs: Every job, all with requests waiting on each of their devices.
        devices: Devices of each job, by its name.

    Returns:
        Shares by device and job; None under `fifo`, which owes nothing.
    """
    whole = shares_owed(policy, jobs)
    if whole is None:
        return None
    laid: dict[str, dict[str, float]] = {}
    for job in jobs:
        for device in devices[job.name]:
            laid.setdefault(device, {})[job.name] = whole[job.name] / len(devices[job.name])
    return {
        device: {name: share / sum(on_it.values()) for name, share in on_it.items()} for device, on_it in laid.items()
    }
