"""From the classes that a job is near to the service-level objective that it needs (LuxIO, algorithm 1).

All scores are on the scale from 0 to 1 and no table moves them:

fitness         nearness of the job to a class: 1 where all features are equal (`classes.py`)
coverage        part of the class's needed rates that an objective gives: 1 where it gives all of them
satisfaction    fitness times coverage; the pair with the greatest one is chosen
"""

import math
from collections.abc import Sequence

import msgspec

from weir.provisioning.classes import BehaviourClass, Fitness, fitnesses
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.identity import Identity
from weir.provisioning.needs import KINDS, RATE_MIN, Kind, Needs, effective, needs, rate, weights
from weir.provisioning.sslos import Sslo, SsloTable

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
    fitnesses: tuple[Fitness, ...]


class ClassNeeds(msgspec.Struct, frozen=True):
    """A class with its needs, which are the same for each job."""

    name: str
    centre: Identity
    needs: Needs
    weights: dict[Kind, float]


def class_needs(classes: Sequence[BehaviourClass]) -> tuple[ClassNeeds, ...]:
    """Find the needs of classes.

    Args:
        classes: The classes.

    Returns:
        One entry for each.
    """
    return tuple(ClassNeeds(each.name, each.centre, needs(each.centre), weights(each.centre)) for each in classes)


def coverage(of: ClassNeeds, sslo: Sslo) -> float:
    """The part of a class's needs that an objective gives.

    Each kind of work has a score: 1 where the objective's rate, under the class's pattern of calls, is what the class
    needs; else the ratio of the logarithms of both rates, from `RATE_MIN` on. The coverage is their mean, by the
    class's weights of the kinds that were measured.

    Args:
        of: The class.
        sslo: The objective.

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

    def __init__(self, classes: Sequence[BehaviourClass], table: SsloTable) -> None:
        """Compute them.

        Args:
            classes: The classes.
            table: The objectives.

        Raises:
            ProvisioningError: There is no class or no objective, or the default is none of the objectives.
        """
        if not classes or not table.sslos:
            raise ProvisioningError(
                f"the table of {'classes' if not classes else 'service-level objectives'} is empty",
                hint="`weir classes build` and `weir sslo build` make tables",
            )
        self._classes = tuple(classes)
        self._default = default_sslo(table)
        # Equal satisfactions are of objectives that give all that is needed: the smallest of them comes first.
        self._sslos = sorted(table.sslos, key=lambda each: (_amount(each), each.name))
        self._covered = {
            each.name: tuple(coverage(each, sslo) for sslo in self._sslos) for each in class_needs(classes)
        }

    def map(self, identity: Identity) -> Mapping:
        """Choose the objective of a job.

        Args:
            identity: The job.

        Returns:
            The choice.
        """
        found = fitnesses(identity, self._classes)
        best_of: list[Path | None] = [None] * len(self._sslos)
        for each in found:
            for place, covered in enumerate(self._covered[each.name]):
                satisfaction = round(each.fitness * covered, _DIGITS)
                before = best_of[place]
                if before is None or satisfaction > before.satisfaction:
                    best_of[place] = Path(
                        behaviour_class=each.name,
                        sslo=self._sslos[place].name,
                        fitness=each.fitness,
                        coverage=covered,
                        satisfaction=satisfaction,
                    )
        paths = [path for path in best_of if path is not None]
        order = sorted(range(len(paths)), key=lambda place: (-paths[place].satisfaction, place))
        best = paths[order[0]]
        is_default = best.satisfaction < SATISFACTION_MIN
        return Mapping(
            sslo=self._default if is_default else self._sslos[order[0]],
            best=best,
            runner_up=paths[order[1]] if len(order) > 1 else None,
            is_default=is_default,
            fitnesses=tuple(found),
        )


def default_sslo(table: SsloTable) -> Sslo:
    """The objective of jobs that nothing is near to.

    Args:
        table: The objectives.

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
