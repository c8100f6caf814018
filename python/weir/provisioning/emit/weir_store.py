"""Weir's own cluster.toml, and the command that brings the store up from it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from weir.errors import WeirError
from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import checks
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.emit.system_semantics import most
from weir.provisioning.errors import ProvisioningError
from weir.store import settings as store_settings
from weir.store import values as store_values
from weir.store.configuration import FILE_VERSION, check_sharing

FILE, START, STOP = "cluster.toml", "start.sh", "stop.sh"
LAYOUT = ("stripe_size", "stripe_count")
"""Settings of the default layout, which no flag of `weir up` sets."""
INTERVAL = "lambda_milliseconds"
"""The setting of the interval in which servers tell each other their jobs."""
BACKEND = store_settings.BACKEND.name
"""The setting that follows from the servers' devices, and may not contradict them."""
SETTINGS = {
    each.name: each
    for each in (
        store_settings.POLICY,
        store_settings.SCHEDULER,
        store_settings.ALLOCATOR,
        store_settings.READ_SPEED,
        store_settings.WRITE_SPEED,
        store_settings.FIXED_TIME,
        store_settings.METADATA_TIME,
    )
}
"""The settings of a store that a deployment may have; the others follow from its servers."""
_HEAD = '#!/bin/sh\ncd "$(dirname "$0")" || exit\n'
"""The scripts name the files beside them."""
_STRIPE_UNIT = 4096
_INTERVALS = (1, 60_000)
_TARGET_BYTES_MIN = 1 << 20
_TARGETS_MAX, _SERVERS_MAX = 64, 64


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A `[[server.target]]` table."""

    backend: Literal["ram", "dir"]
    capacity: str
    path: str = ""
    class_: str = msgspec.field(name="class", default="")
    speed: dict[str, str] = {}


class StoreServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A `[[server]]` table."""

    target: tuple[Target, ...]
    metadata_speed: dict[str, str] = {}


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The document of a cluster.toml, as far as deployments set it."""

    version: int
    policy: str
    scheduler: str = ""
    lambda_milliseconds: int = 0
    """Zero is the default."""
    layout: dict[str, str | int]
    server: tuple[StoreServer, ...]


class WeirStore(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a store."""

    cluster: Cluster
    hosts: tuple[str, ...]
    """Hosts of the servers: server `i` is on the host `i` modulo their number."""
    mount: str


def of(deployment: Deployment, *, mount: str) -> WeirStore:
    """Take the values of a store from a deployment.

    Args:
        mount: Mount point on every host.

    Raises:
        ProvisioningError: A store cannot be deployed so.
    """
    in_memory = any(not server.devices for server in deployment.servers)
    checks.check(deployment, "Weir", most("weir", servers=len(deployment.servers), in_memory=in_memory))
    chosen = deployment.system.settings
    checks.known(chosen, (*SETTINGS, *LAYOUT, INTERVAL, BACKEND), "Weir")
    backends = {"dir" if server.devices else "ram" for server in deployment.servers}
    if BACKEND in chosen and {chosen[BACKEND]} != backends:
        raise ProvisioningError(
            f"backend is {chosen[BACKEND][:80]!r}, and the servers' devices make it {' and '.join(sorted(backends))}",
            hint="leave backend out, or name devices for `dir` and none for `ram`",
        )
    by_host: dict[str, list[StoreServer]] = {}
    for server in deployment.servers:
        by_host.setdefault(server.node, []).append(
            StoreServer(
                target=tuple(_targets(deployment, server.devices, server.target_bytes)),
                metadata_speed=_nested(chosen, {store_settings.METADATA_TIME.name: "fixed"}),
            )
        )
    rows = list(by_host.values())
    if len({len(each) for each in rows}) > 1:
        raise ProvisioningError(
            "`weir deploy` gives each host as many servers, and the plan does not", hint="spread the servers evenly"
        )
    layout: dict[str, str | int] = {"allocator": _value(chosen, store_settings.ALLOCATOR.name)}
    if "stripe_size" in chosen:
        layout["stripe_size"] = chosen["stripe_size"]
    if "stripe_count" in chosen:
        layout["stripe_count"] = checks.number(chosen["stripe_count"], "stripe_count", 0, _TARGETS_MAX * _SERVERS_MAX)
    cluster = Cluster(
        version=FILE_VERSION,
        policy=_value(chosen, store_settings.POLICY.name),
        scheduler=chosen.get(store_settings.SCHEDULER.name, ""),
        lambda_milliseconds=checks.number(chosen[INTERVAL], INTERVAL, *_INTERVALS) if INTERVAL in chosen else 0,
        layout=layout,
        # Server `i` is on the host `i` modulo their number, so the hosts' first servers come first.
        server=tuple(servers[turn] for turn in range(len(rows[0])) for servers in rows),
    )
    return _checked(WeirStore(cluster=cluster, hosts=tuple(by_host), mount=mount))


