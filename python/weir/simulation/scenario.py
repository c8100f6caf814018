"""A scenario: the machines, the work, the settings of the store, and faults; and its file, `scenario.toml`.

The reference page of the file is docs/reference/scenarios.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from weir import _core
from weir.simulation.algorithms import check_mode, known_allocator, known_sharing
from weir.simulation.documents import REQUIRED, Document, Table, parse_document, read_document
from weir.simulation.errors import ScenarioError
from weir.simulation.topology import Topology, parse_topology, topology_named
from weir.simulation.workload import Workload

Mode = Literal["flow", "request"]
MODES: tuple[Mode, ...] = ("flow", "request")
"""The models of a run."""
FaultKind = Literal["speed", "fill", "dies", "returns", "parted", "joined"]
FAULT_KINDS: tuple[FaultKind, ...] = ("speed", "fill", "dies", "returns", "parted", "joined")
"""The effects of faults; `speed` and `fill` hit one target, and have a value."""
_VALUED = ("speed", "fill")

POLICY = "size-fair"
"""The policy of a store that names none."""
ALLOCATOR = "balanced"
"""The allocator of a store that names none."""
LAMBDA_SECONDS = 0.1
"""The interval of exchanges of a store that names none."""
STRIPE_BYTES = 1 << 20
"""The stripe of a store that names none."""
_LAMBDA_SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The grant of one group, user or job name beside the policy, as in `[[share]]` of a cluster.toml."""

    group: str | None = None
    user: str | None = None
    job: str | None = None
    weight: float | None = None
    """Factor of the weight that the policy gives."""
    reservation: float | None = None
    """Least part of each device's time, 0 to 1."""
    limit: float | None = None
    """Greatest part of each device's time, 0 to 1."""

    def document(self) -> dict[str, Any]:
        """Describe the grant.

        Returns:
            Values for JSON, in the shape of the simulator's `Entitlement`.
        """
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Fault:
    """An event that nobody asked for."""

    at_seconds: float
    kind: FaultKind
    server: int
    target: int = 0
    """Target of that server, for `speed` and `fill`."""
    value: float | None = None
    """`speed`: the part of its rate at which the target works from now on. `fill`: the part of its capacity in use."""

    def document(self) -> dict[str, Any]:
        """Describe the fault.

        Returns:
            Values for JSON, in the shape of the simulator's `Fault`.
        """
        kind: Any = {self.kind: self.value} if self.kind in _VALUED else self.kind
        return {"at_seconds": self.at_seconds, "kind": kind, "server": self.server, "target": self.target}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run to simulate."""

    topology: Topology
    workload: Workload
    seed: int = 0
    mode: Mode = "flow"
    policy: str = POLICY
    scheduler: str | None = None
    """Algorithm that enforces the policy, or a plug-in, in the mode `request`; None is the policy's default."""
    entitlements: tuple[Entitlement, ...] = ()
    allocator: str = ALLOCATOR
    layout: str | None = None
    """Layout of the files whose job names none, in the spelling of `lfs setstripe`; None is one component of the
    default stripes. A scenario's file without `[layout]` has that of the topology."""
    stripe_bytes: int = STRIPE_BYTES
    """Bytes of a stripe, where a layout names none."""
    stripe_count: int = 0
    """Targets of a file, where a layout names no number; 0 is all."""
    lambda_seconds: float = LAMBDA_SECONDS
    """Interval at which servers exchange their jobs and loads."""
    exchange_loss: float = 0.0
    """Part of the exchanged reports that are lost, 0 to 1."""
    exchange_delay_seconds: float = 0.0
    """Mean time by which exchanged reports come later than their links bring them."""
    sample_seconds: float = 0.0
    """Interval of the series in the outcome; 0 keeps none."""
    until_seconds: float | None = None
    """End of the run, if work is left then; None is when all work is done."""
    faults: tuple[Fault, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Describe the scenario without its machines and its work.

        Returns:
            Values for JSON, in the shape of the simulator's `Scenario`, and the `layout`.
        """
        return {
            "seed": self.seed,
            "mode": self.mode,
            "policy": self.policy,
            "scheduler": self.scheduler,
            "entitlements": [each.document() for each in self.entitlements],
            "allocator": self.allocator,
            "layout": self.layout,
            "stripe_bytes": self.stripe_bytes,
            "stripe_count": self.stripe_count,
            "lambda_seconds": self.lambda_seconds,
            "exchange_loss": self.exchange_loss,
            "exchange_delay_seconds": self.exchange_delay_seconds,
            "sample_seconds": self.sample_seconds,
            "until_seconds": self.until_seconds,
            "faults": [fault.document() for fault in self.faults],
        }

    def document(self) -> dict[str, Any]:
        """Describe the scenario without the workload's steps, which `workload.steps.columns()` has.

        Returns:
            Values for JSON, in the shape of the simulator's `Scenario`.
        """
        settings = self.settings()
        layout = settings.pop("layout")
        return {**settings, "topology": self.topology.document, "workload": self.workload.document(layout)}


def read_scenario(path: str | Path, *, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario's file.

    Args:
        path: A scenario.toml.
        changes: New values by their keys, as for `Document.changed`, such as `{"policy": "job-fair"}`.

    Raises:
        ScenarioError: The scenario cannot be used; the error names the file, the line and the key.
    """
    return scenario_of(read_document(Path(path)).changed(changes or {}))


def parse_scenario(text: str, *, origin: str, folder: Path) -> Scenario:
    """Read a scenario's text.

    Args:
        text: The text, as TOML.
        origin: Its file or name, for errors.
        folder: Folder at which relative paths in it begin.

    Raises:
        ScenarioError: The scenario cannot be used; the error names the line and the key.
    """
    return scenario_of(parse_document(text, origin=origin, folder=folder))


def scenario_of(document: Document, *, like: Scenario | None = None) -> Scenario:
    """Make the scenario of a document.

    Args:
        document: The document of a scenario.toml.
        like: A scenario with the same machines and the same work, which are then not made again: those of a large log
            take seconds.

    Raises:
        ScenarioError: The scenario cannot be used; the error names the file, the line and the key.
    """
    from weir.simulation.workloads.jobs import workload_of

    table = document.table()
    _check_no_sweep(document)
    topology = like.topology if like and table.has("topology") else _topology(table)
    has_work = any([table.has("jobs"), table.has("accounting")])
    seed = table.whole("seed", 0)
    scenario = Scenario(
        topology=topology,
        workload=like.workload if like and has_work else workload_of(table, topology, seed),
        seed=seed,
        mode=cast(Mode, table.choice("mode", "flow", MODES)),
        **store_settings(table, topology),
        exchange_loss=table.fraction("exchange_loss", 0.0),
        exchange_delay_seconds=table.seconds("exchange_delay", 0.0),
        sample_seconds=table.seconds("sample", 0.0),
        until_seconds=table.seconds("until") if table.has("until") else None,
        faults=tuple(_fault(fault, topology) for fault in table.tables("faults")),
    )
    table.close()
    _check_mode(table, scenario)
    check_room(scenario.topology, scenario.workload, document.origin)
    return scenario


def store_settings(table: Table, topology: Topology) -> dict[str, Any]:
    """Read the settings of the store from a table.

    Args:
        table: A table with the keys `policy`, `scheduler`, `share`, `allocator`, `layout` and `lambda`, each of which
            may be absent.

    Returns:
        Values of the fields of `Scenario`.

    Raises:
        ScenarioError: A value is not allowed; the error names the key.
    """
    policy, scheduler = _sharing(table)
    return {
        "policy": policy,
        "scheduler": scheduler,
        "entitlements": tuple(_entitlement(share) for share in table.tables("share")),
        "allocator": table.value("allocator", ALLOCATOR, "an allocator such as balanced", _allocator),
        **_layout(table.table("layout"), topology),
        "lambda_seconds": _lambda(table),
    }


def check_room(topology: Topology, workload: Workload, origin: str) -> None:
    """Refuse a workload whose files cannot all lie on the targets at its end.

    Args:
        origin: File of the workload, for the error.

    Raises:
        ScenarioError: The files that stay are larger than the free room.
    """
    kept = workload.kept_bytes()
    total, free = int(kept.sum()), topology.free_bytes
    if total <= free:
        return
    largest = int(kept.argmax())
    raise ScenarioError(
        f"{origin}: the files of {len(workload.jobs)} jobs hold {total} bytes at the end, and the targets of "
        f"{topology.name} have room for {free}; most, {int(kept[largest])} bytes, are of job {largest} "
        f"({workload.jobs[largest].name})",
        hint="give the targets more capacity, or make the work smaller",
    )


def topology_of(document: Document) -> Topology:
    """Make the machines of a scenario's document, which may have no jobs yet.

    Args:
        document: The document of a scenario.toml.

    Raises:
        ScenarioError: The document names no machines, or they cannot be used.
    """
    return _topology(document.table())


def _check_no_sweep(document: Document) -> None:
    """Refuse the file of a sweep, which is many scenarios; its keys are none of those that a scenario may have."""
    table = document.table()
    for key in ("base", "sweep"):
        if table.has(key):
            raise table.error(key, "this is the file of a sweep and no scenario", "run it with `weir simulate sweep`")


def _topology(table: Table) -> Topology:
    """The machines: a preset, a file, or a table in the scenario itself."""
    if isinstance(table.value("topology", "", "a topology", lambda found: found), dict):
        import tomli_w

        inline: dict[str, Any] = table.value("topology", {}, "a topology", dict)
        try:
            return parse_topology(tomli_w.dumps(inline), origin="topology")
        except ScenarioError as error:
            # The line is one of the table's own text.
            raise table.error("topology", _without_line(error.message), error.hint) from error
    name = table.text("topology", what="a preset, numbers such as 16x8, or the path of a topology's file")
    try:
        return topology_named(name, folder=table.document.folder)
    except ScenarioError as error:
        raise table.error("topology", error.message, error.hint) from error


def _without_line(message: str) -> str:
    import re

    return re.sub(r"^topology: (line \d+: )?", "", message)


def _sharing(table: Table) -> tuple[str, str | None]:
    policy = table.text("policy", POLICY, what="a policy such as size-fair")
    scheduler = table.text("scheduler") if table.has("scheduler") else None
    try:
        return known_sharing(policy, scheduler)
    except ValueError as error:
        key = "scheduler" if scheduler is not None and "scheduler" in str(error) else "policy"
        raise table.error(key if table.has(key) else None, str(error)) from error


def _allocator(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError
    return known_allocator(found)


def _check_mode(table: Table, scenario: Scenario) -> None:
    try:
        check_mode(scenario.scheduler, scenario.mode)
    except ScenarioError as error:
        raise table.error("scheduler", error.message, error.hint) from error


def _layout(table: Table, topology: Topology) -> dict[str, Any]:
    def read(found: Any) -> str:
        if not isinstance(found, str):
            raise ValueError
        _core.parse_layout(found)
        return found

    example = "a layout such as -E 128M -c 1 -E -1 -c 8"
    given = [key for key in ("components", "stripe_size", "stripe_count") if table.has(key)]
    found: dict[str, Any] = {
        "layout": table.value("components", None if given else topology.layout, example, read),
        "stripe_bytes": table.size("stripe_size", STRIPE_BYTES, least=4096),
        "stripe_count": table.whole("stripe_count", 0, most=0xFFFF),
    }
    if found["stripe_bytes"] % 4096:
        raise table.error("stripe_size", "a stripe is a multiple of 4096 bytes", 'try "1MiB"')
    if found["stripe_count"] > topology.targets:
        raise table.error("stripe_count", f"{topology.name} has {topology.targets} targets", "0 means all")
    table.close()
    return found


def _lambda(table: Table) -> float:
    seconds = table.seconds("lambda", LAMBDA_SECONDS)
    if not 0.001 <= seconds <= _LAMBDA_SECONDS_MAX:
        raise table.error("lambda", f"{seconds:g} s is not from 1 ms to 1 h", 'try "100ms"')
    return seconds


def _entitlement(table: Table) -> Entitlement:
    holders = {key: table.text(key) for key in ("group", "user", "job") if table.has(key)}
    if len(holders) != 1:
        raise table.error(None, "it names exactly one of group, user and job", "write one table for each")
    found = Entitlement(
        **holders,
        weight=table.number("weight") if table.has("weight") else None,
        reservation=table.fraction("reservation") if table.has("reservation") else None,
        limit=table.fraction("limit") if table.has("limit") else None,
    )
    table.close()
    return found


def _fault(table: Table, topology: Topology) -> Fault:
    kind = cast(FaultKind, table.choice("kind", REQUIRED, FAULT_KINDS))
    server = table.whole("server", most=topology.servers - 1)
    target, value = 0, None
    if kind in _VALUED:
        targets = len(topology.document["servers"][server]["targets"])
        target = table.whole("target", most=max(targets - 1, 0))
        value = table.fraction("value")
    fault = Fault(table.seconds("at"), kind, server, target, value)
    table.close()
    return fault
