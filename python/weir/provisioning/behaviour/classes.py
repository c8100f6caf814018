"""Classes of I/O behaviour, and how near a job is to each: its fitness (LuxIO, section III-B, step 3).

Every feature is put on a scale from 0 to 1 that the table does not move: counts by their logarithm, up to a stated
greatest count, and fractions as they are. So a fitness means the same beside any table.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from weir.provisioning import documents
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.traits import Traits, Transfers
from weir.provisioning.errors import ProvisioningError

COUNTS_MAX: Mapping[str, float] = {
    "processes": 1e6,
    "read_bytes": 1e15,
    "written_bytes": 1e15,
    "read_operations": 1e10,
    "write_operations": 1e10,
    "metadata_operations": 1e10,
}
"""The greatest count of each counted feature: more is taken for it. Above them is no job of the Argonne years."""
FRACTIONS = ("small_fraction", "large_fraction", "sequential_fraction", "collective_fraction")
FEATURES = (*COUNTS_MAX, *FRACTIONS)
"""The features by which jobs and classes are compared, with equal weights."""
NEW_CLASS_FITNESS = 0.75
"""The usual fitness below which a job opens a class of its own: a distance of a quarter of each scale on average."""
CLASSES_MAX = 1000
"""Most classes of a table: a plan compares a job with each of them."""
_BUILT_IN = "tables/argonne-classes.csv"


TimeName = Literal["read", "write", "metadata"]


class ClassTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time that is predicted for the jobs of a class, all processes together."""

    seconds_per_unit: float
    """Seconds for a byte, or for a metadata operation."""
    factor: float
    """The ratio between the upper end of the 90 % interval and the prediction, and between that and the lower end."""
    runs: int
    """Runs of the class, predicted without each of them, that the interval comes from."""
    source: Literal["site", "shipped"]
    """The models of the site's own runs, or the classes that come with Weir."""


class BehaviourClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of jobs, by the job in its middle."""

    name: str
    jobs_fraction: float
    """Part of the jobs of the table that are in the class."""
    centre: Identity
    times: dict[TimeName, ClassTime] = {}
    """The times whose predictions are useful for jobs of the class."""
    refused: dict[TimeName, str] = {}
    """The reason why the prediction of each other time is of no use."""
    source: Literal["site", "shipped"] = "site"
    """Whether the class comes with Weir."""


class ClassTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes of a site."""

    version: Literal[1] = 1
    """Version of this document."""
    source: str
    """Origin of the classes."""
    jobs: int | None = None
    """Number of jobs that the classes were made from; None where it is not known."""
    new_class_fitness: float = NEW_CLASS_FITNESS
    """Fitness below which a job is like none of the classes."""
    classes: tuple[BehaviourClass, ...]


