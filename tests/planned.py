"""Plans of storage, for tests of provisioning."""

from functools import cache

from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives import shipped, sslo_tables
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources


@cache
def planner() -> Planner:
    """A planner by the tables that come with Weir."""
    return Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)


def cluster(nodes: int, *, kind: str = "nvme", capacity_bytes: int = 10**12) -> Resources:
    """Equal nodes with one device each, and memory."""
    return Resources(
        nodes=tuple(
            Node(
                name=f"node{number}",
                network_bytes_per_second=5e9,
                devices=(
                    Device(path=f"/{kind}", kind=kind, capacity_bytes=capacity_bytes),
                    Device(kind="memory", capacity_bytes=64 << 30),
                ),
            )
            for number in range(nodes)
        )
    )


def writer(*, written_bytes: int = 400 * 10**9, processes: int = 256, seconds: float = 600.0) -> Identity:
    """A job that writes large requests in order."""
    return Identity(
        name="medium-write-light-sequential-posix",
        program="writer",
        processes=processes,
        seconds=seconds,
        written_bytes=written_bytes,
        write_operations=max(written_bytes >> 20, 1),
        metadata_operations=processes,
        large_fraction=1.0,
        sequential_fraction=1.0,
        consecutive_fraction=1.0,
        interface="posix",
    )
