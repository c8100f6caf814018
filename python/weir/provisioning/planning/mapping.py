"""From the classes that a job is near to the service-level objective that it needs (LuxIO, algorithm 1).

All scores are on the scale from 0 to 1 and no table moves them:

fitness         nearness of the job to a class: 1 where all features are equal (`classes.py`)
coverage        part of the class's needed rates that an objective gives: 1 where it gives all of them
satisfaction    fitness times coverage; the pair with the greatest one is chosen

A job that is too far from each class is a class of its own. Of objectives that satisfy equally, which is usual where a
class needs less than any of them gives, the smallest one that gives the job's own needs is chosen.
"""

import math
from collections.abc import Sequence

import msgspec

from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS, BehaviourClass, Fitness, fitnesses
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Semantics, Sslo, SsloTable
from weir.provisioning.planning.needs import KINDS, RATE_MIN, Kind, Needs, effective, needs, rate, weights
from weir.provisioning.sharing.policies import unmet

ANY = Semantics(durable=False)
"""Semantics that every system has."""
SATISFACTION_MIN = 0.25
"""Below, nothing is near, and the default objective is used: the least satisfaction of LuxIO's evaluation is 0.255."""
_DIGITS = 9
"""Satisfactions that differ less are equal: the sums of one objective may differ by rounding."""


