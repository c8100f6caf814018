"""Tables of service-level objectives: simulated and measured ones that come with Weir, and one of a site's file.

The measured one is OrangeFS on the paper's cluster: `tables/README.md` says what the data are worth.
"""

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean

import msgspec

from weir.provisioning import documents
from weir.provisioning.objectives.sslos import Guarantees, Semantics, Sensitivities, Sslo, SsloTable, System

PREFERRED_RATIO = 1.25
"""A system is named after reads where they are faster than writes by this factor, or after writes."""
METADATA_RATES: Sequence[tuple[float, str]] = ((1e3, "light"), (1e4, "moderate"))
"""Rates of metadata operations (1/s) below which a system is named so; `heavy` from the last one on."""
SMALL_LOSS = 0.5
"""A system is named `large` where calls below 10 KB reach less than this part of the rate."""
RANDOM_LOSS = 0.9
"""A system is named `sequential` where calls at random places reach less than this part of the rate."""
_BUILT_IN = "tables/orangefs-deployments.csv"
_SIMULATED = "tables/weir-simulated.json"
_SOURCE = (
    "LuxIO (grc-iit/luxio, BSD-3-Clause): OrangeFS on the Ares cluster, stress tests by large calls; "
    "writes on NVMe are 0.7 times the reads in every row"
)
_MEGABYTE = 1e6
_GIGABYTE = 1e9
_GIGABIT = 1e9 / 8
_DEVICES: Mapping[str, str] = {"nvme": "nvme", "tmpfs": "memory"}
"""Devices whose rows are measurements: each row of `ssd` is 0.8 times the row of `nvme`."""
_SETTINGS = ("TroveSyncMeta", "TroveSyncData", "TroveMaxConcurrentIO", "TCPBufferReceive")
_MIXED_LEAST = 0.1
"""Rows of 4 servers have mixed rates of 0 to 30 MB/s where all others have thousands: no deployment loses that much."""


def name_of(sslo: Sslo) -> str:
    """Name an objective as the paper does: `[operation]-[size]-[metadata]-[pattern]-[interface]`.

    Args:
        sslo: The objective; its own name is not looked at.

    Returns:
        The name, without the parts that were not measured.
    """
    rates, left = sslo.guarantees, sslo.sensitivities
    parts = []
    if rates.read_bytes_per_second is not None and rates.write_bytes_per_second is not None:
        parts.append(_preferred(rates.read_bytes_per_second, rates.write_bytes_per_second))
    if left.small is not None:
        parts.append("large" if left.small < SMALL_LOSS else "small")
    if (rate := rates.metadata_operations_per_second) is not None:
        parts.append(next((name for limit, name in METADATA_RATES if rate < limit), "heavy"))
    if left.random is not None:
        parts.append("sequential" if left.random < RANDOM_LOSS else "random")
    return "-".join((*parts, sslo.semantics.representation))


def named(sslos: Sequence[Sslo]) -> tuple[Sslo, ...]:
    """Give each objective its name; where several would have the same, their devices follow, then a number.

    Returns:
        The same objectives in the same order, with different names.
    """
    names = [name_of(each) for each in sslos]
    systems = [f"{each.system.device}-{each.system.servers}" for each in sslos]
    names = [f"{name}-{own}" if names.count(name) > 1 else name for name, own in zip(names, systems, strict=True)]
    found = []
    for place, (each, name) in enumerate(zip(sslos, names, strict=True)):
        number = f"-{names[:place].count(name) + 1}" if names.count(name) > 1 else ""
        found.append(msgspec.structs.replace(each, name=name + number))
    return tuple(found)


@cache
def measured() -> SsloTable:
    """The objective of each deployment of OrangeFS that LuxIO's authors measured, 48 configurations of each system.

    Returns:
        The table, with 288 objectives.
    """
    return SsloTable(source=_SOURCE, sslos=tuple(_of_row(row) for row in _rows()))


@cache
def simulated() -> SsloTable:
    """The objectives of Weir on classes of devices, as its simulator expects them."""
    return msgspec.json.decode((files("weir.provisioning") / _SIMULATED).read_bytes(), type=SsloTable)


def read_table(path: Path) -> SsloTable:
    """Read a table that `weir sslo build` made.

    Raises:
        ProvisioningError: If the file cannot be read, or is no such table.
    """
    hint = "`weir sslo build` makes tables"
    return documents.read(path, SsloTable, "table of service-level objectives", hint)


def _preferred(read: float, write: float) -> str:
    if read > PREFERRED_RATIO * write:
        return "read"
    return "write" if write > PREFERRED_RATIO * read else "mixed"


def _rows() -> list[dict[str, str]]:
    text = (files("weir.provisioning") / _BUILT_IN).read_text()
    return [row for row in csv.DictReader(text.splitlines()) if row["device"] in _DEVICES]


def _of_row(row: Mapping[str, str]) -> Sslo:
    """The columns that are measurements; `tables/README.md` says why the others are left out."""

    def rates(pattern: str) -> tuple[float, float]:
        return float(row[f"{pattern}_read_bw_large"]), float(row[f"{pattern}_write_bw_large"])

    sequential = rates("sequential")
    mixed = fmean(rates("mixed-sequential")) / fmean(sequential)
    return Sslo(
        name=f"orangefs-{_DEVICES[row['device']]}-{row['servers']}-{row['config']}",
        system=System(
            kind="orangefs",
            device=_DEVICES[row["device"]],
            network_bytes_per_second=float(row["network"]) * _GIGABIT,
            servers=int(row["servers"]),
            settings={name: row[name] for name in _SETTINGS},
        ),
        guarantees=Guarantees(
            read_bytes_per_second=sequential[0] * _MEGABYTE,
            write_bytes_per_second=sequential[1] * _MEGABYTE,
            capacity_bytes=int(float(row["capacity"]) * _GIGABYTE),
        ),
        sensitivities=Sensitivities(
            random=min(1.0, fmean(part / whole for part, whole in zip(rates("random"), sequential, strict=True))),
            mixed=min(1.0, mixed) if mixed > _MIXED_LEAST else None,
        ),
        semantics=Semantics(durable=row["device"] != "tmpfs"),
    )
