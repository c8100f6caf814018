"""The features of windows by numpy: the reference of the native ones.

Pooled features are the same for any number of servers in any order; relative ones compare a window with the job's own
quiet behaviour; ratios are of a job's waits to the device time of its own work.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from weir.interference.capacity import Costs, costs
from weir.interference.windows import CLIENT, SERVER, STATISTICS, Floats, Windows

NEIGHBOURS = (20, 60)
"""Windows of like demand among which the quiet ones are looked for."""
QUIET = (0.25, 0.1)
"""The part of those windows that counts as quiet, for each of `NEIGHBOURS`."""
WINDOWS_MIN = 10
"""A job with fewer windows has no quiet behaviour to compare with."""
_TINY = 1e-9
_DISTANCE_STEPS = 1e9
"""Squared distances are compared in steps of a part of this many: their last bits depend on the library's logarithm."""
_ROWS = 256
"""Windows of which the distances from all others are in memory at a time."""
_MEGABYTE = 1e6
LIKE = 60
"""Windows of like work among which a job's quiet ones are looked for."""
QUIET_PART = 0.1
_SECTOR_BYTES = 512
_DIGITS = 9
_LEAST_PART = 1e-4
_OF_WINDOW = (
    "response_over_demand",
    "queue",
    "backlog_over_service",
    "service_over_own",
    "share_of_busy",
    "share_of_metadata",
)
_COMPARED = ("response_above_quiet", "queue_above_quiet", "demand_below_most")
RATIOS = (*_OF_WINDOW, *(name for each in _COMPARED for name in (each, f"{each}_of_like_work")))


def pooled(windows: Windows) -> dict[str, Floats]:
    """Features of the job and of all servers, by name.

    Returns:
        A number for each window under each name.
    """
    return {**_of_job(windows), **_of_servers(windows), **_of_devices(windows)}


def relative(windows: Windows) -> dict[str, Floats]:
    """Features that compare each window with windows of the same workload. Labels are not used.

    Args:
        windows: The windows. Each workload's are compared among themselves.

    Returns:
        A number for each window under each name; NaN where a workload has fewer windows than `WINDOWS_MIN`.
    """
    names = [f"above_quiet_{most}_{demand}" for most in NEIGHBOURS for demand in ("operations", "all")]
    names += ["rank_operations", "rank_bytes", "rank_seconds", "rank_rate"]
    made = {name: np.full(len(windows), np.nan) for name in names}
    for workload in np.unique(windows.workloads):
        of_workload = np.flatnonzero(windows.workloads == workload)
        if len(of_workload) >= WINDOWS_MIN:
            for name, values in _of_workload(windows.take(of_workload)).items():
                made[name][of_workload] = values
    return made


def matrix(features: Mapping[str, Floats]) -> Floats:
    """Features as the columns of a matrix.

    Args:
        features: Features by name.

    Returns:
        Shape (windows, features).
    """
    return np.column_stack(list(features.values()))


def _counts(windows: Windows) -> dict[str, Floats]:
    return {name: windows.client[:, :, place] for place, name in enumerate(CLIENT)}


def _ratio(part: Floats, whole: Floats) -> Floats:
    ratio: Floats = np.clip(part / (whole + _TINY), -1e6, 1e6)
    return ratio


def _operations(windows: Windows) -> tuple[Floats, Floats]:
    """A job's reads and writes, and its operations on metadata, on each server."""
    counts = _counts(windows)
    return counts["reads"] + counts["writes"], counts["stats"] + counts["opens"] + counts["closes"]


def _of_job(windows: Windows) -> dict[str, Floats]:
    counts = _counts(windows)
    data, metadata = _operations(windows)
    made: dict[str, Floats] = {"io_seconds": windows.io_seconds}
    for name in ("reads", "writes", "read_bytes", "written_bytes"):
        each = counts[name]
        made[f"job_{name}_sum"], made[f"job_{name}_max"] = each.sum(1), each.max(1)
        made[f"job_{name}_deviation"] = np.sqrt(
            _mean((each - _mean(each, windows.present)[:, None]) ** 2, windows.present)
        )
    for name in ("stats", "opens", "closes"):
        made[f"job_{name}_sum"] = counts[name].sum(1)
    operations = data.sum(1) + metadata.sum(1)
    made["job_touched"] = (data > 0).sum(1).astype(float)
    made["job_operations_per_second"] = _ratio(operations, windows.io_seconds)
    made["job_read_bytes_per_second"] = _ratio(counts["read_bytes"].sum(1), windows.io_seconds)
    made["job_written_bytes_per_second"] = _ratio(counts["written_bytes"].sum(1), windows.io_seconds)
    made["job_read_size"] = _ratio(counts["read_bytes"].sum(1), counts["reads"].sum(1))
    made["job_write_size"] = _ratio(counts["written_bytes"].sum(1), counts["writes"].sum(1))
    made["job_metadata_fraction"] = _ratio(metadata.sum(1), operations)
    return made


