"""Which stripes of a file come when: files that are written side by side meet on a target late or never."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from weir.placement.database import END_OF_FILE, Component
from weir.tracing.records import SHARED, Creation


def written_before(programs: Iterable[Iterable[Creation]]) -> dict[str, int]:
    """What has been written, of all its process writes, when each file of programs that run at once is begun: by path.

    Processes begin together, and each writes its files in their order.
    """
    before: dict[str, int] = {}
    for creations in programs:
        written: dict[int, int] = {}
        for creation in creations:
            before[creation.path] = written.get(creation.rank, 0)
            if creation.rank != SHARED:
                written[creation.rank] = before[creation.path] + creation.size_bytes
    return before


def arranged(
    components: Sequence[Component], before: Mapping[str, int], limits_bytes: Mapping[str, int]
) -> list[Component]:
    """Exchange targets of stripes until files that share one are there at different times.

    Args:
        components: With their targets, all of each file's one after the other.
        before: What a file's process has written when it begins it, by path; 0 where it is not there.
        limits_bytes: What each target may come to have of them.

    Returns:
        The components in their order.
    """
    from weir import _core

    paths: dict[str, int] = {}
    targets = _core.arrange(
        [component.targets for component in components],
        files=[paths.setdefault(component.path, len(paths)) for component in components],
        components=[component.component - 1 for component in components],
        stripes=[_stripes(component, before.get(component.path, 0)) for component in components],
        limits_bytes=dict(limits_bytes),
    )
    return [
        replace(component, targets=tuple(own)) if component.targets != tuple(own) else component
        for component, own in zip(components, targets, strict=True)
    ]


def _stripes(component: Component, before: int) -> list[tuple[int, int, int]]:
    """Of each stripe what its process has written before it and after it, and what it holds."""
    end = component.size_bytes if component.extent_end == END_OF_FILE else component.extent_end
    first, held = before + component.extent_start, max(min(end, component.size_bytes) - component.extent_start, 0)
    count, width = component.stripe_count, component.stripe_bytes
    if count * width < held:
        # They are written in turn.
        return [(first, first + held, -(-held // count))] * count
    bounds = [min(place * width, held) for place in range(count + 1)]
    return [(first + low, first + high, high - low) for low, high in pairwise(bounds)]
