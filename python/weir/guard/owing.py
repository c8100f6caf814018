"""The shares that jobs are owed, which no action of the guard may take from them."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.guard.errors import GuardError
from weir.guard.observations import ACTIVE, Observation, Owed, Traits, Use
from weir.store.observations import JobKey

_BEYOND = 1.05
"""A job beyond its owed share by less is at it: a window may end in the midst of a request."""
_WAITING = 0.1
"""A job that waited for less than this part of the time that it received does not want more."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Owing:
    """The shares of one window under the policy that owes them.

    Attributes:
        policy: The policy, which is not `fifo`.
        observation: The window.
        owed: Divides a device.
    """

    policy: str
    observation: Observation
    owed: Owed

    def of(self, job: JobKey) -> float:
        """The greatest share of a device that a job may be owed.

        A policy owes a job more while another one has no requests. So each other job counts for the time for which it
        had some.

        Returns:
            The part of the device's time: the owed share or more.
        """
        devices = [_active(uses) for uses in self.observation.uses.values()]
        return max((_most(uses, self._base(uses))[job] for uses in devices if job in uses), default=0.0)

    def is_beyond(self, job: JobKey, devices: Sequence[str]) -> bool:
        """Whether a job received more than it is owed.

        Args:
            devices: Devices that count.

        Returns:
            Whether it did so on one of the devices.
        """
        uses = [self.observation.uses[device] for device in devices]
        return any(job in _active(each) and each[job].received > _BEYOND * self._base(each)[job] for each in uses)

    def is_kept(self, weights: Mapping[JobKey, float]) -> bool:
        """Whether all jobs keep what they are owed under a lease.

        Jobs that do not want more keep what they use. The others divide the rest by the lease, and each of them must
        get at least the share that it may be owed.

        Args:
            weights: Factors of weights under the lease, of at least 1.

        Returns:
            Whether they do, on each device.
        """
        return all(self._keeps(_active(uses), weights) for uses in self.observation.uses.values())

    def _keeps(self, uses: Mapping[JobKey, Use], weights: Mapping[JobKey, float]) -> bool:
        raised = {job for job in uses if weights.get(job, 1.0) > 1}
        if not raised:
            return True
        base = self._base(uses)
        most = _most(uses, base)
        hungry = {job: use for job, use in uses.items() if _is_hungry(use, base[job])}
        left = 1.0 - sum(use.received for job, use in uses.items() if job not in hungry)
        divided = self.owed(self.policy, self._traits(hungry), weights)
        return all(left * divided[job] >= most[job] - _ROUNDING for job in hungry if job not in raised)

    def _base(self, uses: Mapping[JobKey, Use]) -> dict[JobKey, float]:
        return self.owed(self.policy, self._traits(_active(uses)), {})

    def _traits(self, uses: Mapping[JobKey, Use]) -> list[Traits]:
        """The traits of jobs; one that has just ended counts as a job of one node, of a user and a group of its own."""
        known = [job for job in self.observation.traits if job.key in uses]
        keys = {job.key for job in known}
        return known + [Traits(job, str(job), str(job), 1, 1) for job in sorted(uses) if job not in keys]


def _active(uses: Mapping[JobKey, Use]) -> dict[JobKey, Use]:
    return {job: use for job, use in uses.items() if use.received + use.waited >= ACTIVE}


def _most(uses: Mapping[JobKey, Use], base: Mapping[JobKey, float]) -> dict[JobKey, float]:
    """The shares that jobs may be owed at a device, by those that they are owed while all of them have requests."""
    given = {job: min(use.received + use.waited, 1.0) * base[job] for job, use in uses.items()}
    return {job: max(base[job], 1.0 - sum(given.values()) + given[job]) for job in uses}


def _is_hungry(use: Use, base: float) -> bool:
    return use.waited >= _WAITING * use.received or use.received >= base / _BEYOND


def owed_by(configuration: Path) -> Owed:
    """Divide devices as a store does, with the shares that its site gives single holders.

    Args:
        configuration: The cluster.toml with which the servers run.

    Raises:
        GuardError: The file cannot be read.
    """
    try:
        tables = tomllib.loads(configuration.read_text()).get("share", [])
    except (OSError, ValueError) as error:
        raise GuardError(f"cannot read {configuration}: {error}", hint="is the store up? see `weir status`") from error

    def owed(policy: str, jobs: Sequence[Traits], weights: Mapping[JobKey, float]) -> dict[JobKey, float]:
        from weir import _core

        factors = [weights.get(job.key, 1.0) for job in jobs]
        parts = _core.owed_shares(policy, [_plain(job) for job in jobs], json.dumps(tables), factors)
        return {job.key: part for job, part in zip(jobs, parts, strict=True)}

    return owed


def _plain(job: Traits) -> tuple[str, str, str, int, int]:
    return job.key.job, job.user, job.group, job.nodes, job.priority