def _of_servers(windows: Windows) -> dict[str, Floats]:
    """Mean, maximum and deviation over targets, the mean over those that the job used, the mean of metadata servers."""
    targets = windows.present & ~windows.is_metadata
    touched = targets & (_operations(windows)[0] > 0)
    metadata = windows.present & windows.is_metadata
    made: dict[str, Floats] = {}
    for place, name in enumerate(f"{name}_{statistic}" for name in SERVER for statistic in STATISTICS):
        each = windows.server[:, :, place]
        mean = _mean(each, targets)
        made[f"targets_{name}_mean"] = mean
        made[f"targets_{name}_max"] = np.where(targets, each, 0.0).max(1)
        made[f"targets_{name}_deviation"] = np.sqrt(_mean((each - mean[:, None]) ** 2, targets))
        made[f"touched_{name}_mean"] = np.where(touched.any(1), _mean(each, touched), mean)
        made[f"metadata_{name}_mean"] = _mean(each, metadata)
    return made


def _mean(each: Floats, chosen: np.ndarray) -> Floats:
    mean: Floats = np.where(chosen, each, 0.0).sum(1) / np.maximum(chosen.sum(1), 1)
    return mean


def _of_devices(windows: Windows) -> dict[str, Floats]:
    """Costs of an operation and lengths of queues: ratios that a server's speed moves less."""
    means = windows.server[:, :, STATISTICS.index("mean") :: len(STATISTICS)]
    by_name = {name: means[:, :, place] for place, name in enumerate(SERVER)}
    made: dict[str, Floats] = {}
    for kind, chosen in (
        ("targets", windows.present & ~windows.is_metadata),
        ("metadata", windows.present & windows.is_metadata),
    ):
        ratios = {
            "read_latency": _ratio(by_name["read_milliseconds"], by_name["reads"]),
            "write_latency": _ratio(by_name["write_milliseconds"], by_name["writes"]),
            "queue": _ratio(by_name["queued_milliseconds"], by_name["busy_milliseconds"]),
            "read_size": _ratio(by_name["read_sectors"], by_name["reads"]),
            "write_size": _ratio(by_name["written_sectors"], by_name["writes"]),
        }
        for name, each in ratios.items():
            made[f"{kind}_{name}_mean"] = _mean(each, chosen)
            made[f"{kind}_{name}_max"] = np.where(chosen, each, 0.0).max(1)
    return made


def _of_workload(windows: Windows) -> dict[str, Floats]:
    """How far a window's I/O time is above that of quiet windows of like demand, and its ranks among the job's."""
    counts = {name: each.sum(1) for name, each in _counts(windows).items()}
    operations = np.column_stack([counts[name] for name in ("reads", "writes", "stats", "opens", "closes")])
    moved = np.column_stack([counts["read_bytes"], counts["written_bytes"]]) / _MEGABYTE
    touched = (_operations(windows)[0] > 0).sum(1)
    demands = {
        "operations": np.log1p(operations),
        "all": np.column_stack([np.log1p(operations), np.log1p(moved * 1e3), np.log1p(touched)]),
    }
    seconds = np.log(np.maximum(windows.io_seconds, _TINY))
    made = {
        f"above_quiet_{most}_{name}": _above_quiet(demand, seconds, most, quiet)
        for most, quiet in zip(NEIGHBOURS, QUIET, strict=True)
        for name, demand in demands.items()
    }
    all_operations = operations.sum(1)
    made["rank_operations"] = _ranks(all_operations)
    made["rank_bytes"] = _ranks(moved.sum(1))
    made["rank_seconds"] = _ranks(windows.io_seconds)
    made["rank_rate"] = _ranks(_ratio(all_operations, windows.io_seconds))
    return made


def _above_quiet(demand: Floats, seconds: Floats, most: int, quiet: float) -> Floats:
    """The logarithm of a window's I/O time over that of the quiet ones among the `most` windows nearest in demand."""
    above: Floats = seconds - np.quantile(seconds[nearest(demand, most)], quiet, axis=1)
    return above


def nearest(demand: Floats, most: int) -> NDArray[np.int64]:
    """Find the windows that are nearest in demand.

    Of windows as near as each other the earliest count: a job that asks for the same all the time has many, and a model
    that chose among them by chance would not be the same in Python and in the control plane.

    Args:
        demand: Numbers of each window of a job, shape (windows, numbers).
        most: Windows that are found, or all if there are fewer.

    Returns:
        Places for each window, shape (windows, found).
    """
    scaled = (demand - demand.mean(0)) / np.maximum(demand.std(0), _TINY)
    found = np.empty((len(scaled), min(most, len(scaled))), np.int64)
    for first in range(0, len(scaled), _ROWS):
        rows = scaled[first : first + _ROWS]
        distances = np.zeros((len(rows), len(scaled)))
        for column in range(scaled.shape[1]):
            distances += (rows[:, column, None] - scaled[None, :, column]) ** 2
        order = np.argsort(np.rint(distances * _DISTANCE_STEPS), axis=1, kind="stable")
        found[first : first + _ROWS] = order[:, : found.shape[1]]
    return found


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values) / len(values)
    return ranks


