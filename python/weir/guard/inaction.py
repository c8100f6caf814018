"""The reasons for which the guard leaves a slowed job alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weir.guard.bounds import Bounds
from weir.guard.owing import Owing
from weir.store.observations import JobKey


@dataclass(frozen=True, slots=True)
class Inaction:
    """A reason to leave a job alone."""

    kind: Literal["no waits", "one user", "own share", "no culprit", "no room", "no action"]
    words: str
    """The reason in words, which go on after the name of the job."""


def without_culprit(victim: JobKey, owing: Owing) -> Inaction:
    """Find the reason for which a slowed job has no culprit.

    Args:
        victim: A job that is slowed, and for which no culprit was found.
    """
    observation = owing.observation
    waits = [job for job in observation.waits(victim) if job != victim]
    user = observation.user(victim)
    others = [job for job in waits if observation.user(job) != user]
    if not waits:
        return Inaction("no waits", "waited for no job that is known")
    if not others:
        return Inaction("one user", f"waited for jobs of its own user alone, most for {observation.words(waits[0])}")
    beyond = [job for job in others if owing.is_beyond(job, observation.shared_devices(victim, job))]
    if beyond:
        return Inaction("own share", f"received more than its owed share, as {observation.words(beyond[0])} did")
    most = observation.words(others[0])
    return Inaction(
        "no culprit", f"no job of another user received more than its owed share; it waited most for {most}"
    )


def without_room(victim: str, culprit: str, charged: Sequence[tuple[str, str]], bounds: Bounds) -> Inaction | None:
    """Find the bound of an hour that an action and its end would exceed.

    The jobs of one user cause at most half of the changes, so that nobody uses up what protects from others. They are
    protected by at most half of them, and from one other user by less than that user may cause, so that nobody who asks
    for protection uses up that of others.

    Args:
        victim: User of the victim.
        culprit: User of the culprit.
        charged: The users of victim and culprit of each change within the hour, and of each end that is still to come.
        bounds: Bounds of the site.

    Returns:
        The reason; None where there is room.
    """
    user_max = max(bounds.changes_per_hour // 2, 2)
    counts = (
        (len(charged), bounds.changes_per_hour, ""),
        (sum(of_culprit == culprit for _, of_culprit in charged), user_max, f" against jobs of {culprit}"),
        (sum(of_victim == victim for of_victim, _ in charged), user_max, f" for jobs of {victim}"),
        (list(charged).count((victim, culprit)), max(user_max - 2, 2), f" for {victim} against {culprit}"),
    )
    for count, most, whom in counts:
        if count + 2 > most:
            return Inaction("no room", f"there is no room for a change and its end: at most {most} in an hour{whom}")
    return None
