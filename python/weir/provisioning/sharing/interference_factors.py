"""Interference factors: the slowdown of a class of jobs beside another one (LuxIO, section III-D).

A factor is the time that a job's I/O takes beside another job over the time that it takes alone. Factors come from
pairwise runs of the classes' representatives (`pairwise_runs.py`), with both jobs on one node and on separate nodes.
"""

import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from weir.provisioning import documents
from weir.provisioning.errors import ProvisioningError

_BUILT_IN = "tables/interference.json"
_TABLES_MAX = 8
"""Most tables whose factors are kept by pair: a planner has one."""
_Pairs = dict[tuple[str, str], list["Factor"]]
_sorted: dict[int, tuple["FactorTable", _Pairs, float]] = {}
"""Tables that were looked into, by identity: each is kept, so that no other one gets its identity."""


class Factor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The slowdown of one class beside another."""

    one: str
    """The class that is slowed down."""
    other: str
    """The class that runs beside it."""
    same_node: bool
    """Whether both ran on one node."""
    processes: int
    """Processes of each job."""
    slowdown: float
    """Median of the runs; at least 1, because a run that was faster than alone is noise."""
    runs: int = 1
    """Number of runs."""
    slowdown_max: float | None = None
    """The greatest slowdown of a run."""


class FactorTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors of a site."""

    version: Literal[1] = 1
    """Version of this document."""
    source: str
    """Origin of the factors."""
    conditions: str
    """The machine, the storage and the lengths of the runs, in words."""
    factors: tuple[Factor, ...]


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as interference sees it."""

    behaviour_class: str
    processes: int = 1
    nodes: tuple[str, ...] = ()
    """Its nodes; empty where they are not known, and the worse placement counts then."""


def read_table(text: bytes, place: str) -> FactorTable:
    """Read a table.

    Args:
        text: The document, JSON.
        place: Its place, for messages.

    Raises:
        ProvisioningError: The text is no such document, or a factor cannot be.
    """
    hint = "`weir plan factors` makes one; its schema is docs/reference/schemas/interference.schema.json"
    table = documents.decoded(text, place, FactorTable, "table of interference factors", hint)
    if not table.factors:
        raise ProvisioningError(f"{place} has no factor", hint="`weir plan factors` measures them")
    for each in table.factors:
        if not 1.0 <= each.slowdown < math.inf or each.processes < 1:
            raise ProvisioningError(
                f"{place}: {each.one} beside {each.other} has a slowdown of {each.slowdown:g} with "
                f"{each.processes} processes",
                hint="a slowdown is at least 1, and so is the number of processes",
            )
    return table


def of_file(path: Path) -> FactorTable:
    """Read a table from its file.

    Raises:
        ProvisioningError: The file cannot be read, or is not a table of interference factors.
    """
    return read_table(documents.content(path, "is it a table of factors?"), str(path))


def written(table: FactorTable) -> str:
    """Write a table, with a line for each factor.

    Returns:
        The document, JSON.
    """
    head = msgspec.json.encode(msgspec.structs.replace(table, factors=())).decode().removesuffix("[]}")
    lines = ",\n".join(msgspec.json.encode(each).decode() for each in table.factors)
    return f"{head}[\n{lines}\n]}}\n"


@cache
def built_in() -> FactorTable:
    """The factors between Argonne's classes, measured on a store of Weir with rate-limited targets.

    Returns:
        The table; its `conditions` say how it was measured.
    """
    return read_table((files("weir.provisioning") / _BUILT_IN).read_bytes(), _BUILT_IN)


def pair_slowdown(one: Neighbour, other: Neighbour, table: FactorTable) -> float:
    """Look the slowdown of a job beside one other up.

    Args:
        one: The job that is slowed down.

    Returns:
        The factor at the nearest measured scale. A pair that was not measured counts with the worst factor of the
        table, so that an unknown job never harms a known one beyond what was seen.
    """
    pairs, worst = _by_pair(table)
    found = pairs.get((one.behaviour_class, other.behaviour_class))
    if found is None:
        return worst
    known = bool(one.nodes and other.nodes)
    wanted = (not set(one.nodes).isdisjoint(other.nodes),) if known else (True, False)
    # A placement that was not measured counts with the one that was.
    placed = [each for each in found if each.same_node in wanted] or found
    scale = math.log(max(one.processes, other.processes, 1))
    nearest = min(abs(math.log(each.processes) - scale) for each in placed)
    return max(each.slowdown for each in placed if abs(math.log(each.processes) - scale) <= nearest + 1e-9)


def slowdown(one: Neighbour, others: Iterable[Neighbour], table: FactorTable) -> float:
    """Expect the slowdown of a job beside several others.

    The excesses over 1 of the pairs add up. That is exact for jobs of equal demand that share a device fairly: beside
    each other one, a job takes as long again as alone.

    Returns:
        The slowdown: 1 beside nobody.
    """
    return 1.0 + sum(pair_slowdown(one, other, table) - 1.0 for other in others)


def _by_pair(table: FactorTable) -> tuple[_Pairs, float]:
    """The factors of each pair, and the worst of all: a plan looks hundreds of pairs up, and a table has as many."""
    known = _sorted.get(id(table))
    if known is None:
        pairs: _Pairs = {}
        for each in table.factors:
            pairs.setdefault((each.one, each.other), []).append(each)
        known = (table, pairs, max((each.slowdown for each in table.factors), default=math.inf))
        if len(_sorted) >= _TABLES_MAX:
            _sorted.clear()
        _sorted[id(table)] = known
    return known[1], known[2]
