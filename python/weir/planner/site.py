"""The storage of the site as one user may use it now: the resource model, less the devices that deployments hold."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from weir.amounts import size_text
from weir.planner.errors import PlannerError
from weir.planner.ledger import Key, Ledger, now
from weir.planner.protocol import Pool, PoolList
from weir.planner.records import ADMINISTRATOR, Fault, Record
from weir.provisioning.deployments import (
    TARGET_BYTES,
    Deployment,
    capacity_bytes,
    target_bytes,
    targets,
    with_targets,
)
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.wishes import Wishes
from weir.provisioning.objectives.sslos import Semantics
from weir.provisioning.resources.model import Device, Node, Resources, Running, read_resources
from weir.provisioning.sharing.interference_factors import Neighbour
from weir.provisioning.sharing.leases import Sharer
from weir.provisioning.sharing.policies import unmet

USERS_FOR_ALL = 2
"""Number of users whose deployments failed at a node after which the node is left out for everybody. One user alone
could blame any node."""
SLOWDOWN_MAX = 1.5
"""Greatest slowdown of a job by later sharers, where its user names none."""
_SNAPSHOTS_MAX = 256
"""Snapshots in memory, of one user each."""


@dataclass(frozen=True)
class Snapshot:
    """The storage that one user may use, at one moment."""

    resources: Resources
    document: bytes
    """The resources as JSON."""
    digest: str
    """Digest of the document."""
    holdings: int
    """The ledger's number of that moment."""
    room_bytes: int
    """Room of the class of devices that has most, or of a store that may be joined, if that is more."""


