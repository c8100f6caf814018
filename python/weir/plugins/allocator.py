"""Allocators: the targets of the stripes of files that are about to be made."""

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from weir.plugins.errors import wrong_answer
from weir.plugins.plugin import Plugin


class Target(NamedTuple):
    """A target that can take stripes."""

    name: str
    """`SERVER.INDEX` of a store, or the index of an OST of Lustre."""
    server: int | str
    """Its server."""
    speed: float
    """The speed that it achieves, relative to the others or in bytes a second; above 0."""
    load_bytes: float
    """Bytes of work that it has."""
    free_bytes: int
    """Bytes that still fit."""
    server_speed: float
    """The speed of its server, in the unit of its own; infinite where the server is never the narrow place."""
    server_load_bytes: float
    """Bytes of work that its server has."""


class Demand(NamedTuple):
    """One component of one file: stripes that need distinct targets."""

    stripes: int
    """Number of stripes, at least 1 and at most the number of targets."""
    stripe_bytes: int
    """Bytes that each of its targets will hold."""
    program: int
    """Number of the file's program."""


class Allocator(Protocol):
    """Chooses targets. A simulated home server has an object of its own, which is made with `seed`."""

    def allocate(self, targets: Sequence[Target], demands: Sequence[Demand]) -> Sequence[Sequence[int]]:
        """Choose the targets of demands.

        Args:
            targets: The targets that can take stripes. Their loads do not have these demands.
            demands: In the simulator one component of the file that is made; in `weir place` those of all files.

        Returns:
            For each demand, in their order, the places of its targets in `targets`, in the order of its stripes; none
            twice.
        """


class CheckedAllocator:
    """An allocator whose faults name it, and whose choices can be made. See `Allocator`."""

    def __init__(self, plugin: Plugin, seed: int) -> None:
        """Make the allocator.

        Args:
            seed: Start of its dice.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.plugin = plugin
        self._made = plugin.make(seed)

    def allocate(self, targets: Sequence[tuple[Any, ...]], demands: Sequence[tuple[Any, ...]]) -> list[list[int]]:
        """See `Allocator`.

        Args:
            targets: The fields of each `Target`.
            demands: The fields of each `Demand`.

        Raises:
            PluginError: The plug-in fails, or its choice cannot be made.
        """
        asked = [Demand._make(demand) for demand in demands]
        found = self.plugin.call("allocate", self._made.allocate, [Target._make(each) for each in targets], asked)
        try:
            chosen = [[operator.index(place) for place in places] for places in found]
        except TypeError:
            raise self._wrong(f"{found!r} is no list of lists of places") from None
        if len(chosen) != len(asked):
            raise self._wrong(f"it has targets for {len(chosen)} demands, and there are {len(asked)}")
        for number, (places, demand) in enumerate(zip(chosen, asked, strict=True)):
            if len(places) != demand.stripes:
                raise self._wrong(f"demand {number} has {len(places)} targets for {demand.stripes} stripes")
            if len(set(places)) != len(places):
                raise self._wrong(f"demand {number} has a target twice: {places}")
            if not all(0 <= place < len(targets) for place in places):
                raise self._wrong(f"demand {number} has {places}, and places are 0 to {len(targets) - 1}")
        return chosen

    def _wrong(self, message: str) -> Exception:
        return wrong_answer(self.plugin, "allocate", message)


class AllocatorMaker:
    """Makes the allocators of simulated home servers, as the engine asks for them."""

    def __init__(self, plugin: Plugin) -> None:
        """Begin without allocators."""
        self.name = plugin.name
        self._plugin = plugin

    def __call__(self, seed: int) -> CheckedAllocator:
        """Make the allocator of a home server.

        Args:
            seed: Start of its dice.
        """
        return CheckedAllocator(self._plugin, seed)
