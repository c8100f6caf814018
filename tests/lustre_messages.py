"""Messages of Lustre servers, as tests send them."""

from dataclasses import replace
from typing import Any

from weir.lustre.message import (
    DiskIo,
    JobRates,
    NetworkRates,
    Statistics,
    TargetRates,
    TargetStatistics,
)


def target(name: str = "fs-OST0000", **changes: Any) -> TargetStatistics:
    """What a server says of one of its targets."""
    rates = TargetRates(1e6, 2e6, 10.0, 20.0, 0.5, DiskIo(30.0, 1e6, 4.0, None), (JobRates("a.1", 1.0, 2.0),))
    return replace(TargetStatistics(name, 1000, 600, 500, False, rates), **changes)


def statistics(server: str = "oss1", sequence: int = 0, **changes: Any) -> Statistics:
    """What a server of one target says of itself."""
    said = Statistics(
        server=server,
        instance="first",
        sequence=sequence,
        interval_seconds=60.0,
        heartbeat_seconds=5.0,
        time_seconds=1700000000.0 + sequence,
        age_seconds=0.0,
        period_seconds=60.0,
        load_average=1.5,
        processors=32,
        cpu_fraction=0.25,
        memory_total_bytes=1 << 36,
        memory_fraction=0.5,
        network=NetworkRates(1e6, 2e6, 0.0),
        targets=(target(),),
    )
    return replace(said, **changes)
