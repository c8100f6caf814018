"""Findings about targets: whether they are there, work, have room, and are as fast as others."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir.amounts import rate_text, size_text
from weir.health.codes import Finding, found

if TYPE_CHECKING:
    from weir.store.answers import Status, Target

FILLING = 0.9
"""Part of a target's capacity from which on it is filling."""


def of_targets(states: "Sequence[Status]") -> Iterator[Finding]:
    """Derive the findings about the targets of servers that answered."""
    left = {leaving.target: 0 for state in states for leaving in state.leaving}
    for state in states:
        for leaving in state.leaving:
            left[leaving.target] += leaving.objects
    for target in [target for state in states for target in state.targets]:
        yield from _of_target(target, left.get(target.target))
    taking = [target for state in states for target in state.targets if target.state == "open"]
    if taking and all(target.full_since is not None for target in taking):
        since = max(target.full_since or 0.0 for target in taking)
        words = f"all {len(taking)} targets that take files are full"
        yield found("store-full", "store", words, since=since, server=states[0].server)


def _of_target(target: "Target", objects_left: int | None) -> Iterator[Finding]:
    name = f"target {target.target}"
    names: dict[str, Any] = {"target": target.target, "place": target.target}
    if target.trouble is not None:
        code = "target-absent" if target.absent else "target-failing"
        yield found(code, name, target.trouble, since=target.failing_since, **names)
    elif target.full_since is not None:
        yield found("target-full", name, _fill(target), since=target.full_since, **names)
    elif _part(target) >= FILLING:
        yield found("target-filling", name, _fill(target), **names)
    if target.slow_since is not None:
        achieved, expected = target.achieved_bytes_per_second, target.expected_bytes_per_second
        words = "it is slower than the others of its class"
        if achieved is not None and expected is not None:
            words = f"it achieves {rate_text(achieved)}, and the others of its class {rate_text(expected)}"
        yield found("target-slow", name, words, since=target.slow_since, **names)
    if target.state == "retiring":
        words = "it retires" if objects_left is None else f"it retires, and {objects_left} objects are to leave it"
        yield found("target-retiring", name, words, **names)


def _free_bytes(target: "Target") -> int:
    own = target.capacity_bytes - target.used_bytes
    return own if target.disk_free_bytes is None else min(own, target.disk_free_bytes)


def _part(target: "Target") -> float:
    whole = target.used_bytes + _free_bytes(target)
    return target.used_bytes / whole if whole else 0.0


def _fill(target: "Target") -> str:
    free = size_text(max(_free_bytes(target), 0))
    return f"it holds {size_text(target.used_bytes)} of {size_text(target.capacity_bytes)}, and has {free} left"