class Fitness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nearness of a job to a class."""

    name: str
    """Name of the class."""
    fitness: float
    """One less the distance: 1 where all features are equal, 0 where each is at the other end of its scale."""
    furthest: tuple[str, ...]
    """The features that differ most, the first most of all."""


def scaled(identity: Identity) -> tuple[float, ...]:
    """Put the features of an identity on their scales.

    Returns:
        Numbers from 0 to 1 in the order of `FEATURES`.
    """
    counts = [
        math.log1p(min(max(getattr(identity, name), 0), most)) / math.log1p(most) for name, most in COUNTS_MAX.items()
    ]
    return (*counts, *(getattr(identity, name) for name in FRACTIONS))


def fitnesses(identity: Identity, classes: Sequence[BehaviourClass]) -> list[Fitness]:
    """Compare a job with classes, by the normalised Euclidean distance.

    Returns:
        The fitness to each class, the best first.
    """
    own = scaled(identity)
    found = []
    for each in classes:
        apart = [abs(one - other) for one, other in zip(own, scaled(each.centre), strict=True)]
        distance = math.sqrt(sum(gap * gap for gap in apart) / len(apart))
        order = sorted(range(len(apart)), key=lambda place: -apart[place])
        furthest = tuple(FEATURES[place] for place in order[:3] if apart[place] > 0)
        found.append(Fitness(name=each.name, fitness=1.0 - distance, furthest=furthest))
    return sorted(found, key=lambda each: (-each.fitness, each.name))


@cache
def built_in() -> ClassTable:
    """The classes of 337,010 jobs of Argonne's Mira and Theta, as LuxIO's authors published them."""
    return ClassTable(
        source="LuxIO (grc-iit/luxio, BSD-3-Clause): medians of the classes of Argonne's jobs, 2017 to 2019",
        jobs=337_010,
        classes=_named([(row["count"], identify(traits)) for row, traits in _median_jobs()]),
    )


def built_in_costs() -> "list[tuple[Identity, dict[TimeName, float]]]":
    """The middles of the classes that come with Weir, with the seconds that their jobs took.

    Returns:
        Each middle with its seconds for a byte, or for a metadata operation; without the times of work that it lacks.
    """
    found = []
    for _, traits in _median_jobs():
        measured: tuple[tuple[TimeName, float, int], ...] = (
            ("read", traits.read.seconds, traits.read.bytes),
            ("write", traits.write.seconds, traits.write.bytes),
            ("metadata", traits.metadata_seconds, traits.metadata_operations),
        )
        costs: dict[TimeName, float] = {
            name: seconds / work for name, seconds, work in measured if seconds > 0 and work > 0
        }
        found.append((identify(traits), costs))
    return found


def _median_jobs() -> list[tuple[dict[str, float], Traits]]:
    text = (files("weir.provisioning") / _BUILT_IN).read_text()
    rows = [{name: float(cell) for name, cell in row.items() if name} for row in csv.DictReader(text.splitlines())]
    return [(row, _median_job(row)) for row in rows]


def beside_built_in(table: ClassTable) -> ClassTable:
    """Put the classes that come with Weir beside those of few runs, for jobs that are unlike these runs.

    Returns:
        The table with all classes; parts of jobs stay those of the site's runs.
    """
    used = {each.name for each in table.classes}
    classes = list(table.classes)
    for each in built_in().classes:
        name = _unused(each.name, used)
        used.add(name)
        classes.append(msgspec.structs.replace(each, name=name, jobs_fraction=0.0, source="shipped"))
    return msgspec.structs.replace(table, classes=tuple(classes))


def table_of(
    source: str,
    centres: Sequence[tuple[float, Identity]],
    *,
    jobs: int | None = None,
    new_class_fitness: float = NEW_CLASS_FITNESS,
) -> ClassTable:
    """Make a table.

    Args:
        source: Origin of the classes.
        centres: Part of the jobs, and the job in the middle, of each class.
        jobs: Number of jobs that the classes were made from.
        new_class_fitness: Fitness below which a job is like none of the classes.

    Returns:
        The table, whose classes have the names of their middles; a name that several have gets a number.
    """
    return ClassTable(source=source, jobs=jobs, new_class_fitness=new_class_fitness, classes=_named(centres))


def read_table(path: Path) -> ClassTable:
    """Read a table from its document.

    Args:
        path: The document, such as `classes.json` of `weir classes build`.

    Raises:
        ProvisioningError: The file is no such document, or its numbers are no job's.
    """
    hint = "`weir classes build` writes such a file"
    table = documents.read(path, ClassTable, "table of classes", hint)
    wrong = _fault(table)
    if wrong:
        raise ProvisioningError(f"{path} is no table of classes: {wrong}", hint=hint)
    return table


def _fault(table: ClassTable) -> str:
    """The reason why a table's numbers cannot be used; empty where they can."""
    if not 1 <= len(table.classes) <= CLASSES_MAX:
        return f"it has {len(table.classes)} classes, and 1 to {CLASSES_MAX} are possible"
    if len({each.name for each in table.classes}) < len(table.classes):
        return "two classes have one name"
    if table.jobs is not None and table.jobs < 0:
        return "it has less than no job"
    if not 0 <= table.new_class_fitness <= 1:
        return f"its new_class_fitness is {table.new_class_fitness}, and 0 to 1 is possible"
    for each in table.classes:
        if not 0 <= each.jobs_fraction <= 1:
            return f"{each.name} has {each.jobs_fraction} of the jobs"
        for name in FRACTIONS:
            if not 0 <= getattr(each.centre, name) <= 1:
                return f"{name} of {each.name} is {getattr(each.centre, name)}, and 0 to 1 is possible"
        for name in COUNTS_MAX:
            if getattr(each.centre, name) < 0:
                return f"{name} of {each.name} is below 0"
    return ""


def with_fitness_min(table: ClassTable, fitness: float | None) -> ClassTable:
    """Change the fitness below which a job is like none of the classes.

    Args:
        fitness: The fitness, from 0 to 1; None for the table's own.
    """
    return table if fitness is None else msgspec.structs.replace(table, new_class_fitness=fitness)


