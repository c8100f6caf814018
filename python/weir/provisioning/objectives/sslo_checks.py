"""Rules of a table of service-level objectives that its schema does not say."""

import math

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Sslo, SsloTable

DEVICES_MAX = 1 << 20
"""Most servers, and most targets of a server, of a system."""
RATE_MAX = 1e18
SETTINGS_MAX = 256
"""Most settings of a system."""


def check_table(table: SsloTable) -> None:
    """Refuse a table that cannot be computed with.

    Raises:
        ProvisioningError: Two objectives have one name, or a number cannot be; the error names the objective.
    """
    seen: set[str] = set()
    for each in table.sslos:
        if each.name in seen:
            raise _refused(each, "two objectives have this name")
        seen.add(each.name)
        fault = _fault(each)
        if fault:
            raise _refused(each, fault)


def _fault(sslo: Sslo) -> str:
    system, rates, left = sslo.system, sslo.guarantees, sslo.sensitivities
    for name, count in (("servers", system.servers), ("targets_per_server", system.targets_per_server)):
        if not 1 <= count <= DEVICES_MAX:
            return f"{name} is {count}"
    for name in ("read_bytes_per_second", "write_bytes_per_second", "metadata_operations_per_second"):
        rate = getattr(rates, name)
        if rate is not None and not 0 <= rate <= RATE_MAX:
            return f"{name} is {rate:g}"
    network = system.network_bytes_per_second
    if network is not None and not 0 < network <= RATE_MAX:
        return f"network_bytes_per_second is {network:g}"
    for name in ("small", "random", "mixed", "shared_file", "concurrency"):
        part = getattr(left, name)
        if part is not None and not (part >= 0 and math.isfinite(part)):
            return f"the sensitivity {name} is {part:g}"
    return f"it has {len(system.settings)} settings" if len(system.settings) > SETTINGS_MAX else ""


def _refused(sslo: Sslo, fault: str) -> ProvisioningError:
    return ProvisioningError(
        f"the objective {sslo.name!r:.80} cannot be used: {fault}", hint="`weir sslo build` makes tables"
    )
