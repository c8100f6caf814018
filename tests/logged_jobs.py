"""Sixteen logs of jobs that differ, and the objectives that a person who knows these jobs would give them."""

from collections.abc import Mapping
from pathlib import Path

LOGS = Path(__file__).parent / "data/darshan"
OBJECTIVES: Mapping[str, str] = {
    "example": "writes-nvme-32",
    "sample-goodost": "writes-nvme-32",
    "sample-badost": "writes-nvme-16",
    "dbin_ior_id66184525-37845": "writes-ssd-1",
    "dbin_tmatch": "reads-ssd-1",
    "dbin_write_3d_nc4": "small-nvme-16",
    "jobs/dbin_ior_id66184525-37486": "small-nvme-32",
    "jobs/dbin_ior_id66186284-26845": "small-nvme-16",
    "shane_macsio": "small-ssd-1",
    "jobs/noposixopens": "small-ssd-1",
    "ior_hdf5_example": "light-hdd-1",
    "noposix": "light-hdd-1",
    "sample-dxt-simple": "light-hdd-1",
    "pq_app_readAB": "light-hdd-1",
    "jobs/pq_app_read_id71317": "light-hdd-1",
    "pq_app_write_id71296": "light-hdd-1",
}
"""The first part of each log's name, and its objective.

`example` (VPIC-IO) and `sample-goodost` write more than any store takes in time, `sample-badost` half a terabyte
in 13 minutes, and one IOR large blocks of one file. `tmatch` reads 9 GB in order. netCDF, MACSio and two IORs call for
a few bytes to a few KiB at a time. The others move kilobytes, or take hours for a gigabyte.
"""


def log(name: str) -> Path:
    """The log whose name begins so."""
    (found,) = LOGS.glob(f"{name}*.darshan") if name != "noposix" else [LOGS / "noposix.darshan"]
    return found
