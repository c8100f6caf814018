"""Classes of I/O behaviour, and how near a job is to each: its fitness (LuxIO, section III-B, step 3).

Every feature is put on a scale from 0 to 1 that the table does not move: counts by their logarithm, up to a stated
greatest count, and fractions as they are. So a fitness means the same beside any table.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from weir.provisioning.identity import Identity, identify
from weir.provisioning.traits import Traits, Transfers

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
"""A job whose best fitness is below opens a class of its own: a distance of a quarter of each scale on average."""
_BUILT_IN = "tables/argonne-classes.csv"


class BehaviourClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of jobs, by the job in its middle."""

    name: str
    jobs_fraction: float
    """Part of the jobs of the table that are in the class."""
    centre: Identity


class ClassTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes of a site."""

    version: Literal[1] = 1
    """Version of this document."""
    source: str
    """Origin of the classes."""
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

    Args:
        identity: The identity.

    Returns:
        Numbers from 0 to 1 in the order of `FEATURES`.
    """
    counts = [
        math.log1p(min(max(getattr(identity, name), 0), most)) / math.log1p(most) for name, most in COUNTS_MAX.items()
    ]
    return (*counts, *(getattr(identity, name) for name in FRACTIONS))


def fitnesses(identity: Identity, classes: Sequence[BehaviourClass]) -> list[Fitness]:
    """Compare a job with classes, by the normalised Euclidean distance.

    Args:
        identity: The job.
        classes: The classes.

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
    """The classes of 337,010 jobs of Argonne's Mira and Theta, as LuxIO's authors published them.

    Returns:
        The table.
    """
    text = (files("weir.provisioning") / _BUILT_IN).read_text()
    rows = [{name: float(cell) for name, cell in row.items() if name} for row in csv.DictReader(text.splitlines())]
    return ClassTable(
        source="LuxIO (grc-iit/luxio, BSD-3-Clause): medians of the classes of Argonne's jobs, 2017 to 2019",
        classes=_named([(row["count"], identify(_median_job(row))) for row in rows]),
    )


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
        metadata_seconds=row["TOTAL_MD_TIME"],
    )
