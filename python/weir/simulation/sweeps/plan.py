"""A sweep's file and its plan: one scenario, and the values of the keys that vary.

The file is a scenario's with a table `[sweep]`, or names one with `base`. Each key of `[sweep]` is a key of the
scenario with the list of its values; dots or tables lead to keys below, as in `layout.stripe_count` or
`jobs.0.processes`. Two keys are no scenario's: `seeds` is a number of seeds, and `leave_out` lists combinations that
are no points.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.simulation.documents import Document, Way, read_document
from weir.simulation.errors import ScenarioError
from weir.simulation.sweeps.errors import SweepFileError
from weir.simulation.sweeps.statistics import SEED

if TYPE_CHECKING:
    from weir.simulation.scenario import Scenario

REFERENCE = "see docs/reference/sweeps.md"
POINTS_MAX = 100_000
"""Most points of a sweep: each is checked before the first one runs, which takes a minute then."""
SEEDS_MAX = 10_000
"""Most seeds by their number."""
_SEEDS, _LEAVE_OUT = "seeds", "leave_out"


@dataclass(frozen=True)
class Point:
    """A point of a plan."""

    key: str
    """Digest of everything that decides its numbers but the engine."""
    settings: dict[str, Any]
    """Value of each key that varies."""


@dataclass(frozen=True)
class Plan:
    """The points of a sweep."""

    document: Document
    """The sweep's file, for errors."""
    base: Document
    """The scenario."""
    axes: dict[str, list[Any]]
    """Values of each key that varies, the first key's the slowest to change."""
    ways: dict[str, Way]
    """The way to each key's values in the file."""
    left_out: tuple[dict[str, Any], ...]
    """Combinations that are no points."""

    def points(self) -> Iterator[dict[str, Any]]:
        """Go through the points.

        Yields:
            The value of each key that varies.
        """
        for values in product(*self.axes.values()):
            settings = dict(zip(self.axes, values, strict=True))
            if not any(_includes(settings, each) for each in self.left_out):
                yield settings

    def error(self, message: str) -> SweepFileError:
        """Describe a fault of the whole plan.

        Args:
            message: The fault.

        Returns:
            The error, which names the file and the line of the table.
        """
        return _fault(self.document, ("sweep",), message)

    def fault(self, settings: Mapping[str, Any], error: ScenarioError) -> SweepFileError:
        """Describe a point that is no scenario, by the key that is at fault.

        Args:
            settings: The point.

        Returns:
            The error, which names the file and the line.
        """
        from weir.simulation.scenario import scenario_of

        for key, value in settings.items():
            try:
                scenario_of(self.base.changed({key: value}))
            except ScenarioError as alone:
                way = (*self.ways[key], self.axes[key].index(value))
                return _fault(self.document, way, f"{shown(value)} is not allowed: {alone.message}", alone.hint)
        message = f"the point {spelled(settings)} is no scenario: {error.message}"
        return _fault(self.document, ("sweep",), message, "leave the combination out with [[sweep.leave_out]]")


def read_plan(path: Path) -> Plan:
    """Read a sweep's file.

    Args:
        path: A TOML file.

    Raises:
        ScenarioError: The file, or the scenario that it names, cannot be read.
        SweepFileError: The sweep's table has a fault; the error names the file, the line and the key.
    """
    document = read_document(path)
    table = document.table()
    sweep: Any = table.value("sweep", {}, "a table", lambda found: found)
    if not isinstance(sweep, dict) or not sweep:
        raise SweepFileError(f"{path} has no [sweep] table with keys that vary", hint=REFERENCE)
    if table.has("base"):
        base = read_document(table.path("base"))
        table.close()
    else:
        base = document.changed({"sweep": None})
    axes, ways = _axes(document, sweep, base)
    left_out = _left_out(document, sweep, axes)
    count = prod(map(len, axes.values()))
    if count > POINTS_MAX:
        sizes = " x ".join(f"{len(values)} {key}" for key, values in axes.items())
        raise _fault(document, ("sweep",), f"{sizes} are {count} points; {POINTS_MAX} are the most")
    return Plan(document, base, axes, ways, left_out)


