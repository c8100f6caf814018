"""Targets of the files of several applications, chosen at one place and by prediction, as the Tarazu paper does.

Files come in waves: those of earlier runs, then those of the run at hand. Every wave finds the free space that the
waves before it left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from weir import _core
from weir.placement.allotment import DEFAULT, allot, bytes_on_each
from weir.placement.arrangement import Beginning
from weir.placement.database import END_OF_FILE, Component
from weir.placement.min_cost_flow import NAME as LINEAR
from weir.placement.targets import Target, Targets
from weir.tracing.records import SHARED

BATCH = 128
"""Components between two looks at the free space, for allocators other than the product's.

The paper's graph has an edge from every component to every target, and counts room in stripes of the largest size:
with all components at once the files do not fit on 160 targets. Lustre looks every five seconds (`qos_maxage`).
"""


@dataclass(frozen=True)
class File:
    """A file with its layout, which names no targets."""

    program: int
    """Number of its application."""
    layout: str
    bytes: int
    is_shared: bool
    """Whether all nodes of its application use it."""


@dataclass
class FileSystem:
    """Targets of one size on servers with as many targets each."""

    targets: int
    targets_each: int
    """Targets of a server."""
    capacity_bytes: int

    def __post_init__(self) -> None:
        """Begin with empty targets."""
        self._names = [f"{target // self.targets_each}.{target % self.targets_each}" for target in range(self.targets)]
        self._servers = [str(target // self.targets_each) for target in range(self.targets)]
        self._used = dict.fromkeys(self._names, 0)

    def place(self, waves: Iterable[Sequence[File]], allocator: str, seed: int) -> list[list[str]]:
        """Choose targets for the files of each wave.

        Args:
            waves: Files, one wave after the other.
            allocator: An allocator of `weir.placement.allotment.allocator_names`.
            seed: Seed of the allocators that draw.

        Returns:
            For each wave the layouts of its files, with their targets.
        """
        online = None if allocator in {DEFAULT, LINEAR} else _core.Allocator(allocator, seed=seed)
        placed = []
        for wave in waves:
            programs = groupby(enumerate(wave), lambda each: each[1].program)
            requests = [
                [part for number, file in own for part in _components(str(number), file)] for _, own in programs
            ]
            begun = {str(number): begin for number, begin in enumerate(_beginnings(wave))}
            chosen: dict[tuple[str, int], Sequence[str]] = {}
            for batch in _batches(requests, allocator):
                for part, own in zip(batch, self._choose(batch, allocator, begun, online), strict=True):
                    chosen[part.path, part.component] = own
                    for target in own:
                        self._used[target] += bytes_on_each(part)
            placed.append([_spelled(file.layout, str(number), chosen) for number, file in enumerate(wave)])
        return placed

    def _free(self) -> list[int]:
        return [max(self.capacity_bytes - used, 0) for used in self._used.values()]

    def _state(self) -> Targets:
        rows = zip(self._names, self._servers, self._free(), strict=True)
        each = tuple(Target(name, server, free, self.capacity_bytes) for name, server, free in rows)
        busy = dict.fromkeys(self._servers, 0.0)
        for target in each:
            busy[target.server] += (1 - target.free_bytes / target.total_bytes) / self.targets_each
        speeds = dict.fromkeys(self._servers, float(self.targets_each))
        return Targets(each, server_speeds=speeds, server_busy=busy)

    def _choose(
        self,
        batch: Sequence[Component],
        allocator: str,
        begun: Mapping[str, Beginning],
        online: _core.Allocator | None,
    ) -> Sequence[Sequence[str]]:
        """The targets of each component, by prediction, or by an allocator that goes on from component to component."""
        if online is None:
            found = allot(batch, self._state(), allocator=allocator, begun=begun)
            return [part.targets for part in found.components]
        return online.allocate(
            self._names,
            [part.stripe_count for part in batch],
            [bytes_on_each(part) for part in batch],
            servers=self._servers,
            free_bytes=self._free(),
        ).targets


def _beginnings(wave: Sequence[File]) -> list[Beginning]:
    """The begin of each file: the nodes of an application use its shared files one after the other, all at once."""
    used: dict[int, int] = {}
    found = []
    for file in wave:
        before = used.get(file.program, 0)
        found.append(Beginning(file.program, before if file.is_shared else 0))
        used[file.program] = before + file.bytes
    return found


def _batches(requests: Sequence[Sequence[Component]], allocator: str) -> list[list[Component]]:
    """The components of all programs at once, or those of each program, `BATCH` at a time."""
    if allocator == DEFAULT:
        return [list(chain.from_iterable(requests))]
    return [list(own[first : first + BATCH]) for own in requests for first in range(0, len(own), BATCH)]


def _components(path: str, file: File) -> list[Component]:
    """The components that hold bytes of a file."""
    held, begin, rank = [], 0, SHARED if file.is_shared else 0
    for number, part in enumerate(_core.parse_layout(file.layout), start=1):
        if begin >= file.bytes:
            break
        end = part["end"] or END_OF_FILE
        width, stripes = part["stripe_bytes"] or 0, part["stripes"] or 1
        held.append(Component(path, number, begin, end, width, stripes, file.bytes, rank))
        begin = part["end"] or file.bytes
    return held


def _spelled(layout: str, path: str, chosen: dict[tuple[str, int], Sequence[str]]) -> str:
    """A layout with its targets; it ends with the last component that holds bytes."""
    components = _core.parse_layout(layout)
    held = [number for number in range(1, len(components) + 1) if (path, number) in chosen]
    parts = []
    for number in held:
        component = components[number - 1]
        end = "" if len(held) == 1 else f"-E {-1 if number == held[-1] else component['end']} "
        parts.append(f"{end}-S {component['stripe_bytes']} -o {','.join(chosen[path, number])}")
    return " ".join(parts)