def files(values: WeirStore) -> tuple[EmittedFile, ...]:
    """Write the configuration, and scripts that start and stop the store."""
    import tomli_w

    document: dict[str, Any] = msgspec.to_builtins(values.cluster)
    start = ["weir", "deploy", FILE, "--nodes", ",".join(values.hosts), "--mount", values.mount]
    return (
        EmittedFile(name=FILE, text="# Written by `weir plan emit`.\n" + tomli_w.dumps(document)),
        EmittedFile(name=START, text=f"{_HEAD}{shlex.join(start)}\n"),
        EmittedFile(name=STOP, text=f"{_HEAD}weir down\n"),
    )


def read(emitted: Sequence[EmittedFile]) -> WeirStore:
    """Read the files of a store back.

    Raises:
        ProvisioningError: A file is missing, is not TOML, has keys that are never emitted, or a value that no store
            has.
    """
    import tomllib

    texts = checks.only(emitted, (FILE, START, STOP))
    try:
        document = tomllib.loads(texts[FILE])
        cluster = msgspec.convert(document, Cluster)
    except (ValueError, RecursionError) as error:
        raise ProvisioningError(f"{FILE}: {error}", hint="`weir plan emit` writes the files anew") from error
    try:
        words = shlex.split(texts[START].removeprefix(_HEAD))
    except ValueError as error:
        raise _wrong(START, str(error)) from error
    if len(words) != 7 or [words[place] for place in (0, 1, 2, 3, 5)] != ["weir", "deploy", FILE, "--nodes", "--mount"]:
        raise _wrong(START, f"it is not `weir deploy {FILE} --nodes HOSTS --mount PATH`")
    found = _checked(WeirStore(cluster=cluster, hosts=tuple(words[4].split(",")), mount=words[6]))
    _, start, stop = files(found)
    if texts[START] != start.text or texts[STOP] != stop.text:
        raise _wrong(START, "the scripts that start and stop the store have further words")
    return found


