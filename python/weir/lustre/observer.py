"""The load of this host, and the rule that an allocation waits while the host is busy (Tarazu, section 5.6)."""

from dataclasses import dataclass
from pathlib import Path

from weir.lustre.message import NetworkRates
from weir.lustre.rates import rates
from weir.lustre.tree import Reading, read_tree

CPU_FRACTION_MAX = 0.70
"""Part of the processors' time from which an allocation waits."""
MEMORY_FRACTION_MAX = 0.50
"""Part of the memory from which an allocation waits. Both thresholds are the paper's, "manually tuned" there."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Loads of this host from which an allocation waits; each is a part from 0 to 1."""

    cpu_fraction_max: float = CPU_FRACTION_MAX
    memory_fraction_max: float = MEMORY_FRACTION_MAX


@dataclass(frozen=True, slots=True)
class OwnLoad:
    """Load of the collector's host; None where a value is not known."""

    cpu_fraction: float | None
    memory_fraction: float | None
    load_average: float | None
    network: NetworkRates | None


def waits_for(load: OwnLoad, thresholds: Thresholds) -> str | None:
    """Decide whether an allocation should wait.

    Args:
        load: Load of this host.
        thresholds: Loads from which an allocation waits.

    Returns:
        The reason in words; None where an allocation may run.
    """
    if load.cpu_fraction is None or load.memory_fraction is None:
        return "processor and memory use are not known yet"
    if load.cpu_fraction >= thresholds.cpu_fraction_max:
        return f"{load.cpu_fraction:.0%} of the processors is used, of {thresholds.cpu_fraction_max:.0%} at most"
    if load.memory_fraction >= thresholds.memory_fraction_max:
        return f"{load.memory_fraction:.0%} of the memory is used, of {thresholds.memory_fraction_max:.0%} at most"
    return None


class Observer:
    """Observes the load of this host."""

    def __init__(self, root: Path) -> None:
        """Prepare to observe a host.

        Args:
            root: Folder that holds `proc` and `sys`: `/` of a live host, or a copy.
        """
        self._root = root
        self._before: Reading | None = None

    def look(self) -> OwnLoad:
        """Read the load. The processors' part is that since the last look, so the first look does not know it.

        Returns:
            The load now.
        """
        reading = read_tree(self._root, with_targets=False)
        since = rates(self._before, reading) if self._before is not None else None
        self._before = reading
        return OwnLoad(
            since.cpu_fraction if since else None,
            reading.memory.used_fraction if reading.memory else None,
            reading.load.one_minute if reading.load else None,
            since.network if since else None,
        )
