"""Service-level objectives from the results of stress tests (LuxIO, section III-C)."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.sslo_tables import named
from weir.provisioning.sslos import Guarantees, Semantics, Sensitivities, Sslo, SsloTable
from weir.provisioning.stress import kernels
from weir.provisioning.stress.results import StressResult

if TYPE_CHECKING:
    import numpy as np

CLUSTERED_MIN = 20
"""Least systems that are clustered; fewer stay each by itself, as a cluster of two or three says less than they do."""
CLUSTERS_MAX = 16
"""Most clusters that are tried; the paper's authors took ten for 432 deployments."""
_SEED = 1
_STARTS = 10
_KERNEL = "hacc"
"""The kernel that guarantees rates: each process has its own file, and all calls are large and in order."""
_READ, _WRITE = "read_bytes_per_second", "write_bytes_per_second"


def objectives(results: Sequence[StressResult]) -> list[Sslo]:
    """Reduce the results of each system to an objective.

    The rates are those of the number of processes with the best sum of read and write, and medians over repetitions. A
    sensitivity is the mean of the parts of read and write, at most 1.

    Args:
        results: Results; refused ones count for nothing.

    Returns:
        An objective for each system with a rate, in the order of the systems, without their final names.

    Raises:
        ProvisioningError: Not one system has a rate.
    """
    systems: dict[bytes, list[StressResult]] = {}
    for each in results:
        if each.figures is not None and each.settings.kernels == kernels.VERSION:
            key = msgspec.json.encode((each.settings.system, each.settings.semantics), order="sorted")
            systems.setdefault(key, []).append(each)
    found = [objective for group in systems.values() if (objective := _objective(group)) is not None]
    if not found:
        raise ProvisioningError(
            "the results have no rates that this Weir can use", hint=f"run `weir stress` with the kernel {_KERNEL}"
        )
    return sorted(found, key=lambda each: msgspec.json.encode(each.system, order="sorted"))


def table(results: Sequence[StressResult], *, source: str, clusters: int | None = None) -> SsloTable:
    """Make a table of objectives from results.

    Args:
        results: The results.
        source: Origin of the results, in words.
        clusters: Number of clusters; None finds it, and clusters `CLUSTERED_MIN` systems or more.

    Returns:
        The table. An objective of several systems is that of the one in the middle of its cluster.

    Raises:
        ProvisioningError: The results have no rates, or fewer systems than clusters.
    """
    found = objectives(results)
    if clusters is not None and clusters > len(found):
        raise ProvisioningError(
            f"the results have {len(found)} systems, fewer than {clusters} clusters", hint="give fewer --clusters"
        )
    if clusters is not None or len(found) >= CLUSTERED_MIN:
        found = clustered(found, clusters)
    return SsloTable(source=source, sslos=named(found))


def clustered(found: Sequence[Sslo], clusters: int | None = None) -> list[Sslo]:
    """Join objectives by K-means over their qualities, each scaled to the range from 0 to 1.

    Systems of different semantics are never joined, as a plan does not trade semantics.

    Args:
        found: The objectives.
        clusters: Number of clusters of all; None chooses among those near the elbow by the Davies-Bouldin index.

    Returns:
        The objective in the middle of each cluster.
    """
    groups: dict[Semantics, list[Sslo]] = {}
    for each in found:
        groups.setdefault(each.semantics, []).append(each)
    joined = []
    for group in groups.values():
        wanted = None if clusters is None else max(1, round(clusters * len(group) / len(found)))
        joined += _joined(group, wanted)
    return joined


def qualities(sslo: Sslo) -> Mapping[str, float]:
    """List the measured qualities of an objective, on scales on which distances mean something.

    Args:
        sslo: The objective.

    Returns:
        Logarithms of rates, and sensitivities, by their names.
    """
    rates = {name: value for name, value in msgspec.structs.asdict(sslo.guarantees).items() if value}
    left = {name: value for name, value in msgspec.structs.asdict(sslo.sensitivities).items() if value is not None}
    # Room is chosen by a deployment and is no quality of the system.
    return {**{name: math.log(value) for name, value in rates.items() if name != "capacity_bytes"}, **left}


