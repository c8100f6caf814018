"""BeeOND's node file, target file, configuration files and command lines (`beeond` alone prints its usage)."""

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import checks
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.emit.system_semantics import most
from weir.provisioning.errors import ProvisioningError

NODES, TARGETS, START, STOP = "nodefile", "targetfile", "start.sh", "stop.sh"
SERVICES = ("client", "helperd", "meta", "mgmtd", "storage")
"""Services that `beeond start -f FOLDER` reads configuration for, from beegfs-SERVICE.conf."""
METADATA_SERVERS = "metadata_servers"
"""The setting that is BeeOND's own: its option -m."""
_HEAD = '#!/bin/sh\ncd "$(dirname "$0")" || exit\n'
"""The scripts name the files beside them."""
_POOL = "weir"
_SETTING = re.compile(r"(client|helperd|meta|mgmtd|storage)\.([a-z][A-Za-z0-9]{0,63})", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9._/:,+-]{1,256}", re.ASCII)


class Beeond(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a start of BeeOND."""

    nodes: tuple[str, ...]
    data: str
    """Folder of the data on every node."""
    targets: tuple[str, ...] = ()
    """Further folders with a target each, on every node; empty where `data` is the only one."""
    mount: str
    metadata_servers: int = 1
    mirrored: bool = False
    in_memory: bool = False
    folder: str = ""
    """Folder of these files on every node; empty where there is no file for a service."""
    settings: dict[str, str] = {}
    """Settings of services, by SERVICE.NAME."""


def of(deployment: Deployment, *, mount: str, folder: str) -> Beeond:
    """Take the values of a start from a deployment.

    Args:
        mount: Mount point on every node.
        folder: Folder of the files on every node.

    Raises:
        ProvisioningError: BeeOND cannot be deployed so.
    """
    in_memory = not any(server.devices for server in deployment.servers)
    checks.check(deployment, "BeeOND", most("beeond", servers=len(deployment.servers), in_memory=in_memory))
    nodes = tuple(server.node for server in deployment.servers)
    folders = {server.devices for server in deployment.servers}
    if len(set(nodes)) < len(nodes):
        raise ProvisioningError(
            "BeeOND starts one server on each node, but the plan has two on one node", hint="use more nodes"
        )
    if len(folders) > 1:
        raise ProvisioningError(
            "BeeOND uses the same folders on every node, and the nodes have different ones",
            hint="use nodes with the same devices",
        )
    (devices,) = folders
    settings = dict(deployment.system.settings)
    wanted = settings.pop(METADATA_SERVERS, "")
    mirrored = deployment.semantics.replicas > 1
    metadata = checks.number(wanted, METADATA_SERVERS, 1, len(nodes)) if wanted else 2 if mirrored else 1
    roots = tuple(f"{device.rstrip('/')}/{deployment.name}" for device in devices)
    return _checked(
        Beeond(
            nodes=nodes,
            # In memory the path is the mount point of the tmpfs that BeeOND makes.
            data=roots[0] if roots else f"/tmp/{deployment.name}",
            targets=roots if len(roots) > 1 else (),
            mount=mount,
            metadata_servers=metadata,
            mirrored=mirrored,
            in_memory=in_memory,
            folder=folder if settings else "",
            settings=settings,
        )
    )


def files(values: Beeond) -> tuple[EmittedFile, ...]:
    """Write the files.

    Returns:
        The node file, the scripts that start and stop BeeOND, and files of targets and services where they are needed.
    """
    start = ["beeond", "start", "-n", NODES, "-d", values.data, "-c", values.mount]
    start += ["-m", str(values.metadata_servers), "-s", str(len(values.nodes)), "-F"]
    start += ["-k", "-j"] if values.mirrored else []
    start += ["-r"] if values.in_memory else []
    # Without -T BeeOND would make a folder for the pool at the root of the mount, and use no other targets elsewhere.
    start += ["-t", TARGETS, "-T"] if values.targets else []
    start += ["-f", values.folder] if values.settings else []
    stop = ["beeond", "stop", "-n", NODES, "-L", "-d"]
    found = [
        EmittedFile(name=NODES, text="".join(f"{node}\n" for node in values.nodes)),
        EmittedFile(name=START, text=f"{_HEAD}{shlex.join(start)}\n"),
        EmittedFile(name=STOP, text=f"{_HEAD}{shlex.join(stop)}\n"),
    ]
    if values.targets:
        found.append(EmittedFile(name=TARGETS, text=f"{_POOL}:{','.join(values.targets)}\n"))
    for service in SERVICES:
        own = [
            (name.partition(".")[2], value) for name, value in values.settings.items() if name.startswith(f"{service}.")
        ]
        if own:
            text = "".join(f"{name} = {value}\n" for name, value in own)
            found.append(EmittedFile(name=_configuration(service), text=text))
    return tuple(found)


def read(emitted: Sequence[EmittedFile]) -> Beeond:
    """Read the files of a start back.

    Raises:
        ProvisioningError: A file is missing, or breaks the rules of BeeOND.
    """
    texts = checks.only(emitted, (NODES, START, STOP), (TARGETS, *map(_configuration, SERVICES)))
    nodes = tuple(texts[NODES].removesuffix("\n").split("\n"))
    options = _options(texts[START], "start", valued="ndcmstf", plain="FkjrT", required="ndcmsF")
    if _options(texts[STOP], "stop", valued="n", plain="Ld", required="nLd")["n"] != NODES or options["n"] != NODES:
        raise _wrong(STOP, "another node file is named")
    if (
        ("t" in options) != (TARGETS in texts)
        or options.get("t", TARGETS) != TARGETS
        or ("t" in options) != ("T" in options)
    ):
        raise _wrong(START, "-t and -T stand for the target file, and one is without the other")
    if ("k" in options) != ("j" in options):
        raise _wrong(START, "-k and -j mirror data and metadata, and one is without the other")
    settings = _settings(texts)
    if bool(settings) != ("f" in options):
        raise _wrong(START, "-f names the folder of the services' files, and one is without the other")
    if options["s"] != str(len(nodes)):
        raise _wrong(START, f"-s is {options['s'][:40]!r}, and there are {len(nodes)} nodes")
    return _checked(
        Beeond(
            nodes=nodes,
            data=options["d"],
            targets=_targets(texts[TARGETS]) if TARGETS in texts else (),
            mount=options["c"],
            metadata_servers=checks.number(options["m"], "-m", 1, len(nodes)),
            mirrored="k" in options,
            in_memory="r" in options,
            folder=options.get("f", ""),
            settings=settings,
        )
    )


def _checked(values: Beeond) -> Beeond:
    """Values that BeeOND accepts."""
    for node in values.nodes:
        checks.host(node, NODES)
    if len(set(values.nodes)) < len(values.nodes):
        raise _wrong(NODES, "a node is there twice")
    for path in (values.data, values.mount, *values.targets, *((values.folder,) if values.settings else ())):
        checks.path(path, "BeeOND")
        if path.startswith("/dev/"):
            raise ProvisioningError(
                f"{path} is no folder, and BeeOND keeps its bytes in folders",
                hint="name the folder at which the device's file system is mounted",
            )
    if any("," in path or ":" in path for path in values.targets) or len(set(values.targets)) < len(values.targets):
        raise _wrong(TARGETS, "a folder is there twice, or has a comma or a colon, which part the folders")
    if values.targets and (len(values.targets) < 2 or values.targets[0] != values.data or values.in_memory):
        raise _wrong(TARGETS, "the first of several folders is that of -d")
    if not 1 <= values.metadata_servers <= len(values.nodes):
        raise _wrong(START, f"{values.metadata_servers} metadata servers need as many nodes")
    if values.mirrored and (len(values.nodes) % 2 or values.metadata_servers % 2):
        raise ProvisioningError(
            f"BeeOND mirrors pairs, and there are {len(values.nodes)} servers, {values.metadata_servers} of metadata",
            hint="use an even number of servers, and of metadata servers",
        )
    for name, value in values.settings.items():
        if not _SETTING.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ProvisioningError(
                f"BeeOND has no setting {name[:80]!r} with the value {value[:80]!r}",
                hint=f"name {METADATA_SERVERS}, or SERVICE.NAME with a service of {', '.join(SERVICES)}",
            )
    return values


def _options(text: str, action: str, *, valued: str, plain: str, required: str) -> dict[str, str]:
    """The options of the command in a script; a plain option has no value."""
    name = START if action == "start" else STOP
    body = text.removeprefix(_HEAD)
    try:
        words = shlex.split(body.removesuffix("\n"))
    except ValueError as error:
        raise _wrong(name, str(error)) from error
    if not text.startswith(_HEAD) or words[:2] != ["beeond", action] or shlex.join(words) + "\n" != body:
        raise _wrong(name, f"it is not one command `beeond {action}`")
    found: dict[str, str] = {}
    rest = iter(words[2:])
    for word in rest:
        option = word[1:]
        if len(word) != 2 or word[0] != "-" or option in found or option not in valued + plain:
            raise _wrong(name, f"{word[:40]!r} is no option of `beeond {action}`, or is there twice")
        found[option] = next(rest, "") if option in valued else ""
        if option in valued and not found[option]:
            raise _wrong(name, f"{word} needs a value")
    if missing := set(required) - found.keys():
        raise _wrong(name, f"{', '.join(f'-{option}' for option in sorted(missing))} is missing")
    return found


def _targets(text: str) -> tuple[str, ...]:
    line = text.removesuffix("\n")
    pool, colon, paths = line.partition(":")
    if pool != _POOL or not colon or "\n" in line:
        raise _wrong(TARGETS, f"it is not one line `{_POOL}:FOLDER,FOLDER`")
    return tuple(paths.split(","))


def _settings(texts: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for service in SERVICES:
        name = _configuration(service)
        for number, line in enumerate(texts.get(name, "").removesuffix("\n").split("\n"), start=1):
            if name not in texts:
                continue
            key, equals, value = line.partition(" = ")
            if not equals or f"{service}.{key}" in found:
                raise _wrong(name, f"line {number} is not `NAME = VALUE`, or repeats a name")
            found[f"{service}.{key}"] = value
    return found


def _configuration(service: str) -> str:
    return f"beegfs-{service}.conf"


def _wrong(name: str, message: str) -> ProvisioningError:
    return ProvisioningError(f"{name}: {message}", hint="`weir plan emit` writes the files anew")
