"""The order of a file's stripes: files written side by side meet on a target late or never."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from weir.placement.database import END_OF_FILE, Component
from weir.tracing.records import SHARED, Creation


@dataclass(frozen=True, slots=True)
class Beginning:
    """The begin of a file."""

    program: int
    """Number of the program that makes the file."""
    written_bytes: int
    """Bytes that the file's process wrote before the file."""


AT_ONCE = Beginning(0, 0)
"""The begin of a file without other knowledge."""


def beginnings(programs: Iterable[Iterable[Creation]]) -> dict[str, Beginning]:
    """Find the begin of each file of programs that run at once. Processes begin together, and each writes its files in
    their order; files that ranks share are written by all of them, one file after the other.

    Args:
        programs: Creations of each program.

    Returns:
        The begin of each file, by path.
    """
    found: dict[str, Beginning] = {}
    for program, creations in enumerate(programs):
        written: dict[int, int] = {}
        for creation in creations:
            before = written.get(creation.rank, 0)
            found[creation.path] = Beginning(program, before)
            written[creation.rank] = before + creation.size_bytes
    return found


def arranged(
    components: Sequence[Component], begun: Mapping[str, Beginning], limits_bytes: Mapping[str, int]
) -> list[Component]:
    """Swap targets of stripes until files that share a target use it at different times.

    Args:
        components: Components with their targets; the components of a file follow each other. Ranks that share a file
            use all of its components at once.
        begun: Begin of each file, by path; a file that is not there begins at once.
        limits_bytes: Most bytes of the files on each target, by the target's name.

    Returns:
        The components in their order.
    """
    from weir import _core

    numbers: dict[tuple[str, int], int] = {}
    targets = _core.arrange(
        [component.targets for component in components],
        files=[numbers.setdefault(_used_apart(component), len(numbers)) for component in components],
        components=[component.component - 1 for component in components],
        stripes=[_stripes(component, begun.get(component.path, AT_ONCE).written_bytes) for component in components],
        limits_bytes=dict(limits_bytes),
    )
    return [
        replace(component, targets=tuple(own)) if component.targets != tuple(own) else component
        for component, own in zip(components, targets, strict=True)
    ]


def _used_apart(component: Component) -> tuple[str, int]:
    """The parts of a file that are never used at the same time: all components, or one of a file that ranks share."""
    return component.path, component.component if component.rank == SHARED else 0


def _stripes(component: Component, before: int) -> list[tuple[int, int, int]]:
    """For each stripe the bytes that its process writes before the stripe, until the stripe's end, and in the
    stripe.
    """
    end = component.size_bytes if component.extent_end == END_OF_FILE else component.extent_end
    first, held = before + component.extent_start, max(min(end, component.size_bytes) - component.extent_start, 0)
    count, width = component.stripe_count, component.stripe_bytes
    if count * width < held:
        # Stripes are written in turn.
        stripes = [(first, first + held, -(-held // count))] * count
    else:
        bounds = [min(place * width, held) for place in range(count + 1)]
        stripes = [(first + low, first + high, high - low) for low, high in pairwise(bounds)]
    if component.rank == SHARED:
        stripes = [(before, before + component.size_bytes, share) for _, _, share in stripes]
    return stripes