def ratios(windows: Windows, known: Costs | None = None) -> dict[str, Floats]:
    """Compute the features.

    Args:
        windows: The windows. Each workload is compared with itself.
        known: Costs of requests; otherwise those of all servers of the windows.

    Returns:
        A number for each window under each name; NaN for what a workload with fewer windows than `WINDOWS_MIN` lacks.
    """
    of_requests = costs(windows) if known is None else known
    made = {name: np.full(len(windows), np.nan) for name in RATIOS}
    for workload in np.unique(windows.workloads):
        own = np.flatnonzero(windows.workloads == workload)
        for name, values in _ratios_of_workload(windows.take(own), of_requests).items():
            made[name][own] = np.round(values, _DIGITS)
    return made


def _ratios_of_workload(windows: Windows, known: Costs) -> dict[str, Floats]:
    demand = _demand(windows, known)
    total = demand.sum(1)
    share = demand / np.maximum(total, _TINY)[:, None]
    requests, busy, queued = (
        _requests(windows),
        _sums(windows, "busy_milliseconds"),
        _sums(windows, "queued_milliseconds"),
    )
    queue = queued / np.maximum(busy, _TINY)
    service = busy / np.maximum(requests.sum(2), _TINY)
    own = total / np.maximum(_own_requests(windows).sum((1, 2)), _TINY)
    made = {
        "response_over_demand": _logarithm(windows.io_seconds * 1e3, total),
        "queue": (share * queue).sum(1),
        "backlog_over_service": np.log1p((share * queue * service).sum(1) / np.maximum(own, _TINY)),
        "service_over_own": _logarithm((share * service).sum(1), own),
        "share_of_busy": _logarithm(total, (np.where(demand > 0, busy, 0.0)).sum(1)),
        "share_of_metadata": (share * windows.is_metadata).sum(1),
    }
    if len(windows) < WINDOWS_MIN:
        return made
    mixes = np.column_stack([share.max(1), made["share_of_metadata"], _scale_free(own), _scale_free(total)])
    like = nearest(mixes, LIKE)
    compared = (made["response_over_demand"], made["queue"], -_scale_free(total))
    for name, values in zip(_COMPARED, compared, strict=True):
        made[name] = values - np.quantile(values, QUIET_PART)
        made[f"{name}_of_like_work"] = values - np.quantile(values[like], QUIET_PART, axis=1)
    return made


def _sums(windows: Windows, counter: str) -> Floats:
    """A counter of each server in each window, 0 where no server is."""
    place = SERVER.index(counter) * len(STATISTICS) + STATISTICS.index("sum")
    return np.where(windows.present, windows.server[:, :, place], 0.0)


def _requests(windows: Windows) -> Floats:
    """Requests that a server completed, reads and writes, shape (windows, servers, 2)."""
    return np.stack([_sums(windows, "reads"), _sums(windows, "writes")], 2)


def _own(windows: Windows, reads: str, writes: str) -> Floats:
    """Two counts of the job, 0 where no server is, shape (windows, servers, 2)."""
    counts = np.stack([windows.client[:, :, CLIENT.index(name)] for name in (reads, writes)], 2)
    return np.where(windows.present[:, :, None], counts, 0.0)


def _own_requests(windows: Windows) -> Floats:
    """The job's requests, shape (windows, servers, 2). A metadata server's are looks and opens: all cost the same."""
    metadata = _own(windows, "stats", "opens")
    return np.where(windows.is_metadata[:, :, None], metadata, _own(windows, "reads", "writes"))


def _demand(windows: Windows, known: Costs) -> Floats:
    """Device time in milliseconds that the job's own requests need at each server, shape (windows, servers)."""
    own, sectors = _own_requests(windows), _own(windows, "read_bytes", "written_bytes") / _SECTOR_BYTES
    of_targets = np.concatenate([own, sectors], 2) @ np.array(known.targets)
    demand: Floats = np.where(windows.is_metadata, own.sum(2) * known.metadata, of_targets)
    return demand


def _scale_free(times: Floats) -> Floats:
    """Logarithms of times, of which another unit changes all by the same number; none is far below the greatest."""
    made: Floats = np.log(np.maximum(times, max(times.max(), _TINY) * _LEAST_PART))
    return made


def _logarithm(part: Floats, whole: Floats) -> Floats:
    made: Floats = np.log(np.maximum(part, _TINY) / np.maximum(whole, _TINY))
    return np.clip(made, -10.0, 10.0)
