"""Ratio features: a job's waits over the device time of its own work, and over its own quiet behaviour.

The cost of a request is learned from the servers' counters: their busy time is the sum of fixed times of requests and
of times of sectors. So a job's counts become the device time that its work needs, and a slowdown is a ratio of times,
which means the same for any job on any server. Labels are not used.
"""

import msgspec
import numpy as np

from weir.interference.windows import SERVER, STATISTICS, Floats, Windows

_TINY = 1e-9


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


def _sums(windows: Windows, counter: str) -> Floats:
    """A counter of each server in each window, 0 where no server is."""
    place = SERVER.index(counter) * len(STATISTICS) + STATISTICS.index("sum")
    return np.where(windows.present, windows.server[:, :, place], 0.0)


def _requests(windows: Windows) -> Floats:
    """Requests that a server completed, reads and writes, shape (windows, servers, 2)."""
    return np.stack([_sums(windows, "reads"), _sums(windows, "writes")], 2)


def _fitted(work: Floats, busy: Floats) -> Floats:
    """The time of a read, a write, a sector read and one written: no time is negative."""
    from scipy.optimize import nnls

    scale = np.maximum(work.max(0), _TINY)
    found, _ = nnls(work / scale, busy)
    made: Floats = found / scale
    return made
