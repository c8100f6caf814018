"""The allotment of targets to every stripe of predicted files (the paper's phase 3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weir.errors import WeirError
from weir.placement.arrangement import AT_ONCE, Beginning, arranged
from weir.placement.database import END_OF_FILE, Component
from weir.placement.min_cost_flow import NAME as MIN_COST_FLOW
from weir.placement.min_cost_flow import Graph, allocate
from weir.placement.targets import Targets
from weir.plugins import ALLOCATOR, Plugin, named

DEFAULT = "balanced"
"""Name of the default allocator."""


class AllotmentError(WeirError):
    """The stripes cannot be placed."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Components with their targets, and the balance of the targets."""

    components: tuple[Component, ...]
    loads_bytes: dict[str, int]
    """Bytes of the files on each target, by its name."""

    @property
    def imbalance(self) -> float | None:
        """Bytes of the fullest target as a multiple of the mean; None without bytes."""
        total = sum(self.loads_bytes.values())
        return max(self.loads_bytes.values()) * len(self.loads_bytes) / total if total else None


def allocator_names() -> list[str]:
    """List the allocators that `allot` knows."""
    from weir import _core

    return [*_core.allocator_names(), MIN_COST_FLOW]


def check_allocator(name: str) -> None:
    """Check that there is an allocator, and that a plug-in loads.

    Raises:
        PluginError: There is no such allocator, or the plug-in cannot be loaded.
    """
    own = allocator_names()
    if name not in own:
        named(ALLOCATOR, name, own).load()


def allot(
    components: Sequence[Component],
    targets: Targets,
    *,
    allocator: str = DEFAULT,
    seed: int = 0,
    begun: Mapping[str, Beginning] | None = None,
) -> Allotment:
    """Give each stripe of all files its target, all files together; components that name targets keep them.

    Args:
        components: Components of all files, before allocation.
        targets: Targets that can take stripes.
        allocator: One of `allocator_names`, or the name or place of a plug-in.
        seed: Seed of the allocators that draw random numbers.
        begun: Begin of each file, by path: the default allocator also balances each program by itself, and keeps
            processes that share targets apart in time.

    Returns:
        The components in their order, each with its targets, and the bytes on each target.

    Raises:
        AllotmentError: There is no target, the stripes do not fit, or a named target does not exist.
        PluginError: There is no such allocator, or the plug-in fails.
    """
    if not targets.each:
        raise AllotmentError("no target can take stripes", hint="are all full or inactive? see `weir status`")
    _check_named(components, targets)
    open_ = [component for component in components if not component.targets]
    try:
        chosen = _chosen(open_, targets, allocator, seed, begun or {})
    except ValueError as error:
        raise AllotmentError(
            f"{len(open_)} components cannot be placed on {len(targets.each)} targets: {error}",
            hint="ask for fewer stripes with `stripe_count` or `layout`, or make room",
        ) from error
    open_ = [replace(part, targets=tuple(own)) for part, own in zip(open_, chosen, strict=True)]
    if allocator == DEFAULT:
        open_ = arranged(open_, begun or {}, _limits(open_, targets))
    places = iter(open_)
    placed = tuple(part if part.targets else next(places) for part in components)
    return Allotment(placed, _loads(placed, targets))