class Site:
    """The storage of the site."""

    def __init__(self, ledger: Ledger, model: Path, *, share_max: float = 1.0) -> None:
        """Read the resource model.

        Args:
            model: The resource model; it is read again when it changes.
            share_max: Most of the storage of each class of device that the deployments of one user may hold.

        Raises:
            ProvisioningError: The model cannot be used.
        """
        self._ledger = ledger
        self._share_max = share_max
        self._file = model
        self._model = read_resources(model)
        self._stamp = _stamp(model)
        self._error = ""
        self._counted: tuple[tuple[int, int, int], dict[tuple[str, bool], int]] | None = None
        self._snapshots: dict[tuple[object, ...], tuple[tuple[object, ...], Snapshot]] = {}

    @property
    def error(self) -> str:
        """The fault of a resource model that was changed for the worse; empty where it can be read."""
        return self._error

    def snapshot(
        self, uid: int, *, nodes: tuple[str, ...] = (), left_out: tuple[str, ...] = (), empty: bool = False
    ) -> Snapshot:
        """Tell what a user may use.

        Args:
            nodes: Nodes that may serve; empty for all.
            left_out: Nodes that may not.
            empty: Whether to look at the site as if no deployment were there.

        Returns:
            The storage. It is made once while nothing changes.
        """
        self._refresh()
        faults = self._left_out(uid)
        validity = (self._stamp, self._ledger.holdings, tuple(sorted(faults)))
        key = (uid, nodes, left_out, empty)
        found = self._snapshots.get(key)
        if found is None or found[0] != validity:
            if len(self._snapshots) >= _SNAPSHOTS_MAX:
                self._snapshots.clear()
            found = validity, self._make(uid, set(nodes), {*left_out, *faults}, empty=empty)
            self._snapshots[key] = found
        return found[1]

    def check(self, deployment: Deployment, snapshot: Snapshot) -> None:
        """Check that a deployment takes only what is there.

        Raises:
            PlannerError: A node, a device or room is missing, or the joined deployment.
        """
        if deployment.joins:
            if all(each.deployment.name != deployment.joins for each in snapshot.resources.deployments):
                raise _infeasible(f"there is no deployment {deployment.joins} to join any more")
            return
        by_name = {node.name: node for node in snapshot.resources.nodes if node.usable}
        for (name, path), size in taken(deployment).items():
            if name not in by_name:
                raise _infeasible(f"node {name} cannot be used now")
            room = next((device.room for device in by_name[name].devices if device.path == path), None)
            if room is None or room < size:
                raise _infeasible(f"{path or 'the memory'} of node {name} has no room for {size} bytes")

    def check_possible(self, directives: Directives) -> None:
        """Check that the storage which a job asks for could be had if the site were whole and nobody else there.

        Args:
            directives: The wishes of the job's user.

        Raises:
            PlannerError: The site will never have such storage; the error says how much it has.
        """
        wanted = Wishes(directives=directives).semantics
        lacking: tuple[str, ...] = ("a device",)
        best, most = "", 0
        for (kind, encrypted), total in self._totals().items():
            missing = unmet(wanted, Semantics(encrypted=encrypted, durable=kind != "memory"))
            if not missing and int(total * self._share_max) >= most:
                best, most, lacking = kind, int(total * self._share_max), ()
            elif not best:
                lacking = missing
        if lacking:
            raise PlannerError(
                f"no storage of this site has {' and '.join(lacking)}",
                hint="leave the directive out, or ask the administrators",
                code="infeasible",
            )
        size = directives.size_bytes or 0
        if size > most:
            share = "" if self._share_max >= 1 else f" for one user, {self._share_max:.0%} of it"
            raise PlannerError(
                f"{size_text(size)} are more than this site has of any class of devices: {best} has the "
                f"most{share}, {size_text(most)}",
                hint="ask for a smaller `size`",
                code="infeasible",
            )

    def _totals(self) -> dict[tuple[str, bool], int]:
        """Bytes of all devices by class, and whether they are encrypted; counted once for a resource model."""
        self._refresh()
        if self._counted is None or self._counted[0] != self._stamp:
            totals: dict[tuple[str, bool], int] = {}
            for node in self._model.nodes:
                for device in node.devices:
                    key = device.kind, device.encrypted
                    totals[key] = totals.get(key, 0) + device.capacity_bytes
            self._counted = self._stamp, totals
        return self._counted[1]

    def check_share(self, key: Key, deployment: Deployment) -> None:
        """Check that a deployment keeps to the share of its user.

        Args:
            key: User and name of the deployment.

        Raises:
            PlannerError: The user's deployments would hold too much of the site.
        """
        for kind, found, most in self._over_share(key, deployment):
            raise PlannerError(
                f"user {key[0]} would hold {found} bytes of class {kind}, of at most {most}",
                hint="end other deployments, or ask for less",
                code="infeasible",
            )

    def within_share(self, key: Key, deployment: Deployment) -> Deployment:
        """Take the room for later jobs from a deployment with which its user would hold too much of the site.

        Args:
            key: User and name of the deployment.

        Returns:
            The plan, with targets for its own job alone where the room for others is beyond the user's share.
        """
        if not deployment.shareable or deployment.joins or not any(self._over_share(key, deployment)):
            return deployment
        return with_targets(deployment, target_bytes(deployment.size_bytes, targets(deployment)))

    def _over_share(self, key: Key, deployment: Deployment) -> Iterator[tuple[str, int, int]]:
        """Classes of devices of which a user would hold too much: their name, the bytes held and the bytes allowed."""
        if self._share_max >= 1:
            return
        kinds: dict[tuple[str, str], str] = {}
        total: dict[str, int] = {}
        for node in self._model.nodes:
            for device in node.devices:
                kinds[node.name, device.path] = device.kind
                total[device.kind] = total.get(device.kind, 0) + device.capacity_bytes
        wanted = taken(deployment)
        held = _held(each for each in self._ledger.of_user(key[0]) if each.name != key[1])
        for kind in sorted({kinds[place] for place in wanted if place in kinds}):
            found = sum(size for part in (wanted, held) for place, size in part.items() if kinds.get(place) == kind)
            most = int(total[kind] * self._share_max)
            if found > most:
                yield kind, found, most

    def pools(self) -> PoolList:
        """Tell the storage by class of device.

        Returns:
            The pools, by name, and the nodes that are left out for everybody.
        """
        snapshot = self.snapshot(ADMINISTRATOR)
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        for node in self._model.nodes:
            for device in node.devices:
                total[device.kind] = total.get(device.kind, 0) + device.capacity_bytes
        for node in snapshot.resources.nodes:
            for device in node.devices if node.usable else ():
                free[device.kind] = free.get(device.kind, 0) + device.room
        found = tuple(
            Pool(name=kind, total_bytes=total[kind], free_bytes=free.get(kind, 0), granularity_bytes=TARGET_BYTES)
            for kind in sorted(total)
        )
        return PoolList(pools=found, quarantined=self._left_out(ADMINISTRATOR))

    def _refresh(self) -> None:
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._model = read_resources(self._file)
            self._error = ""
        except ProvisioningError as error:
            # Jobs go on with the model that was good.
            self._error = error.message

    def _left_out(self, uid: int) -> dict[str, str]:
        """Nodes that the user's plans leave out, with the reasons."""
        by_node: dict[str, list[Fault]] = {}
        for fault in self._ledger.faults(now()):
            by_node.setdefault(fault.node, []).append(fault)
        return {
            node: faults[0].reason
            for node, faults in by_node.items()
            if {fault.uid for fault in faults} & {uid, ADMINISTRATOR} or len(faults) >= USERS_FOR_ALL
        }

    def _make(self, uid: int, nodes: set[str], left_out: set[str], *, empty: bool) -> Snapshot:
        held = {} if empty else _held(self._ledger.all())
        made = tuple(
            _less(node, held, usable=node.usable and node.name not in left_out and (not nodes or node.name in nodes))
            for node in self._model.nodes
        )
        shared = [each for each in self._ledger.of_user(uid) if _may_be_joined(each) and not empty]
        deployments = tuple(self._running(each) for each in sorted(shared, key=lambda each: each.name))
        resources = Resources(source=self._model.source, nodes=made, deployments=deployments)
        document = msgspec.json.encode(resources)
        digest = hashlib.blake2b(document, digest_size=16).hexdigest()
        return Snapshot(resources, document, digest, self._ledger.holdings, _room(resources))

    def _running(self, record: Record) -> Running:
        """A store as later jobs see it. The clock of leases is the planner's, so nothing of it stands here."""
        using = [*([] if record.kept else [record]), *self._ledger.sharers(record)]
        return Running(
            deployment=record.deployment,
            sharers=tuple(_sharer(each) for each in sorted(using, key=lambda each: each.name)),
        )