def spelled(settings: Mapping[str, Any]) -> str:
    """Spell a point for people.

    Args:
        settings: The value of each key.

    Returns:
        Text such as `policy=fifo, seed=3`.
    """
    return ", ".join(f"{key}={shown(value)}" for key, value in settings.items()) or "of the scenario itself"


def shown(value: Any) -> str:
    """Spell a value of a key for people.

    Returns:
        A text as it is, anything else as JSON.
    """
    return value if isinstance(value, str) else json.dumps(value, default=str)


def digest_of(value: Any) -> str:
    """Digest values for JSON.

    Args:
        value: The values; keys of tables are sorted first.

    Returns:
        SHA-256, in hexadecimal digits.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def workload_digest(scenario: "Scenario") -> str:
    """Digest the machines and the work of a scenario, with the bytes of every step.

    Returns:
        SHA-256, in hexadecimal digits.
    """
    document = [scenario.topology.document, scenario.workload.document()]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name, column in sorted(scenario.workload.steps.columns().items()):
        digest.update(f"{name} {column.dtype.str}".encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


def _axes(document: Document, sweep: Mapping[str, Any], base: Document) -> tuple[dict[str, list[Any]], dict[str, Way]]:
    axes: dict[str, list[Any]] = {}
    ways: dict[str, Way] = {}
    for way, values in _leaves(sweep, ()):
        key = ".".join(way)
        if way[0] in (_SEEDS, _LEAVE_OUT):
            continue
        place: Way = ("sweep", *way)
        if key in axes:
            raise _fault(document, place, f"{key} is there twice, in two spellings", "give it once")
        _check_values(document, place, values)
        axes[key], ways[key] = values, place
    if _SEEDS in sweep:
        count = sweep[_SEEDS]
        if SEED in axes:
            raise _fault(document, ("sweep", _SEEDS), "seeds and seed contradict each other", "give one of them")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= SEEDS_MAX:
            raise _fault(document, ("sweep", _SEEDS), f"{shown(count)} is no number of seeds from 1 to {SEEDS_MAX}")
        first = base.table().whole(SEED, 0)
        axes[SEED], ways[SEED] = list(range(first, first + count)), ("sweep", _SEEDS)
    return axes, ways


def _check_values(document: Document, place: Way, values: Any) -> None:
    if not isinstance(values, list):
        raise _fault(
            document, place, f"{shown(values)} is no list of values", f"write [{json.dumps(values, default=str)}]"
        )
    if not values:
        raise _fault(document, place, "the list is empty", "give one value at least")
    names = [json.dumps(value, sort_keys=True, default=str) for value in values]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise _fault(document, place, f"{repeated[0]} is there twice", "give each value once")


def _leaves(values: Mapping[str, Any], way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values that are no tables, with the keys that lead to them as the file spells them."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*way, key))
        else:
            yield (*way, key), value


def _left_out(document: Document, sweep: Mapping[str, Any], axes: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    tables = sweep.get(_LEAVE_OUT, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) and each for each in tables):
        raise _fault(document, ("sweep", _LEAVE_OUT), "it is no array of tables", "write each as [[sweep.leave_out]]")
    found = []
    for place, each in enumerate(tables):
        wanted = {".".join(way): value for way, value in _leaves(each, ())}
        for key, value in wanted.items():
            way: Way = ("sweep", _LEAVE_OUT, place, key)
            if key not in axes:
                raise _fault(document, way, "the sweep does not vary this key", f"it varies {', '.join(axes)}")
            allowed = value if isinstance(value, list) else [value]
            if missing := [one for one in allowed if one not in axes[key]]:
                raise _fault(document, way, f"{shown(missing[0])} is none of its values", f"give one of [sweep] {key}")
        found.append(wanted)
    return tuple(found)


def _includes(settings: Mapping[str, Any], left_out: Mapping[str, Any]) -> bool:
    return all(
        settings[key] in value if isinstance(value, list) else settings[key] == value for key, value in left_out.items()
    )


def _fault(document: Document, way: Way, message: str, hint: str = REFERENCE) -> SweepFileError:
    named = document.error(way, message, hint)
    return SweepFileError(named.message, hint=named.hint)
