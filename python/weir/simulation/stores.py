"""A store's own topology and settings: of its cluster.toml, and of its running servers as they were measured."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.simulation.documents import Document, Table
from weir.simulation.topology import Topology

if TYPE_CHECKING:
    from weir.store.access import Access
    from weir.store.answers import Device, DirectionCost, Status, Target

CLIENT_NODES = 16
"""Client nodes of a store's topology: a store does not know how many there are."""
LINK_BYTES_PER_SECOND = 12.5e9
"""Rate of each link of a store's topology: 100 Gb/s; a store does not know its network."""
_LAYOUT = ("stripe_size", "stripe_count")
"""Keys of `[layout]` that a cluster.toml and a scenario have alike."""
UNBOUNDED_BYTES_PER_SECOND = 1e12
"""Rate of a device whose bytes cost nothing: far above any link."""


def topology_of_store(cluster: Path, access: "Access | None" = None) -> Topology:
    """Ask the servers of a running store for their targets, and for what these were measured to do.

    A target's rates and the time of a request are those that its server expects: learned from the requests that it has
    served, or those of an emulated speed. Client nodes and links are assumed.

    Args:
        cluster: The store's cluster.json.
        access: The right of this process to ask its servers for more than everybody sees.

    Raises:
        StoreError: The store is not up, or a server does not answer.
    """
    from weir.store.control import Server, ask_all, servers_of
    from weir.store.errors import StoreError

    answers = ask_all(servers_of(cluster, access), Server.status)
    states: list[Status] = []
    for answer in answers:
        if isinstance(answer, StoreError):
            raise answer
        states.append(answer)
    return _topology("store", [_server_of(state) for state in sorted(states, key=lambda state: state.server)])


def configuration_of_store(cluster: Path) -> Path | None:
    """Find the configuration that the servers of a store run with.

    Args:
        cluster: The store's cluster.json.

    Returns:
        The cluster.toml in the same home; None where this user cannot read one.
    """
    file = cluster.parent / "cluster.toml"
    return file if os.access(file, os.R_OK) else None


def settings_of_store(cluster: Path, access: "Access | None" = None) -> dict[str, Any]:
    """Ask a running store for its settings that a scenario can hold.

    Args:
        cluster: The store's cluster.json.
        access: The right of this process to ask its servers for more than everybody sees.

    Returns:
        Values of a scenario's keys: `policy`, `scheduler` and `allocator`, as server 0 has them now; and, where this
        user can read the store's cluster.toml, `share`, `layout` and `lambda`, as far as the file has them.

    Raises:
        StoreError: The store is not up, the server does not answer, or the cluster.toml cannot be read.
    """
    from weir.store.configuration import read_toml
    from weir.store.control import servers_of

    server = servers_of(cluster, access)[0]
    sharing = server.sharing()
    now = {"policy": sharing.policy, "scheduler": sharing.scheduler, "allocator": server.allocator()}
    file = configuration_of_store(cluster)
    return {**now, **({} if file is None else settings_of_configuration(read_toml(file)))}


def settings_of_configuration(document: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings from a store's configuration that its servers do not tell.

    Args:
        document: The document of a cluster.toml that `weir up` has checked.

    Returns:
        Values of a scenario's keys `share`, `layout` and `lambda`, as far as the document has them.
    """
    found: dict[str, Any] = {}
    if document.get("share"):
        found["share"] = [dict(table) for table in document["share"]]
    layout = {key: document["layout"][key] for key in _LAYOUT if key in document.get("layout", {})}
    if layout:
        found["layout"] = layout
    if "lambda_milliseconds" in document:
        found["lambda"] = f"{document['lambda_milliseconds']}ms"
    return found


def topology_of_configuration(document: Document) -> Topology:
    """Make the topology of a store that is not up.

    Args:
        document: The document of its cluster.toml, whose targets all have a capacity and a speed.

    Raises:
        ScenarioError: A target has no capacity or no speed, or they cannot be read; the error names the line.
    """
    servers = [_server_in(table) for table in document.table().tables("server")]
    if not servers:
        raise document.table().error("server", "there is no [[server]]", "see docs/reference/configuration.md")
    return _topology(Path(document.origin).stem, servers)


def _topology(name: str, servers: list[dict[str, Any]]) -> Topology:
    clients = {"nodes": CLIENT_NODES, "link": _link()}
    return Topology({"name": name, "layout": None, "clients": clients, "routers": [], "servers": servers})


def _link() -> dict[str, float]:
    return {"bytes_per_second": LINK_BYTES_PER_SECOND, "latency_seconds": 0.0}


def _server_of(state: "Status") -> dict[str, Any]:
    return {
        "link": _link(),
        "processor_bytes_per_second": None,
        "metadata_seconds": _mean_fixed(state.metadata),
        "targets": [_target_of(target) for target in state.targets],
    }


def _mean_fixed(device: "Device") -> float:
    """The time of a metadata operation, half of them reads."""
    return (device.cost.read.fixed_seconds + device.cost.write.fixed_seconds) / 2


def _target_of(target: "Target") -> dict[str, Any]:
    # The capacity of a target may have been made smaller than what the target holds.
    used = min(target.used_bytes, target.capacity_bytes)
    return _target(
        target.speed_class, target.capacity_bytes, used, _transfer_of(target.cost.read), _transfer_of(target.cost.write)
    )


def _transfer_of(cost: "DirectionCost") -> dict[str, float]:
    rate = cost.bytes_per_second
    bounded = UNBOUNDED_BYTES_PER_SECOND if rate is None else min(float(rate), UNBOUNDED_BYTES_PER_SECOND)
    return {"bytes_per_second": bounded, "fixed_seconds": cost.fixed_seconds}


def _server_in(table: Table) -> dict[str, Any]:
    metadata = table.table("metadata_speed").seconds("fixed", 0.0)
    targets = [_target_in(target) for target in table.tables("target")]
    if not targets:
        raise table.error(None, "it lists no targets", "give [[server.target]] tables with a capacity and a speed")
    return {"link": _link(), "processor_bytes_per_second": None, "metadata_seconds": metadata, "targets": targets}


def _target_in(table: Table) -> dict[str, Any]:
    speed = table.table("speed")
    if not speed.has("read") and not speed.has("write") and not speed.has("fixed"):
        raise table.error(
            None,
            "the target has no speed, and nobody can tell it from the file",
            'give speed = { read = "1GB/s", write = "1GB/s" }, or simulate a running store',
        )
    if not table.has("capacity"):
        raise table.error(None, "the target has no capacity", 'give capacity = "100GiB", or ask the running store')
    fixed = speed.seconds("fixed", 0.0)
    ways = [
        {"bytes_per_second": speed.rate(key, UNBOUNDED_BYTES_PER_SECOND), "fixed_seconds": fixed}
        for key in ("read", "write")
    ]
    backend = table.choice("backend", "ram", ("ram", "dir"))
    return _target(table.text("class", backend), table.size("capacity", least=1), 0, *ways)


def _target(
    speed_class: str, capacity: int, used: int, read: dict[str, float], write: dict[str, float]
) -> dict[str, Any]:
    return {
        "class": speed_class,
        "capacity_bytes": capacity,
        "used_bytes": used,
        "read": read,
        "write": write,
        "seek_penalty": 0.0,
        "seek_floor": 1.0,
        "fullness": [],
    }