def with_job(table: ClassTable, identity: Identity) -> tuple[ClassTable, BehaviourClass, bool]:
    """Count one more job in a table. A job that is too far from every class opens a new class.

    Returns:
        The new table, the job's class in it, and whether the class is new. A full table stays as it is.
    """
    best = fitnesses(identity, table.classes)[0]
    name, classes = best.name, list(table.classes)
    is_new = best.fitness < table.new_class_fitness and len(classes) < CLASSES_MAX
    if is_new:
        name = _unused(identity.name, {each.name for each in classes})
        # A class tells nothing about the user whose job is in its middle.
        centre = msgspec.structs.replace(identity, program="")
        classes.append(BehaviourClass(name=name, jobs_fraction=0.0, centre=centre))
    jobs = table.jobs
    if jobs is not None:
        # Parts of a number of jobs that is not known stay as they are.
        parts = [(each.jobs_fraction * jobs + (each.name == name)) / (jobs + 1) for each in classes]
        classes = [msgspec.structs.replace(each, jobs_fraction=part) for each, part in zip(classes, parts, strict=True)]
        jobs += 1
    own = next(each for each in classes if each.name == name)
    return msgspec.structs.replace(table, jobs=jobs, classes=tuple(classes)), own, is_new


def _unused(name: str, used: set[str]) -> str:
    names = (name, *(f"{name}-{number}" for number in range(2, len(used) + 3)))
    return next(each for each in names if each not in used)


def _named(centres: Sequence[tuple[float, Identity]]) -> tuple[BehaviourClass, ...]:
    """Classes by the names of their centres; a name that several have gets a number."""
    names = [centre.name for _, centre in centres]
    classes = []
    for place, (fraction, centre) in enumerate(centres):
        same = names.count(centre.name)
        name = f"{centre.name}-{names[:place].count(centre.name) + 1}" if same > 1 else centre.name
        classes.append(BehaviourClass(name=name, jobs_fraction=fraction, centre=centre))
    return tuple(classes)


def _median_job(row: Mapping[str, float]) -> Traits:
    """The traits of a class, from the medians of its jobs' counters, which do not add up: so parts are bounded."""

    def transfers(way: str, counted: str, moved: str) -> Transfers:
        sizes = [int(row[f"TOTAL_{size}_{way}S"]) for size in ("SMALL", "MEDIUM", "LARGE")]
        operations = int(row[counted])
        return Transfers(
            operations=operations,
            bytes=int(row[moved]),
            seconds=row[f"TOTAL_{way}_TIME"],
            small_operations=sizes[0],
            medium_operations=sizes[1],
            large_operations=sizes[2],
            sized_operations=sum(sizes),
            sequential_operations=min(int(row[f"TOTAL_POSIX_SEQ_{way}S"]), sum(sizes)),
            consecutive_operations=min(int(row[f"TOTAL_POSIX_CONSEC_{way}S"]), sum(sizes)),
        )

    opens = ("POSIX_OPENS", "STDIO_OPENS", "MPIIO_INDEP_OPENS", "MPIIO_COLL_OPENS")
    others = (
        "POSIX_STATS",
        "POSIX_SEEKS",
        "POSIX_MMAPS",
        "POSIX_FSYNCS",
        "POSIX_FDSYNCS",
        "MPIIO_SYNCS",
        "MPIIO_VIEWS",
    )
    return Traits(
        processes=int(row["NPROCS"]),
        seconds=row["RUN_TIME"],
        interface="mpiio" if row["TOTAL_MPIIO_COLL_OPENS"] or row["TOTAL_MPIIO_INDEP_OPENS"] else "posix",
        read=transfers("READ", "TOTAL_READ_OPS", "TOTAL_BYTES_READ"),
        write=transfers("WRITE", "TOTAL_WRITE_OPS", "TOTAL_BYTES_WRITTEN"),
        collective_operations=int(row["TOTAL_MPIIO_COLL_READS"] + row["TOTAL_MPIIO_COLL_WRITES"]),
        unaligned_operations=int(row["TOTAL_POSIX_FILE_NOT_ALIGNED"]),
        metadata_operations=int(sum(row[f"TOTAL_{name}"] for name in (*opens, *others))),
        local_operations=int(sum(row[f"TOTAL_{name}"] for name in ("POSIX_SEEKS", "MPIIO_VIEWS"))),
        metadata_seconds=row["TOTAL_MD_TIME"],
    )
