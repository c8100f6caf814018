"""A past run as the learning sees it: its traits, its begin and its storage."""

from typing import Any

import msgspec

from weir.provisioning.behaviour.traits import Traits, of_log
from weir.tracing.totals import LogTotals

NAME_MAX = 128
"""Longest name of a program or storage: longer ones are cut, so that no log makes a large record."""
_COUNT_MAX = 2**62
"""Greatest count: a counter that overflowed in the log says no more than that there were many."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A past run."""

    traits: Traits
    started: float
    """Begin of the run, in seconds since 1970; 0 where it is not known."""
    storage: str = ""
    """Name of the file system; empty where it is not known, as in a Darshan log."""


def of_totals(log: LogTotals) -> Run:
    """Take a run from its log.

    Args:
        log: The log's totals.

    Returns:
        The run. Counters below zero, which Darshan writes for unknown ones, are zero.
    """
    traits = bounded(of_log(log))
    return Run(traits=traits, started=max(log.started, 0.0))


def bounded(traits: Traits) -> Traits:
    """Bound names, counts and times of a log, which may say anything.

    Returns:
        The same traits within the bounds.
    """

    def count(value: Any) -> Any:
        if isinstance(value, str):
            return value[:NAME_MAX]
        if isinstance(value, int):
            return min(max(value, 0), _COUNT_MAX)
        if isinstance(value, float):
            return min(max(value, 0.0), 1e18) if value == value else 0.0
        return value

    plain = {name: count(value) for name, value in msgspec.structs.asdict(traits).items()}
    for way in ("read", "write"):
        transfers = msgspec.structs.asdict(getattr(traits, way))
        plain[way] = type(traits.read)(**{name: count(value) for name, value in transfers.items()})
    plain["processes"] = max(traits.processes, 1)
    return Traits(**plain)
