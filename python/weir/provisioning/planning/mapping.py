"""From the classes that a job is near to the service-level objective that it needs (LuxIO, algorithm 1).

All scores are on the scale from 0 to 1 and no table moves them:

fitness         nearness of the job to a class: 1 where all features are equal (`classes.py`)
coverage        1 where an objective does the I/O of a class in the time that it may take, 0 where it takes 10,000 times
                as long, and between them by the logarithm
satisfaction    fitness times coverage; the pair with the greatest one is chosen

The job's own record is a class of which it is the middle, so its fitness is 1. Objectives whose satisfaction differs by
less than `ALIKE` satisfy alike: of these the cheapest is chosen, and of equally cheap ones the one that is meant for
what the job spends most of its I/O time on.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS, BehaviourClass, Fitness, fitnesses
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Semantics, Sslo, SsloTable
from weir.provisioning.planning.needs import IoWork, Kind, allowed_seconds, rate, weights
from weir.provisioning.planning.purposes import purpose_part, purposes
from weir.provisioning.sharing.policies import unmet
from weir.provisioning.sharing.prices import COST_DEFAULT, COSTS

ANY = Semantics(durable=False)
"""Semantics that every system has."""
SATISFACTION_MIN = 0.25
"""Below, nothing is near, and the default objective is used: the least satisfaction of LuxIO's evaluation is 0.255."""
ALIKE = 0.01
"""Satisfactions that differ by less are alike: a tenth of the time of I/O, which a configuration moves as well."""
TIMES_MAX = 1e4
"""An objective whose time is this multiple of the time that a job's I/O may take covers nothing of the job."""


ALIKE_TIMES = TIMES_MAX**ALIKE
"""Times of I/O by which satisfactions that are alike differ at most."""


class Path(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way from the job by a class to an objective."""

    behaviour_class: str
    """Name of the class; that of the job's identity where its own record stands for one."""
    sslo: str
    fitness: float
    coverage: float
    satisfaction: float
    """Fitness times coverage."""
    io_seconds: float
    """Time of the job's own I/O on a system as the objective's."""
    cost: float
    """Usual price of the objective's devices, in node-hours an hour."""
    purpose_part: float
    """Part of the job's I/O time for which the objective is meant."""


class Mapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choice of an objective."""

    sslo: Sslo
    best: Path
    """The path to the objective that satisfies most, and of those that satisfy alike costs least."""
    runner_up: Path | None
    """The next path, to another objective; None where the table has one alone."""
    is_default: bool
    """Whether nothing is near, so that the objective is the table's default."""
    is_new_class: bool
    """Whether the job is too far from each class, so that it is a class of its own."""
    own_coverage: float
    """Part of the job's own needs that the objective gives."""
    allowed_seconds: float
    """Time that the job's I/O may take."""
    fitnesses: tuple[Fitness, ...]
    left_out: dict[str, tuple[str, ...]] = {}
    """Objectives that lack semantics that the job has to have, with what they lack."""


class ClassNeeds(msgspec.Struct, frozen=True):
    """A class with its needs, which are the same for each job."""

    name: str
    work: IoWork
    weights: dict[Kind, float]
    seconds: float
    """Time that its I/O may take."""


def class_needs(name: str, centre: Identity) -> ClassNeeds:
    """Find the needs of a class.

    Args:
        centre: The job in its middle.
    """
    return ClassNeeds(name, IoWork(centre), weights(centre), allowed_seconds(centre))


def coverage(of: ClassNeeds, sslo: Sslo) -> float:
    """The part of a class's needs that an objective gives.

    Kinds of work whose rate was not measured are left out, with their part of the time.

    Returns:
        A number from 0 to 1; 1 for a class without I/O, and 0 where nothing that the class needs was measured, or a
        rate is 0.
    """
    if not of.weights:
        return 1.0
    rates = {kind: rate(sslo.guarantees, kind) for kind in of.weights}
    known = sum(part for kind, part in of.weights.items() if rates[kind] is not None)
    if known <= 0 or 0.0 in rates.values():
        return 0.0
    times = of.work.seconds(sslo.guarantees, sslo.sensitivities) / (of.seconds * known)
    return 1.0 - min(max(math.log(times) / math.log(TIMES_MAX), 0.0), 1.0)


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
        self._costs = [usual_cost(each) for each in self._sslos]
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
        itself = class_needs(identity.name, identity)
        own = self._coverages_of(itself)
        is_new = found[0].fitness < self._new_class_fitness
        paths = self._best_paths(identity, itself, own, [] if is_new else found)
        lacking = {each.name: missing for each in self._sslos if (missing := unmet(wanted, each.semantics))}
        allowed = [place for place, each in enumerate(self._sslos) if each.name not in lacking]
        order = self._order(paths, own, allowed or range(len(paths)))
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
            allowed_seconds=itself.seconds,
            fitnesses=tuple(found),
            left_out=lacking if allowed else {},
        )

    def _best_paths(
        self, identity: Identity, itself: ClassNeeds, own: Sequence[float], found: Sequence[Fitness]
    ) -> list[Path]:
        """The best path to each objective: by the job's own record, or by a class."""
        paths, parts = [], purposes(identity)
        for place, sslo in enumerate(self._sslos):
            ways = [(own[place], identity.name, 1.0, own[place])]
            for each in found:
                covered = self._covered[each.name][place]
                ways.append((each.fitness * covered, each.name, each.fitness, covered))
            satisfaction, name, fitness, covered = max(ways, key=lambda way: way[0])
            paths.append(
                Path(
                    behaviour_class=name,
                    sslo=sslo.name,
                    fitness=fitness,
                    coverage=covered,
                    satisfaction=satisfaction,
                    io_seconds=itself.work.seconds(sslo.guarantees, sslo.sensitivities),
                    cost=self._costs[place],
                    purpose_part=purpose_part(parts, sslo.purpose),
                )
            )
        return paths

    def _order(self, paths: Sequence[Path], own: Sequence[float], allowed: Sequence[int]) -> list[int]:
        """The two best objectives."""
        order: list[int] = []
        while len(order) < min(2, len(allowed)):
            left = [place for place in allowed if place not in order]
            left = _alike(left, lambda place: paths[place].satisfaction)
            left = _alike(left, own.__getitem__)
            order.append(
                min(left, key=lambda place: (paths[place].cost, -paths[place].purpose_part, paths[place].io_seconds))
            )
        return order


def _alike(places: Sequence[int], score: Callable[[int], float]) -> list[int]:
    """The places whose score is as good as the best one's."""
    best = max(map(score, places))
    return [place for place in places if score(place) >= best - ALIKE]


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


def usual_cost(sslo: Sslo) -> float:
    """The price of an objective's devices where the administrator sets none.

    Returns:
        Node-hours an hour.
    """
    system = sslo.system
    return system.servers * system.targets_per_server * COSTS.get(system.device, COST_DEFAULT)


def _amount(sslo: Sslo) -> tuple[int, float]:
    """The size of a system: its servers, then its rates."""
    rates = sslo.guarantees
    return sslo.system.servers, (rates.read_bytes_per_second or 0.0) + (rates.write_bytes_per_second or 0.0)