def _room(resources: Resources) -> int:
    """Bytes of the largest store that could be made of one class of devices, or that may be joined."""
    by_kind: dict[str, int] = {}
    for node in resources.nodes:
        for device in node.devices if node.usable else ():
            by_kind[device.kind] = by_kind.get(device.kind, 0) + device.room
    return max([0, *by_kind.values(), *(capacity_bytes(each.deployment) for each in resources.deployments)])


def _sharer(record: Record) -> Sharer:
    load = Neighbour(behaviour_class=record.deployment.behaviour_class, processes=record.identity.processes)
    return Sharer(
        name=record.name,
        load=load,
        slowdown_max=record.directives.slowdown or SLOWDOWN_MAX,
        size_bytes=record.deployment.size_bytes,
    )


def taken(deployment: Deployment) -> dict[tuple[str, str], int]:
    """Find the room that a deployment takes.

    Returns:
        Bytes by node and path of the device; the path of memory is empty.
    """
    found: dict[tuple[str, str], int] = {}
    for server in deployment.servers:
        for path in server.devices or ("",) * deployment.system.targets_per_server:
            found[server.node, path] = found.get((server.node, path), 0) + server.target_bytes
    return found


def _may_be_joined(record: Record) -> bool:
    is_ending = record.goal == "teardown" and not record.kept
    is_there = record.done in ("setup", "stage_in", "environment", "stage_out")
    return record.holds_storage and record.deployment.shareable and is_there and not is_ending


def _held(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    """Bytes that deployments hold, by node and path of the device."""
    held: dict[tuple[str, str], int] = {}
    for record in records:
        if record.holds_storage:
            for place, size in taken(record.deployment).items():
                held[place] = held.get(place, 0) + size
    return held


def _less(node: Node, held: dict[tuple[str, str], int], *, usable: bool) -> Node:
    devices = tuple(_device(device, held.get((node.name, device.path), 0)) for device in node.devices)
    return msgspec.structs.replace(node, devices=devices, usable=usable)


def _device(device: Device, held: int) -> Device:
    return msgspec.structs.replace(device, free_bytes=max(device.room - held, 0)) if held else device


def _infeasible(message: str) -> PlannerError:
    return PlannerError(message, hint="plan the job again", code="infeasible")


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
