"""The contract of stores: every change is durable when its call returns, and a call waits at most some seconds."""

from collections.abc import Sequence
from typing import Protocol

from weir.planner.records import Fault, KnownJob, Record
from weir.provisioning.outcomes.outcome import Outcome

SCHEMA_VERSION = 1
"""Version of the tables and keys; a store of a later one is refused."""
CALL_SECONDS_MAX = 10.0
"""Longest wait for a server of a store."""
KNOWN_MAX = 10_000
"""Most known jobs of a user: those that were used longest ago are forgotten."""
KNOWN_BYTES_MAX = 32 << 20
"""Most bytes of the known jobs of a user: `KNOWN_MAX` jobs of the usual length."""
OUTCOMES_MAX = 256
"""Outcomes that are kept of a user, the latest: every plan of the user weighs them."""
PRUNED_EVERY = 64
"""Jobs of a user that are remembered between two counts of the user's known jobs: the bound may be exceeded by this
number."""


class Pruning:
    """The moments at which the known jobs of a user are counted: with the first of this process, and then in turn."""

    def __init__(self) -> None:
        """Begin without jobs."""
        self._remembered: dict[int, int] = {}

    def is_due(self, uid: int) -> bool:
        """Count a known job that was remembered.

        Returns:
            Whether the user's jobs are to be counted.
        """
        count = self._remembered.get(uid, 0)
        self._remembered[uid] = count + 1
        return count % PRUNED_EVERY == 0


class Store(Protocol):
    """The durable state of one planner. Its calls come from one thread at a time."""

    def records(self) -> list[Record]:
        """Read all deployments.

        Returns:
            The deployments, in any order.
        """

    def save(self, records: Sequence[Record]) -> None:
        """Write deployments, all or none.

        Args:
            records: Deployments, which take the places of those with their keys.
        """

    def forget(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove deployments.

        Args:
            keys: Users and names.
        """

    def known(self, uid: int, key: str) -> KnownJob | None:
        """Look a known job up.

        Returns:
            The job; None where it is not known.
        """

    def remember(self, uid: int, key: str, job: KnownJob) -> None:
        """Keep a known job. Of a user with more than `KNOWN_MAX` or `KNOWN_BYTES_MAX`, the oldest are forgotten."""

    def outcomes(self, uid: int) -> list[Outcome]:
        """Read the outcomes of a user.

        Returns:
            The outcomes, the latest last.
        """

    def keep_outcome(self, uid: int, outcome: Outcome) -> None:
        """Keep an outcome. Of a user with more than `OUTCOMES_MAX`, the oldest are forgotten."""

    def faults(self) -> list[Fault]:
        """Read the faults of nodes.

        Returns:
            The faults, in any order, also those that are over.
        """

    def blame(self, fault: Fault) -> None:
        """Keep a fault; it takes the place of an earlier one of the node and the user."""

    def pardon(self, node: str) -> None:
        """Forget all faults of a node."""

    def keep_claim(self) -> None:
        """Renew the claim of this process to the store.

        Raises:
            PlannerError: Another planner uses the store now.
        """

    def close(self) -> None:
        """Give the claim back, and end all connections."""
