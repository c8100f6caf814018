"""The objectives that come with Weir: its own stores on classes of devices, each configured for one kind of work.

The figures are those of the simulated table. Targets of `memory` are in memory, which keeps nothing over a restart; all
others are folders on devices. A name says the work, the class of the devices, and the number of servers with one each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import msgspec

from weir.provisioning.objectives.sslo_tables import simulated
from weir.provisioning.objectives.sslos import Purpose, Sslo, SsloTable

DEFAULT = "writes-nvme-16"
"""The objective of jobs that nothing is near to: they need more than anything gives."""
_ALL: Sequence[Purpose] = ("reads", "writes", "small", "random", "metadata")
_OFFERS: Sequence[tuple[str, Sequence[int], Sequence[Purpose]]] = (
    ("hdd", (1,), ("light",)),
    ("hdd", (4, 16), ("reads", "writes", "metadata")),
    ("ssd", (1, 4, 16), _ALL),
    ("nvme", (1, 4, 16, 32), _ALL),
    ("pmem", (4, 16, 32), ("reads", "small", "random")),
    ("memory", (1, 4, 16), ("",)),
)
"""Classes of devices, numbers of servers, and the work for which such stores are meant. Disks serve no small calls
and no random ones, as each waits for a turn; PMEM writes no faster than NVMe."""
_ANY = "scratch"
"""The first part of the name of an objective that is meant for any work, and is not durable."""


@cache
def built_in() -> SsloTable:
    """The objectives of Weir's own stores."""
    source = f"{simulated().source}; of each store the best configuration for the work in the objective's name"
    return SsloTable(source=source, sslos=tuple(_objectives()), default=DEFAULT)


def _objectives() -> Iterator[Sslo]:
    systems: dict[tuple[str, int], list[Sslo]] = {}
    for each in simulated().sslos:
        systems.setdefault((each.system.device, each.system.servers), []).append(each)
    for device, counts, purposes in _OFFERS:
        for count in counts:
            for purpose in purposes:
                # Of equal configurations the first one is taken, so that a table is repeatable.
                best = max(systems[device, count], key=_FIGURES[purpose])
                yield msgspec.structs.replace(best, name=f"{purpose or _ANY}-{device}-{count}", purpose=purpose)


def _read(sslo: Sslo) -> float:
    return sslo.guarantees.read_bytes_per_second or 0.0


def _write(sslo: Sslo) -> float:
    return sslo.guarantees.write_bytes_per_second or 0.0


def _both(sslo: Sslo) -> float:
    return 1.0 / (1.0 / _read(sslo) + 1.0 / _write(sslo))


_FIGURES: Mapping[Purpose, Callable[[Sslo], float]] = {
    "": _both,
    "light": _both,
    "reads": _read,
    "writes": _write,
    "small": lambda sslo: _both(sslo) * (sslo.sensitivities.small or 0.0),
    # Most calls at random places are small.
    "random": lambda sslo: _both(sslo) * (sslo.sensitivities.small or 0.0) * (sslo.sensitivities.random or 0.0),
    # Small files have one stripe.
    "metadata": lambda sslo: float(sslo.system.settings["stripe_count"] == "1"),
}
"""The figure by which a configuration is chosen for each kind of work."""
