"""The bounds that a site sets for its guard."""

from dataclasses import dataclass
from typing import Literal, get_args

from weir.guard.errors import GuardError

Kind = Literal["share", "weight", "avoid", "limit"]
"""Kinds of action: a policy that owes shares in place of `fifo`, a weight of the victim, targets that new files of the
victim avoid, and a limit of the culprit."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """When the guard acts, and how far it may go. Counts are of windows.

    Attributes:
        slowdown: Slowdown from which a job is a victim.
        windows: Windows in a row with such a slowdown before an action, and before a further one.
        calm: Windows in a row without a cause before an action is undone.
        dwell: Fewest windows between two changes for one victim.
        changes_per_hour: Most changes of the sharing in an hour.
        kinds: Kinds of action, of which the first that can help is taken first.
        policy: Policy that owes shares in place of `fifo`; of the site's policy where that is another one.
        weight_max: Largest factor by which a victim's weight is raised.
        limit_min: Smallest limit of a culprit, as a fraction of each device's time.
    """

    slowdown: float = 2.0
    windows: int = 3
    calm: int = 10
    dwell: int = 10
    changes_per_hour: int = 20
    kinds: tuple[Kind, ...] = KINDS
    policy: str = "size-fair"
    weight_max: float = 4.0
    limit_min: float = 0.1

    def __post_init__(self) -> None:
        """Check the bounds against each other.

        Raises:
            GuardError: The guard could never act, or would act at once on each job.
        """
        if self.slowdown <= 1:
            raise GuardError(f"slowdown {self.slowdown} is that of a job that nobody slows", hint="try 2")
        if self.changes_per_hour < 2:
            raise GuardError("an action and its end are two changes", hint="allow at least 2 in an hour")
        if self.policy == "fifo":
            raise GuardError("fifo owes nobody anything", hint="try size-fair")