def bytes_on_each(component: Component) -> int:
    """Compute the bytes of the predicted file in each stripe of a component.

    Returns:
        Bytes of a stripe; at least 1, so that a stripe never costs nothing.
    """
    end = component.size_bytes if component.extent_end == END_OF_FILE else component.extent_end
    held = max(min(end, component.size_bytes) - component.extent_start, 0)
    return max(-(-held // component.stripe_count), 1)


def _chosen(
    components: Sequence[Component], targets: Targets, allocator: str, seed: int, begun: Mapping[str, Beginning]
) -> list[list[str]]:
    """The names of the targets of each component, by an allocator."""
    own = allocator_names()
    if allocator not in own:
        return _by_plugin(components, targets, named(ALLOCATOR, allocator, own), seed, begun)
    if allocator == MIN_COST_FLOW:
        return _by_paper(components, targets)
    return _by_core(components, targets, allocator, seed, begun)


def _by_plugin(
    components: Sequence[Component], targets: Targets, plugin: Plugin, seed: int, begun: Mapping[str, Beginning]
) -> list[list[str]]:
    """By an algorithm of one's own, which sees the targets that take stripes."""
    from weir.plugins.allocator import CheckedAllocator, Demand, Target

    used = [each for each in targets.each if each.speed > 0]
    for component in components:
        if not 1 <= component.stripe_count <= len(used):
            raise ValueError(
                f"{component.path} asks for {component.stripe_count} stripes, and {len(used)} targets take any"
            )
    shown = [
        Target(
            each.name,
            each.server,
            each.speed,
            each.load_bytes,
            each.free_bytes,
            targets.server_speeds.get(each.server, math.inf),
            targets.server_loads_bytes.get(each.server, 0.0),
        )
        for each in used
    ]
    demands = [
        Demand(each.stripe_count, bytes_on_each(each), begun.get(each.path, AT_ONCE).program) for each in components
    ]
    chosen = CheckedAllocator(plugin, seed).allocate(shown, demands)
    return [[used[place].name for place in places] for places in chosen]


def _by_core(
    components: Sequence[Component], targets: Targets, allocator: str, seed: int, begun: Mapping[str, Beginning]
) -> list[list[str]]:
    from weir import _core

    each = targets.each
    found = _core.Allocator(allocator, seed=seed).allocate(
        [target.name for target in each],
        [component.stripe_count for component in components],
        [bytes_on_each(component) for component in components],
        servers=[target.server for target in each],
        speeds=[target.speed for target in each],
        loads_bytes=[target.load_bytes for target in each],
        free_bytes=[target.free_bytes for target in each],
        server_speeds=dict(targets.server_speeds),
        server_loads_bytes=dict(targets.server_loads_bytes),
        programs=[begun.get(component.path, AT_ONCE).program for component in components],
    )
    return found.targets


def _by_paper(components: Sequence[Component], targets: Targets) -> list[list[str]]:
    """Allot by algorithm 1, with capacities in stripes of the largest size."""
    each = targets.each
    largest = max((bytes_on_each(component) for component in components), default=1)
    servers = sorted({target.server for target in each})
    graph = Graph(
        servers=[servers.index(target.server) for target in each],
        server_loads=[min(targets.server_busy.get(server, 0.0), 1.0) for server in servers],
        fills=[1.0 - target.free_bytes / target.total_bytes if target.total_bytes else 1.0 for target in each],
        capacities=[target.free_bytes // largest for target in each],
        stripes=[component.stripe_count for component in components],
    )
    return [[each[place].name for place in places] for places in allocate(graph)]


def _check_named(components: Sequence[Component], targets: Targets) -> None:
    known = {target.name for target in targets.each}
    for component in components:
        for target in component.targets:
            if target not in known:
                raise AllotmentError(
                    f"{component.path}: its layout names the target {target}, which is not there or takes no stripes",
                    hint="see the targets with `weir status`, those of Lustre with `lfs df`",
                )


def _limits(components: Sequence[Component], targets: Targets) -> dict[str, int]:
    """Most bytes that each target may get, so that no target takes longer than the slowest one."""
    loads = _loads(components, targets)
    longest = max((target.load_bytes + loads[target.name]) / target.speed for target in targets.each if target.speed)
    return {
        target.name: max(min(int(longest * target.speed - target.load_bytes), target.free_bytes), loads[target.name])
        for target in targets.each
    }


def _loads(components: Sequence[Component], targets: Targets) -> dict[str, int]:
    loads = {target.name: 0 for target in targets.each}
    for component in components:
        share = bytes_on_each(component)
        for target in component.targets:
            loads[target] += share
    return loads
