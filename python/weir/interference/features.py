"""Features of windows: pooled over servers, so that any number of servers in any order gives the same ones.

Two kinds differ in reach. Pooled features are counts and rates of the job and of the servers; they suit a job that was
seen in training. Relative features compare a window with the job's own quiet behaviour, so they mean the same for a job
that was never seen.

`crates/interference` computes the same features for predictions, to the last bit where a tree compares them.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

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
