"""Service-level objectives from the results of stress tests (LuxIO, section III-C)."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslo_checks import check_table
from weir.provisioning.objectives.sslo_tables import named
from weir.provisioning.objectives.sslos import Guarantees, Semantics, Sensitivities, Sslo, SsloTable
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
    sensitivity is the median part of the same repetition's rate, the mean of read and write, at most 1.

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


def table(results: Sequence[StressResult], *, source: str, clusters: int | None = None, default: str = "") -> SsloTable:
    """Make a table of objectives from results.

    Args:
        source: Origin of the results, in words.
        clusters: Number of clusters; None finds it, and clusters `CLUSTERED_MIN` systems or more.
        default: Name of the objective for jobs that nothing is near to; empty for the one in the middle.

    Returns:
        The table. An objective of several systems is that of the one in the middle of its cluster.

    Raises:
        ProvisioningError: The results have no rates, fewer systems than clusters, or more settings than a table has;
            or no objective has the name of the default.
    """
    found = objectives(results)
    if clusters is not None and clusters > len(found):
        raise ProvisioningError(
            f"the results have {len(found)} systems, fewer than {clusters} clusters", hint="give fewer `clusters`"
        )
    if clusters is not None or len(found) >= CLUSTERED_MIN:
        found = clustered(found, clusters)
    made = SsloTable(source=source, sslos=named(found), default=default)
    names = [each.name for each in made.sslos]
    if default and default not in names:
        raise ProvisioningError(f"no objective has the name {default}", hint=f"there are {', '.join(names)}"[:1000])
    check_table(made)
    return made


def clustered(found: Sequence[Sslo], clusters: int | None = None) -> list[Sslo]:
    """Join objectives by K-means over their qualities, each scaled to the range from 0 to 1.

    Systems of different semantics are never joined, as a plan does not trade semantics.

    Args:
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


class _Figures:
    """The figures of one system by processes, kernel and name, for each repetition."""

    def __init__(self, group: Sequence[StressResult]) -> None:
        self._values: dict[tuple[int, str, str], dict[int, float]] = {}
        for each in group:
            point = each.settings
            for name, value in msgspec.structs.asdict(each.figures).items() if each.figures else ():
                if value is not None:
                    self._values.setdefault((point.processes, point.kernel, name), {})[point.repeat] = float(value)

    def processes(self) -> list[int]:
        """The numbers of processes for which rates are guaranteed."""
        return sorted({processes for processes, kernel, _ in self._values if kernel == _KERNEL})

    def value(self, processes: int, kernel: str, name: str) -> float | None:
        """The median over the repetitions."""
        found = self._values.get((processes, kernel, name))
        return median(found.values()) if found else None

    def all(self, name: str) -> list[float]:
        """The values of a name, of all kernels and processes: the median of each."""
        return [median(values.values()) for key, values in self._values.items() if key[2] == name]

    def part(self, processes: int, kernel: str, name: str) -> float | None:
        """The median part that is left of a guaranteed rate, each beside the guarantee of the same repetition.

        Both were measured shortly after each other, so a slow moment of the machine is in both.
        """
        own = self._values.get((processes, _KERNEL, name), {})
        under = self._values.get((processes, kernel, name), {})
        parts = [value / own[repeat] for repeat, value in under.items() if own.get(repeat)]
        return median(parts) if parts else None

    def mixed_part(self, processes: int) -> float | None:
        """The median part that is left where half of the processes read and half write, of the mean of both rates."""
        read = self._values.get((processes, _KERNEL, _READ), {})
        write = self._values.get((processes, _KERNEL, _WRITE), {})
        mixed = self._values.get((processes, "hacc-mixed", "mixed_bytes_per_second"), {})
        both = read.keys() & write.keys()
        parts = [2 * value / (read[repeat] + write[repeat]) for repeat, value in mixed.items() if repeat in both]
        return median(parts) if parts else None


def _objective(group: Sequence[StressResult]) -> Sslo | None:
    figures = _Figures(group)
    numbers = figures.processes()
    if not numbers:
        return None

    def own(processes: int) -> tuple[float | None, float | None]:
        return figures.value(processes, _KERNEL, _READ), figures.value(processes, _KERNEL, _WRITE)

    best = max(numbers, key=lambda processes: sum(rate or 0.0 for rate in own(processes)))

    def left(kernel: str) -> float | None:
        return _part([figures.part(best, kernel, name) for name in (_READ, _WRITE)])

    rooms = figures.all("capacity_bytes")
    return Sslo(
        name="",
        system=group[0].settings.system,
        guarantees=Guarantees(
            read_bytes_per_second=own(best)[0],
            write_bytes_per_second=own(best)[1],
            metadata_operations_per_second=max(figures.all("metadata_operations_per_second"), default=None),
            capacity_bytes=int(min(rooms)) if rooms else None,
        ),
        sensitivities=Sensitivities(
            small=left("enzo"),
            random=left("hacc-random"),
            mixed=_part([figures.mixed_part(best)]),
            shared_file=_part([figures.part(best, "bdcats", _READ), figures.part(best, "vpic", _WRITE)]),
            concurrency=left("hacc-many"),
        ),
        semantics=group[0].settings.semantics,
    )


def _part(parts: Sequence[float | None]) -> float | None:
    """The mean of the parts of the directions that were measured, at most 1."""
    known = [part for part in parts if part is not None]
    return min(1.0, fmean(known)) if known else None