class Path(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way from the job by a class to an objective."""

    behaviour_class: str
    sslo: str
    fitness: float
    coverage: float
    satisfaction: float
    """Fitness times coverage."""


class Mapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choice of an objective."""

    sslo: Sslo
    best: Path
    """The path of the greatest satisfaction."""
    runner_up: Path | None
    """The best path to another objective; None where the table has one alone."""
    is_default: bool
    """Whether nothing is near, so that the objective is the table's default."""
    is_new_class: bool
    """Whether the job is too far from each class, so that it is a class of its own."""
    own_coverage: float
    """Part of the job's own needs that the objective gives."""
    fitnesses: tuple[Fitness, ...]
    left_out: dict[str, tuple[str, ...]] = {}
    """Objectives that lack semantics that the job has to have, with what they lack."""


class ClassNeeds(msgspec.Struct, frozen=True):
    """A class with its needs, which are the same for each job."""

    name: str
    centre: Identity
    needs: Needs
    weights: dict[Kind, float]


def class_needs(name: str, centre: Identity) -> ClassNeeds:
    """Find the needs of a class.

    Args:
        centre: The job in its middle.
    """
    return ClassNeeds(name, centre, needs(centre), weights(centre))


def coverage(of: ClassNeeds, sslo: Sslo) -> float:
    """The part of a class's needs that an objective gives.

    Each kind of work has a score: 1 where the objective's rate, under the class's pattern of calls, is what the class
    needs; else the ratio of the logarithms of both rates, from `RATE_MIN` on. The coverage is their mean, by the
    class's weights of the kinds that were measured.

    Returns:
        A number from 0 to 1; 1 for a class without I/O, and 0 where nothing that the class needs was measured.
    """
    if not of.weights:
        return 1.0
    rates = effective(of.centre, sslo.guarantees, sslo.sensitivities)
    total = whole = 0.0
    for kind in KINDS:
        reached, needed = rate(rates, kind), of.needs.rate(kind)
        if needed is None or reached is None:
            continue
        weight = of.weights[kind]
        whole += weight
        least = RATE_MIN[kind]
        total += weight * min(1.0, math.log1p(max(reached, 0.0) / least) / math.log1p(needed / least))
    return total / whole if whole > 0 else 0.0


class Coverages:
    """The coverage of each class by each objective, which is computed once for all jobs."""

    def __init__(
        self, classes: Sequence[BehaviourClass], table: SsloTable, *, new_class_fitness: float = NEW_CLASS_FITNESS
    ) -> None:
        """Compute them.

        Args:
            new_class_fitness: Fitness below which a job is like none of the classes.

        Raises:
            ProvisioningError: There is no class or no objective, or the default is none of the objectives.
        """
        if not classes or not table.sslos:
            raise ProvisioningError(
                f"the table of {'classes' if not classes else 'service-level objectives'} is empty",
                hint="`weir classes build` and `weir sslo build` make tables",
            )
        self._classes = tuple(classes)
        self._new_class_fitness = new_class_fitness
        self._default = default_sslo(table)
        self._sslos = sorted(table.sslos, key=lambda each: (_amount(each), each.name))
        self._covered = {each.name: self._coverages_of(class_needs(each.name, each.centre)) for each in classes}

    def _coverages_of(self, of: ClassNeeds) -> tuple[float, ...]:
        return tuple(coverage(of, sslo) for sslo in self._sslos)

    def map(self, identity: Identity, wanted: Semantics = ANY) -> Mapping:
        """Choose the objective of a job.

        Args:
            wanted: Properties that the job has to have. Objectives that lack them are left out, unless all do: then
                the rates of all count, and the deployment alone has to have the properties.

        Returns:
            The choice.
        """
        found = fitnesses(identity, self._classes)
        own = self._coverages_of(class_needs(identity.name, identity))
        is_new = found[0].fitness < self._new_class_fitness
        if is_new:
            paths = [_path(identity.name, sslo, 1.0, covered) for sslo, covered in zip(self._sslos, own, strict=True)]
        else:
            paths = self._best_paths(found)
        # Python's sort keeps the order of equal entries, which is by size.
        lacking = {each.name: missing for each in self._sslos if (missing := unmet(wanted, each.semantics))}
        allowed = [place for place, each in enumerate(self._sslos) if each.name not in lacking]
        order = sorted(
            allowed or range(len(paths)), key=lambda place: (-paths[place].satisfaction, -round(own[place], _DIGITS))
        )
        best = paths[order[0]]
        is_default = best.satisfaction < SATISFACTION_MIN
        sslo = self._default if is_default else self._sslos[order[0]]
        return Mapping(
            sslo=sslo,
            best=best,
            runner_up=paths[order[1]] if len(order) > 1 else None,
            is_default=is_default,
            is_new_class=is_new,
            own_coverage=own[self._sslos.index(sslo)],
            fitnesses=tuple(found),
            left_out=lacking if allowed else {},
        )

    def _best_paths(self, found: Sequence[Fitness]) -> list[Path]:
        """The best path to each objective."""
        paths = []
        for place, sslo in enumerate(self._sslos):
            satisfactions = [each.fitness * self._covered[each.name][place] for each in found]
            best = max(range(len(found)), key=satisfactions.__getitem__)
            paths.append(_path(found[best].name, sslo, found[best].fitness, self._covered[found[best].name][place]))
        return paths


def _path(name: str, sslo: Sslo, fitness: float, covered: float) -> Path:
    return Path(
        behaviour_class=name,
        sslo=sslo.name,
        fitness=fitness,
        coverage=covered,
        satisfaction=round(fitness * covered, _DIGITS),
    )


def default_sslo(table: SsloTable) -> Sslo:
    """The objective of jobs that nothing is near to.

    Returns:
        The objective that the table names, or the one in the middle by its rates.

    Raises:
        ProvisioningError: The table names an objective that it does not have.
    """
    if table.default:
        found = next((each for each in table.sslos if each.name == table.default), None)
        if found is None:
            raise ProvisioningError(
                f"the default {table.default!r} is no objective of the table",
                hint=f"its objectives are {', '.join(each.name for each in table.sslos[:5])}",
            )
        return found
    return sorted(table.sslos, key=lambda each: (_amount(each), each.name))[len(table.sslos) // 2]


def _amount(sslo: Sslo) -> tuple[int, float]:
    """The size of a system: its servers, then its rates."""
    rates = sslo.guarantees
    return sslo.system.servers, (rates.read_bytes_per_second or 0.0) + (rates.write_bytes_per_second or 0.0)