def _checked(values: WeirStore) -> WeirStore:
    """Values that a store accepts."""
    cluster = values.cluster
    for host in values.hosts:
        checks.host(host, "a host")
    checks.path(values.mount, "the mount point")
    targets = [target for server in cluster.server for target in server.target]
    if cluster.lambda_milliseconds and not _INTERVALS[0] <= cluster.lambda_milliseconds <= _INTERVALS[1]:
        raise _wrong(FILE, f"{INTERVAL} is {cluster.lambda_milliseconds}")
    if cluster.version != FILE_VERSION:
        raise _wrong(FILE, f"version {cluster.version} is not known")
    if not values.hosts or len(set(values.hosts)) < len(values.hosts) or len(cluster.server) % len(values.hosts):
        raise _wrong(START, f"{len(cluster.server)} servers cannot be spread over {len(values.hosts)} different hosts")
    if not 1 <= len(cluster.server) <= _SERVERS_MAX or not all(
        1 <= len(server.target) <= _TARGETS_MAX for server in cluster.server
    ):
        raise ProvisioningError(
            f"a store of Weir has from 1 to {_SERVERS_MAX} servers, each with 1 to {_TARGETS_MAX} targets",
            hint="plan fewer servers or targets",
        )
    try:
        check_sharing(cluster.policy, cluster.scheduler or None, FILE)
        for target in targets:
            if store_values.size(target.capacity) < _TARGET_BYTES_MIN:
                raise _wrong(FILE, f"a target of {target.capacity} is below {_TARGET_BYTES_MIN} bytes")
            _read_speed(target.speed, {"read", "write", "fixed"})
        for server in cluster.server:
            _read_speed(server.metadata_speed, {"fixed"})
        _check_layout(cluster.layout, len(targets))
    except ValueError as error:
        raise _wrong(FILE, str(error)) from error
    except WeirError as error:
        raise ProvisioningError(error.message, hint=error.hint) from error
    for target in targets:
        if (target.backend == "dir") != bool(target.path):
            raise _wrong(FILE, "a `dir` target has a path, and no other target has one")
        if target.path:
            checks.path(target.path, FILE)
    paths = [
        (place % len(values.hosts), target.path)
        for place, server in enumerate(cluster.server)
        for target in server.target
        if target.path
    ]
    if len(set(paths)) < len(paths):
        raise _wrong(FILE, "two targets on a host have one path")
    return values


def _check_layout(layout: Mapping[str, str | int], targets: int) -> None:
    if strange := layout.keys() - {"allocator", *LAYOUT}:
        raise _wrong(FILE, f"the layout has no {', '.join(sorted(strange))}")
    store_values.allocator(str(layout.get("allocator", "")))
    stripe = store_values.size(str(layout.get("stripe_size", _STRIPE_UNIT)))
    if not stripe or stripe % _STRIPE_UNIT:
        raise _wrong(FILE, f"stripe_size is no multiple of {_STRIPE_UNIT} bytes")
    count = layout.get("stripe_count", 0)
    if not isinstance(count, int) or not 0 <= count <= targets:
        raise _wrong(FILE, f"stripe_count is {count}, and there are {targets} targets")


def _read_speed(speed: Mapping[str, str], keys: set[str]) -> None:
    if strange := speed.keys() - keys:
        raise _wrong(FILE, f"a speed has no {', '.join(sorted(strange))}")
    for key, text in speed.items():
        (store_values.duration if key == "fixed" else store_values.rate)(text)


def _targets(deployment: Deployment, devices: Sequence[str], target_bytes: int) -> list[Target]:
    speeds = {
        store_settings.READ_SPEED.name: "read",
        store_settings.WRITE_SPEED.name: "write",
        store_settings.FIXED_TIME.name: "fixed",
    }
    speed = _nested(deployment.system.settings, speeds)
    shape: dict[str, Any] = {"capacity": str(target_bytes), "class_": deployment.system.device, "speed": speed}
    if not devices:
        return [Target(backend="ram", **shape) for _ in range(deployment.system.targets_per_server)]
    for device in devices:
        if device.startswith("/dev/") and not device.startswith("/dev/shm/"):
            raise ProvisioningError(
                f"{device} is a block device, and Weir keeps its bytes in folders",
                hint="name the folder at which the device's file system is mounted",
            )
    return [Target(backend="dir", path=f"{device.rstrip('/')}/{deployment.name}", **shape) for device in devices]


def _nested(chosen: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    return {key: chosen[name] for name, key in keys.items() if name in chosen}


def _value(chosen: Mapping[str, str], name: str) -> str:
    return chosen.get(name, SETTINGS[name].default)


def _wrong(name: str, message: str) -> ProvisioningError:
    return ProvisioningError(f"{name}: {message}", hint="see docs/reference/configuration.md")
