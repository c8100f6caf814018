"""The users of this machine, and the right to act for one."""

import os
import pwd
import time
from dataclasses import dataclass
from functools import lru_cache

from weir.planner.errors import PlannerError

_KNOWN_SECONDS = 300.0
"""Time for which a user's groups are taken as they were: a directory service may be slow to tell."""


@dataclass(frozen=True)
class User:
    """A user as processes are started for them."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str


def user(uid: int) -> User:
    """Look a user up.

    Args:
        uid: Number of the user.

    Returns:
        The user with all groups.

    Raises:
        PlannerError: This machine does not know the user.
    """
    return _user(uid, int(time.monotonic() / _KNOWN_SECONDS))


@lru_cache(maxsize=1024)
def _user(uid: int, _: int) -> User:
    try:
        found = pwd.getpwuid(uid)
    except KeyError as error:
        raise PlannerError(
            f"this machine knows no user {uid}", hint="the planner's machine needs the users of the cluster"
        ) from error
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return User(uid=uid, gid=found.pw_gid, groups=groups, name=found.pw_name, home=found.pw_dir)


def acting_for(peer: int, wanted: int | None, scheduler_user: int | None) -> int:
    """Decide for which user a request is.

    Args:
        peer: The user at the other end of the connection.
        wanted: The user whom the request names; None where it names none.
        scheduler_user: The user who may act for others, beside root.

    Raises:
        PlannerError: The peer may not act for the other user, or this planner cannot.
    """
    if wanted is None or wanted == peer:
        found = peer
    elif is_privileged(peer, scheduler_user):
        found = wanted
    else:
        raise PlannerError(
            f"user {peer} may not act for user {wanted}",
            hint="root and the scheduler's user (`scheduler_user`) may",
            code="denied",
        )
    if os.geteuid() not in (0, found):
        raise PlannerError(
            f"this planner runs as user {os.geteuid()}, and cannot work for user {found}",
            hint="a planner for several users runs as root",
            code="denied",
        )
    return found


def is_privileged(peer: int, scheduler_user: int | None) -> bool:
    """Decide whether a user may act for others.

    Args:
        peer: The user at the other end of a connection.
        scheduler_user: The user who may act for others, beside root.

    Returns:
        Whether the user may: root, the scheduler's user, and who started the planner.
    """
    return peer in (0, os.geteuid(), scheduler_user)


def process_rights(of: User) -> dict[str, object]:
    """Make the arguments of a process that runs as a user.

    Returns:
        Arguments of `subprocess.Popen`; none where this process is the user's already, without root's rights.
    """
    if os.geteuid() != 0:
        return {}
    return {"user": of.uid, "group": of.gid, "extra_groups": list(of.groups)}


def process_environment(of: User) -> dict[str, str]:
    """Make the environment of a process that runs as a user: nothing of it comes from the user.

    Returns:
        Variables by their names.
    """
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "WEIR_PROGRAMS", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": of.home,
        "USER": of.name,
        "LOGNAME": of.name,
        # A process that parses needs no threads, and each would reserve memory of its own.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
