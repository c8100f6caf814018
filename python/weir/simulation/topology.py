"""Topologies: the machines of a centre, from presets, files, the configuration of a store, and running stores.

A topology is the document of the simulator's `Topology`; its text is TOML with groups of alike machines, which
`crates/simulator/src/description` reads.
"""

import json
import re
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from weir import _core
from weir.simulation.documents import REFERENCE, parse_document
from weir.simulation.errors import ScenarioError

_ENDING = ".toml"
_GRID = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)
_STORE = re.compile(r"^\s*\[\[\s*server\s*\]\]", re.MULTILINE)
"""A table of a cluster.toml, whose servers stand in `[[server]]`; a topology's stand in `[[servers]]`."""
_GRID_TEXT = """name = "{name}"
clients = {{ nodes = {nodes}, link = {{ rate = "12.5GB/s", latency = "5us" }} }}
[[servers]]
count = {servers}
link = {{ rate = "12.5GB/s", latency = "5us" }}
metadata = "50us"
[[servers.targets]]
count = {targets}
capacity = "1TiB"
read = "1GB/s"
write = "1GB/s"
"""
"""Machines of an N x M topology: 100 Gb/s links, and targets of 1 GB/s and 1 TiB."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The machines of a centre.

    Attributes:
        document: Values for JSON, in the shape of the simulator's `Topology`.
    """

    document: dict[str, Any]

    @property
    def name(self) -> str:
        """Name for reports."""
        return str(self.document["name"])

    @property
    def layout(self) -> str | None:
        """The file system's layout, in the spelling of `lfs setstripe`; None where it has none of its own."""
        found = self.document.get("layout")
        return None if found is None else str(found)

    @property
    def nodes(self) -> int:
        """Number of client nodes."""
        return int(self.document["clients"]["nodes"])

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.document["servers"])

    @property
    def targets(self) -> int:
        """Number of targets of all servers."""
        return sum(len(server["targets"]) for server in self.document["servers"])

    @property
    def capacity_bytes(self) -> int:
        """Bytes that all targets hold."""
        return sum(target["capacity_bytes"] for server in self.document["servers"] for target in server["targets"])

    @property
    def free_bytes(self) -> int:
        """Bytes that are free on all targets before a run."""
        used = sum(target["used_bytes"] for server in self.document["servers"] for target in server["targets"])
        return self.capacity_bytes - int(used)

    def text(self) -> str:
        """Write the topology as TOML.

        Returns:
            A text that reads as the same topology, with groups of alike servers and targets.
        """
        import tomli_w

        return tomli_w.dumps(_described(self.document))


def preset_names() -> list[str]:
    """List the presets."""
    return sorted(entry.name.removesuffix(_ENDING) for entry in _presets().iterdir() if entry.name.endswith(_ENDING))


def topology_named(name: str, *, folder: Path | None = None) -> Topology:
    """Find a topology by the name of a preset, by numbers as in `16x8`, or by the path of its file.

    Args:
        name: A preset, the numbers of servers and of targets a server, or a path.
        folder: Folder at which a relative path begins; None is the working directory.

    Raises:
        ScenarioError: There is no such preset and no such file, or the file describes no topology.
    """
    if name in preset_names():
        return parse_topology((_presets() / f"{name}{_ENDING}").read_text(), origin=name)
    grid = _GRID.fullmatch(name)
    if grid:
        servers, targets = int(grid[1]), int(grid[2])
        text = _GRID_TEXT.format(name=name, nodes=max(servers, 1) * 4, servers=servers, targets=targets)
        return parse_topology(text, origin=name)
    path = (folder or Path()) / Path(name).expanduser()
    if path.suffix != _ENDING and not path.exists():
        raise ScenarioError(
            f"there is no topology {name}",
            hint=f"give {', '.join(preset_names())}, numbers of servers and targets such as 16x8, or a file",
        )
    return read_topology(path)


def read_topology(path: Path) -> Topology:
    """Read a file that describes a topology, or a store's cluster.toml.

    Raises:
        ScenarioError: The file cannot be read, or describes no topology; the error names its line and key.
    """
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not TOML: it is not UTF-8", hint=REFERENCE) from error
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}", hint="is the path right?") from error
    if _STORE.search(text):
        from weir.simulation.stores import topology_of_configuration

        return topology_of_configuration(parse_document(text, origin=str(path), folder=path.parent))
    return parse_topology(text, origin=str(path))


def parse_topology(text: str, *, origin: str) -> Topology:
    """Read a text that describes a topology.

    Args:
        origin: Its file or name, for errors.

    Raises:
        ScenarioError: The text describes no topology; the error names its line and key.
    """
    try:
        return Topology(json.loads(_core.parse_topology(text)))
    except ValueError as error:
        raise ScenarioError(f"{origin}: {error}", hint=REFERENCE) from error


def _presets() -> Any:
    return resources.files("weir.simulation") / "topologies"


def _described(document: dict[str, Any]) -> dict[str, Any]:
    """A topology's document in the words of its text."""
    clients = document["clients"]
    described: dict[str, Any] = {"name": document["name"]}
    if document.get("layout") is not None:
        described["layout"] = document["layout"]
    described["clients"] = {"nodes": clients["nodes"], "link": _hop(clients["link"])}
    if document["routers"]:
        described["routers"] = [
            {"name": stage["name"], "count": stage["count"], "side": stage["side"], "link": _hop(stage["link"])}
            for stage in document["routers"]
        ]
    described["servers"] = [
        _counted(_server(server), len(list(alike))) for server, alike in groupby(document["servers"])
    ]
    return described


def _server(server: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"link": _hop(server["link"])}
    if server["processor_bytes_per_second"] is not None:
        described["processor"] = _rate(server["processor_bytes_per_second"])
    if server["metadata_seconds"]:
        described["metadata"] = _time(server["metadata_seconds"])
    if server["targets"]:
        described["targets"] = [
            _counted(_target(target), len(list(alike))) for target, alike in groupby(server["targets"])
        ]
    return described


def _target(target: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"class": target["class"]} if target["class"] else {}
    described["capacity"] = _size(target["capacity_bytes"])
    if target["used_bytes"]:
        described["used"] = _size(target["used_bytes"])
    for way in ("read", "write"):
        rate, fixed = target[way]["bytes_per_second"], target[way]["fixed_seconds"]
        described[way] = {"rate": _rate(rate), "fixed": _time(fixed)} if fixed else _rate(rate)
    if target["seek_penalty"]:
        described["seek_penalty"] = target["seek_penalty"]
    if target["seek_floor"] != 1.0:
        described["seek_floor"] = target["seek_floor"]
    if target["fullness"]:
        described["fullness"] = target["fullness"]
    return described


def _counted(described: dict[str, Any], count: int) -> dict[str, Any]:
    return {"count": count, **described} if count > 1 else described


def _hop(hop: dict[str, Any]) -> dict[str, Any]:
    described = {"rate": _rate(hop["bytes_per_second"])}
    if hop["latency_seconds"]:
        described["latency"] = _time(hop["latency_seconds"])
    return described


def _size(count: int) -> str | int:
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return count


def _rate(rate: float) -> str | float:
    for unit, factor in (("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3)):
        if rate >= factor and rate % factor == 0:
            return f"{int(rate) // factor}{unit}"
    return rate


def _time(seconds: float) -> str | float:
    """A time with the greatest unit in which it is whole, or in seconds."""
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        count = round(seconds * factor)
        if count and count / factor == seconds:
            return f"{count}{unit}"
    return seconds
