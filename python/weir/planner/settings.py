"""The choices of the administrator, and the bounds of the planner."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS
from weir.provisioning.sharing.leases import SHARERS_ROOM

CLIENTS_MAX = 512
"""Connections of ordinary users at once: each may hold a request in memory."""
CLIENTS_PER_USER_MAX = 64
"""Connections of one user, so that nobody keeps others out."""
PRIVILEGED_CLIENTS_MAX = 512
"""Further connections, of root and the scheduler's user: jobs wait for steps, and nobody else takes them."""
DESCRIPTORS = 4096
"""Descriptors of the process where the system allows them: those of connections, and three of each step and helper."""
DEPLOYMENTS_PER_USER_MAX = 1000
"""Live deployments of one user; root and the scheduler's user make them for others within the same bound."""
DEPLOYMENTS_MAX = 100_000
"""Live deployments in all: each takes some kilobytes of memory."""
ENDED_PER_USER_MAX = 1000
"""Ended deployments that are kept of one user, for lists."""
ENDED_SECONDS_MAX = 7 * 86_400.0
"""Time for which ended deployments are kept."""
STEPS_MAX = 64
"""Steps at once that start and end storage: each is a process. As many others copy."""
STEPS_PER_USER_MAX = 16
"""Such steps of one user at once, and as many copies; the others wait."""
STEP_SECONDS_MAX = 86_400.0
"""Longest time of a step: some hundred terabytes can be copied in a day."""

Reach = Literal["auto", "local", "ssh"]
"""Ways to the nodes of servers: `local` starts all of them on this machine."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of the administrator."""

    socket: Path
    """The Unix socket."""
    state: Path
    """The folder of the database and of the deployments' folders; this user's alone."""
    database: str
    """URL of the store."""
    resources: Path | None = None
    """The resource model; None for this machine alone."""
    prices: Path | None = None
    """The administrator's prices; None for those that come with Weir."""
    factors: Path | None = None
    """Interference factors of the site; None for those that come with Weir."""
    scheduler_user: int | None = None
    """The user who may act for others, beside root."""
    steps: str = "weir.planner.lifecycle"
    """Module of the functions of steps."""
    reach: Reach = "auto"
    """The way to the nodes of servers."""
    replans_max: int = 3
    """Times that a deployment is planned again."""
    quarantine_seconds: float = 3600.0
    """Time for which a bad node is left out of plans."""
    hold_seconds: float = 3600.0
    """Time for which a plan that is not set up keeps its storage."""
    orphan_seconds: float = 120.0
    """Time that Slurm has to end the storage of a job that is over."""
    share_max: float = 1.0
    """Most of the site's storage of each class of device that the deployments of one user may hold."""
    sharers_room: float = SHARERS_ROOM
    """Room of a new store for jobs that join later, over the size of its own job."""
    new_class_fitness: float = NEW_CLASS_FITNESS
    """Fitness below which a job is a class of its own."""
