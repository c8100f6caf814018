"""Ratio features: a job's waits over the device time of its own work, and over its own quiet behaviour.

The cost of a request is learned from the servers' counters: their busy time is the sum of fixed times of requests and
of times of sectors. So a job's counts become the device time that its work needs, and a slowdown is a ratio of times,
which means the same for any job on any server. Labels are not used.
"""

import numpy as np

from weir.interference.windows import CLIENT, SERVER, STATISTICS, Floats, Windows

NEIGHBOURS = 60
"""Windows of like work among which a job's quiet ones are looked for."""
QUIET = 0.1
"""The part of windows that counts as quiet."""
WINDOWS_MIN = 10
"""A job with fewer windows has no quiet behaviour to compare with."""
_SECTOR_BYTES = 512
_TINY = 1e-9
_DIGITS = 6
_LEAST_PART = 1e-4
"""The least part of the greatest time that differs from none."""


def ratios(windows: Windows) -> dict[str, Floats]:
    """Compute the features.

    Args:
        windows: The windows. Costs are those of all their servers, and each workload is compared with itself.

    Returns:
        A number for each window under each name; NaN for what a workload with fewer windows than `WINDOWS_MIN` lacks.
    """
    demand = _demand(windows)
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
    response = _logarithm(windows.io_seconds * 1e3, total)
    made = {
        "response_over_demand": response,
        "queue": (share * queue).sum(1),
        "backlog_over_service": np.log1p((share * queue * service).sum(1) / np.maximum(own, _TINY)),
        "service_over_own": _logarithm((share * service).sum(1), own),
        "share_of_busy": _logarithm(total, (np.where(demand > 0, busy, 0.0)).sum(1)),
        "share_of_metadata": (share * windows.is_metadata).sum(1),
    }
    mixes = np.column_stack([share.max(1), made["share_of_metadata"], _scale_free(own), _scale_free(total)])
    for name, values in (
        ("response_above_quiet", response),
        ("queue_above_quiet", made["queue"]),
        ("demand_below_most", -_scale_free(total)),
    ):
        made[name], made[f"{name}_of_like_work"] = _above_quiet(windows, values, mixes)
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


def _demand(windows: Windows) -> Floats:
    """Device time in milliseconds that the job's own requests need at each server, shape (windows, servers)."""
    requests, own, busy = _requests(windows), _own_requests(windows), _sums(windows, "busy_milliseconds")
    sectors = np.stack([_sums(windows, "read_sectors"), _sums(windows, "written_sectors")], 2)
    own_sectors = _own(windows, "read_bytes", "written_bytes") / _SECTOR_BYTES
    demand = np.zeros(busy.shape)
    metadata = windows.present & windows.is_metadata
    if metadata.any():
        demand[metadata] = own[metadata].sum(1) * busy[metadata].sum() / max(requests[metadata].sum(), _TINY)
    targets = windows.present & ~windows.is_metadata
    if targets.any():
        costs = _costs(np.concatenate([requests[targets], sectors[targets]], 1), busy[targets])
        demand[targets] = np.concatenate([own[targets], own_sectors[targets]], 1) @ costs
    return demand


def _costs(work: Floats, busy: Floats) -> Floats:
    """The time of a read, a write, a sector read and one written: no time is negative."""
    from scipy.optimize import nnls

    scale = np.maximum(work.max(0), _TINY)
    costs, _ = nnls(work / scale, busy)
    made: Floats = costs / scale
    return made


def _scale_free(times: Floats) -> Floats:
    """Logarithms of times, of which another unit changes all by the same number; none is far below the greatest."""
    made: Floats = np.log(np.maximum(times, max(times.max(), _TINY) * _LEAST_PART))
    return made


def _logarithm(part: Floats, whole: Floats) -> Floats:
    made: Floats = np.log(np.maximum(part, _TINY) / np.maximum(whole, _TINY))
    return np.clip(made, -10.0, 10.0)


def _above_quiet(windows: Windows, values: Floats, mixes: Floats) -> tuple[Floats, Floats]:
    """A value above that of the workload's quiet windows, of all and of those whose work is like the window's."""
    from scipy.spatial import KDTree

    of_all, of_like = np.full(len(windows), np.nan), np.full(len(windows), np.nan)
    for workload in np.unique(windows.workloads):
        own = np.flatnonzero(windows.workloads == workload)
        if len(own) < WINDOWS_MIN:
            continue
        of_all[own] = values[own] - np.quantile(values[own], QUIET)
        mix = mixes[own]
        # Windows of equal work differ by rounding alone, which must not decide which of them are neighbours.
        scaled = np.round((mix - mix.mean(0)) / np.maximum(mix.std(0), _TINY), _DIGITS)
        _, nearest = KDTree(scaled).query(scaled, k=min(NEIGHBOURS, len(own)))
        of_like[own] = values[own] - np.quantile(values[own][nearest], QUIET, axis=1)
    return of_all, of_like
