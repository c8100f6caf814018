"""The targets on which a culprit slows a victim, where the store has others."""

from weir.guard.observations import ACTIVE, Observation
from weir.store.observations import METADATA, JobKey

TARGETS_MAX = 64
"""Most targets that new files of a job avoid, as a lease takes them."""
_CROWDED = 0.5
"""A target is crowded where it has this part of the culprit's greatest demand on a target, or of the victim's longest
wait for the culprit."""


def crowded(victim: JobKey, culprit: JobKey, observation: Observation) -> tuple[str, ...]:
    """Find the targets that new files of a victim had better avoid.

    They are those on which the culprit asks for most, those on which the victim waits for it most, and those that drive
    the victim's prediction and are used by the culprit.

    Args:
        victim: The slowed job.
        culprit: The job that slows it.

    Returns:
        The targets, in order; none where the culprit is on all of them alike, or on more than a lease has room for.
    """
    demands = {each: demand for each, demand in observation.demands(culprit).items() if not each.endswith(METADATA)}
    at_targets = {device: uses for device, uses in observation.uses.items() if device in demands}
    waits = {device: uses[victim].waited_for.get(culprit, 0.0) for device, uses in at_targets.items() if victim in uses}
    found = {device for device, demand in demands.items() if demand >= _CROWDED * max(demands.values())}
    longest = max(waits.values(), default=0.0)
    if longest < ACTIVE:
        # The victim waits for the culprit elsewhere, as at the metadata of a server.
        return ()
    found |= {device for device, wait in waits.items() if wait >= _CROWDED * longest}
    predicted = observation.predicted.get(victim)
    found |= {each for each in (predicted.driven_by if predicted else ()) if demands.get(each, 0.0) >= ACTIVE}
    is_elsewhere = not observation.targets <= found
    return tuple(sorted(found, key=_place)) if is_elsewhere and len(found) <= TARGETS_MAX else ()


def _place(target: str) -> tuple[int, ...]:
    """The order of targets: by server, then by number."""
    return tuple(int(part) for part in target.split("."))
