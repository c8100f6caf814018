"""The rule for allocation on a metadata server: it runs only while processor and memory are free (section 5.6)."""

from dataclasses import dataclass
from pathlib import Path

from weir.lustre.message import NetworkRates
from weir.lustre.rates import rates
from weir.lustre.tree import Reading, read_tree

CPU_FRACTION_MAX = 0.70
MEMORY_FRACTION_MAX = 0.50
"""The paper's thresholds, "manually tuned" there."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Above either, allocation waits."""

    cpu_fraction_max: float = CPU_FRACTION_MAX
    memory_fraction_max: float = MEMORY_FRACTION_MAX


@dataclass(frozen=True, slots=True)
class OwnLoad:
    """Load of the gathering host; None where it is not known."""

    cpu_fraction: float | None
    memory_fraction: float | None
    load_average: float | None
    network: NetworkRates | None


def waits_for(load: OwnLoad, thresholds: Thresholds) -> str | None:
    """The reason why allocation should wait; None where it may run."""
    if load.cpu_fraction is None or load.memory_fraction is None:
        return "processor and memory use are not known yet"
    if load.cpu_fraction >= thresholds.cpu_fraction_max:
        return f"{load.cpu_fraction:.0%} of the processors is used, of {thresholds.cpu_fraction_max:.0%} at most"
    if load.memory_fraction >= thresholds.memory_fraction_max:
        return f"{load.memory_fraction:.0%} of the memory is used, of {thresholds.memory_fraction_max:.0%} at most"
    return None


class Observer:
    """Observes this host."""

    def __init__(self, root: Path) -> None:
        """Read below `root`; processor use is measured since the last look."""
        self._root = root
        self._before: Reading | None = None

    def look(self) -> OwnLoad:
        """The load now."""
        reading = read_tree(self._root, with_targets=False)
        since = rates(self._before, reading) if self._before is not None else None
        self._before = reading
        return OwnLoad(
            since.cpu_fraction if since else None,
            reading.memory.used_fraction if reading.memory else None,
            reading.load.one_minute if reading.load else None,
            since.network if since else None,
        )