def _joined(group: Sequence[Sslo], wanted: int | None) -> list[Sslo]:
    import numpy as np
    from sklearn.cluster import KMeans

    listed = [qualities(each) for each in group]
    names = [name for name in listed[0] if all(name in each for each in listed)]
    raw = np.array([[each[name] for name in names] for each in listed], dtype=np.float64)
    span = raw.max(axis=0) - raw.min(axis=0)
    scaled = (raw - raw.min(axis=0)) / np.where(span > 0.0, span, 1.0)
    different = len(np.unique(scaled, axis=0))
    count = min(different, wanted if wanted is not None else _best_count(scaled, different))
    model = KMeans(n_clusters=count, n_init=_STARTS, random_state=_SEED).fit(scaled)
    middles = []
    for number in range(count):
        members = np.flatnonzero(model.labels_ == number)
        distances = np.linalg.norm(scaled[members] - model.cluster_centers_[number], axis=1)
        middles.append(int(members[int(distances.argmin())]))
    return [group[place] for place in sorted(middles)]


def _best_count(scaled: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", different: int) -> int:
    """The count with the best Davies-Bouldin index among the elbow of the inertia and its neighbours."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import davies_bouldin_score

    counts = list(range(1, min(CLUSTERS_MAX, different - 1) + 1))
    if len(counts) < 3:
        return max(1, different)
    models = [KMeans(n_clusters=count, n_init=_STARTS, random_state=_SEED).fit(scaled) for count in counts]
    first, last = models[0].inertia_, models[-1].inertia_
    # The elbow is furthest below the line from the first point to the last.
    below = [first + (last - first) * place / (len(counts) - 1) - model.inertia_ for place, model in enumerate(models)]
    elbow = counts[below.index(max(below))]
    near = [place for place, count in enumerate(counts) if count >= 2 and abs(count - elbow) <= 1]
    return counts[min(near, key=lambda place: davies_bouldin_score(scaled, models[place].labels_))]


def _objective(group: Sequence[StressResult]) -> Sslo | None:
    figures: dict[tuple[int, str, str], list[float]] = {}
    for each in group:
        for name, value in msgspec.structs.asdict(each.figures).items() if each.figures else ():
            if value is not None:
                figures.setdefault((each.settings.processes, each.settings.kernel, name), []).append(float(value))
    medians = {key: median(values) for key, values in figures.items()}
    numbers = sorted({processes for processes, kernel, _ in medians if kernel == _KERNEL})
    if not numbers:
        return None

    def rates(processes: int, kernel: str) -> tuple[float | None, float | None]:
        return medians.get((processes, kernel, _READ)), medians.get((processes, kernel, _WRITE))

    best = max(numbers, key=lambda processes: sum(rate or 0.0 for rate in rates(processes, _KERNEL)))
    own = rates(best, _KERNEL)
    mixed = medians.get((best, "hacc-mixed", "mixed_bytes_per_second"))
    whole = None if None in own else sum(rate or 0.0 for rate in own) / 2
    names = [medians[key] for key in medians if key[2] == "metadata_operations_per_second"]
    rooms = [medians[key] for key in medians if key[2] == "capacity_bytes"]
    shared = (rates(best, "bdcats")[0], rates(best, "vpic")[1])
    return Sslo(
        name="",
        system=group[0].settings.system,
        guarantees=Guarantees(
            read_bytes_per_second=own[0],
            write_bytes_per_second=own[1],
            metadata_operations_per_second=max(names, default=None),
            capacity_bytes=int(min(rooms)) if rooms else None,
        ),
        sensitivities=Sensitivities(
            small=_part(rates(best, "enzo"), own),
            random=_part(rates(best, "hacc-random"), own),
            mixed=None if mixed is None or not whole else min(1.0, mixed / whole),
            shared_file=_part(shared, own),
            concurrency=_part(rates(best, "hacc-many"), own),
        ),
        semantics=group[0].settings.semantics,
    )


def _part(under: Sequence[float | None], own: Sequence[float | None]) -> float | None:
    """The mean of the parts that are left of the guaranteed rates, of the directions that were measured."""
    parts = [one / other for one, other in zip(under, own, strict=True) if one is not None and other]
    return min(1.0, sum(parts) / len(parts)) if parts else None
