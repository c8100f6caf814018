"""Ratio features: a job's waits over the device time of its own work, and over its own quiet behaviour.

The cost of a request is learned from the servers' counters: their busy time is the sum of fixed times of requests and
of times of sectors. So a job's counts become the device time that its work needs, and a slowdown is a ratio of times,
which means the same for any job on any server. Labels are not used.
"""

import msgspec
import numpy as np

from weir.interference.features import WINDOWS_MIN, nearest
from weir.interference.windows import CLIENT, SERVER, STATISTICS, Floats, Windows

NEIGHBOURS = 60
"""Windows of like work among which a job's quiet ones are looked for."""
QUIET = 0.1
"""The part of windows that counts as quiet."""
_SECTOR_BYTES = 512
_TINY = 1e-9
_DIGITS = 9
"""Digits of a feature: the last bits of a logarithm depend on the library, and a tree would ask for them."""
_LEAST_PART = 1e-4
"""The least part of the greatest time that differs from none."""
_OF_WINDOW = (
    "response_over_demand",
    "queue",
    "backlog_over_service",
    "service_over_own",
    "share_of_busy",
    "share_of_metadata",
)
_COMPARED = ("response_above_quiet", "queue_above_quiet", "demand_below_most")
NAMES = (*_OF_WINDOW, *(name for each in _COMPARED for name in (each, f"{each}_of_like_work")))
"""Names of the features."""


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The device time of requests in milliseconds."""

    targets: tuple[float, float, float, float]
    """Costs of a read, of a write, of a sector read, and of one written."""
    metadata: float
    """Cost of an operation on metadata."""


def costs(windows: Windows) -> Costs:
    """Learn costs from what the servers counted.

    Returns:
        The costs; 0 for requests that no server had.
    """
    requests, busy = _requests(windows), _sums(windows, "busy_milliseconds")
    sectors = np.stack([_sums(windows, "read_sectors"), _sums(windows, "written_sectors")], 2)
    metadata = windows.present & windows.is_metadata
    targets = windows.present & ~windows.is_metadata
    of_metadata = float(busy[metadata].sum() / max(requests[metadata].sum(), _TINY)) if metadata.any() else 0.0
    of_targets = np.zeros(4)
    if targets.any():
        of_targets = _fitted(np.concatenate([requests[targets], sectors[targets]], 1), busy[targets])
    read, write, sector_read, sector_written = of_targets.tolist()
    return Costs((read, write, sector_read, sector_written), of_metadata)


def ratios(windows: Windows, known: Costs | None = None) -> dict[str, Floats]:
    """Compute the features.

    Args:
        windows: The windows. Each workload is compared with itself.
        known: Costs of requests; otherwise those of all servers of the windows.

    Returns:
        A number for each window under each name; NaN for what a workload with fewer windows than `WINDOWS_MIN` lacks.
    """
    of_requests = costs(windows) if known is None else known
    made = {name: np.full(len(windows), np.nan) for name in NAMES}
    for workload in np.unique(windows.workloads):
        own = np.flatnonzero(windows.workloads == workload)
        for name, values in _of_workload(windows.take(own), of_requests).items():
            made[name][own] = np.round(values, _DIGITS)
    return made


def _of_workload(windows: Windows, known: Costs) -> dict[str, Floats]:
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
    like = nearest(mixes, NEIGHBOURS)
    compared = (made["response_over_demand"], made["queue"], -_scale_free(total))
    for name, values in zip(_COMPARED, compared, strict=True):
        made[name] = values - np.quantile(values, QUIET)
        made[f"{name}_of_like_work"] = values - np.quantile(values[like], QUIET, axis=1)
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


def _fitted(work: Floats, busy: Floats) -> Floats:
    """The time of a read, a write, a sector read and one written: no time is negative."""
    from scipy.optimize import nnls

    scale = np.maximum(work.max(0), _TINY)
    found, _ = nnls(work / scale, busy)
    made: Floats = found / scale
    return made


def _scale_free(times: Floats) -> Floats:
    """Logarithms of times, of which another unit changes all by the same number; none is far below the greatest."""
    made: Floats = np.log(np.maximum(times, max(times.max(), _TINY) * _LEAST_PART))
    return made


def _logarithm(part: Floats, whole: Floats) -> Floats:
    made: Floats = np.log(np.maximum(part, _TINY) / np.maximum(whole, _TINY))
    return np.clip(made, -10.0, 10.0)
