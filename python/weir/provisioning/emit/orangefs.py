"""OrangeFS's configuration file, which all of its servers read (docs.orangefs.com, "OrangeFS configuration file")."""

import itertools
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import checks
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.emit.system_semantics import most
from weir.provisioning.errors import ProvisioningError

FILE = "orangefs.conf"
PORT = 3334
"""Port of a node's first server, as in pvfs2-genconfig; the next servers of the node have the next ports."""
_PORT_MAX = 65535
_INT_MAX = 2**31 - 1
_HANDLES = (3, 2**62, 2**63 - 1)
"""First handle of metadata, first handle of data, and the end of both: 0 to 2 are kept by OrangeFS."""
_ROOT_HANDLE = 1048576
_YES_NO = ("yes", "no")
_METHODS = ("alt-aio", "dbpf", "directio", "null-aio")
SETTINGS: Mapping[str, tuple[str, int | Sequence[str]]] = {
    "UnexpectedRequests": ("Defaults", 1),
    "TroveMaxConcurrentIO": ("Defaults", 1),
    "TCPBufferSend": ("Defaults", 0),
    "TCPBufferReceive": ("Defaults", 0),
    "TCPBindSpecific": ("Defaults", _YES_NO),
    "FileStuffing": ("FileSystem", _YES_NO),
    "FlowBufferSizeBytes": ("FileSystem", 1),
    "FlowBuffersPerFlow": ("FileSystem", 1),
    "DefaultNumDFiles": ("FileSystem", 0),
    "TroveSyncMeta": ("StorageHints", _YES_NO),
    "TroveSyncData": ("StorageHints", _YES_NO),
    "TroveMethod": ("StorageHints", _METHODS),
}
"""Settings that can be emitted: their context, and the least value of a number or the allowed words."""
_FIXED = {
    "Defaults": {"LogStamp": "datetime", "BMIModules": "bmi_tcp", "FlowModules": "flowproto_multiqueue"},
    "FileSystem": {"RootHandle": str(_ROOT_HANDLE)},
}
"""Options that every file has."""
_CONTEXTS = {
    "": ("Defaults", "Aliases", "ServerOptions", "FileSystem"),
    "FileSystem": ("MetaHandleRanges", "DataHandleRanges", "StorageHints"),
}
"""Contexts inside each context."""


class OrangefsServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server process, which has one folder for data."""

    alias: str
    host: str
    port: int
    data: str
    metadata: str
    log: str


class Orangefs(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a configuration file."""

    name: str
    """Name of the file system."""
    servers: tuple[OrangefsServer, ...]
    settings: dict[str, str] = {}


class _Context(msgspec.Struct, kw_only=True):
    """A context of the file: options in their order, and contexts inside it."""

    name: str
    line: int
    options: list[tuple[int, str, str]] = []
    inner: list["_Context"] = []


def of(deployment: Deployment) -> Orangefs:
    """Take the values of a configuration from a deployment: one server process for each device.

    Raises:
        ProvisioningError: OrangeFS cannot be deployed so.
    """
    checks.check(deployment, "OrangeFS", most("orangefs", servers=len(deployment.servers)))
    ports: dict[str, Iterator[int]] = {}
    servers = []
    for server in deployment.servers:
        if not server.devices:
            raise ProvisioningError(
                f"OrangeFS keeps its bytes in folders, and {server.node} has targets in memory",
                hint="name a folder of a tmpfs as the device",
            )
        for device in server.devices:
            _folder(device, server.node)
            port = next(ports.setdefault(server.node, itertools.count(PORT)))
            root = f"{device.rstrip('/')}/{deployment.name}"
            servers.append(
                OrangefsServer(
                    alias=f"{server.node}-{port - PORT}",
                    host=server.node,
                    port=port,
                    data=f"{root}/data",
                    metadata=f"{root}/meta",
                    log=f"{root}/server.log",
                )
            )
    return _checked(Orangefs(name=deployment.name, servers=tuple(servers), settings=dict(deployment.system.settings)))


def files(values: Orangefs) -> tuple[EmittedFile, ...]:
    """Write the configuration file."""
    lines = [f"# Each server starts with `pvfs2-server {FILE} -a ALIAS`, and once before with -f."]
    lines += _written("Defaults", [*_FIXED["Defaults"].items(), *_of_context("Defaults", values.settings)])
    lines += _written("Aliases", (("Alias", f"{each.alias} tcp://{each.host}:{each.port}") for each in values.servers))
    for each in values.servers:
        own = (("Server", each.alias), ("DataStorageSpace", each.data), ("MetadataStorageSpace", each.metadata))
        lines += _written("ServerOptions", (*own, ("LogFile", each.log)))
    inner: list[str] = []
    for context, (first, end) in (("MetaHandleRanges", _HANDLES[:2]), ("DataHandleRanges", _HANDLES[1:])):
        aliases = [each.alias for each in values.servers]
        inner += _written(context, zip(itertools.repeat("Range"), _ranges(aliases, first, end)))
    inner += _written("StorageHints", _of_context("StorageHints", values.settings))
    named = (("Name", values.name), ("ID", str(identifier(values.name))))
    options = (*named, *_FIXED["FileSystem"].items(), *_of_context("FileSystem", values.settings))
    lines += _written("FileSystem", options, inner)
    return (EmittedFile(name=FILE, text="\n".join(lines) + "\n"),)


def read(emitted: Sequence[EmittedFile]) -> Orangefs:
    """Read a configuration file back.

    Raises:
        ProvisioningError: The file breaks OrangeFS's grammar, has options that are never emitted, or contradicts
            itself; the error names the line.
    """
    root = _parsed(checks.only(emitted, (FILE,))[FILE])
    if [each.name for each in root.inner if each.name != "ServerOptions"] != ["Defaults", "Aliases", "FileSystem"]:
        raise _wrong(root.line, "the contexts are not Defaults, Aliases, ServerOptions and FileSystem, in this order")
    defaults, aliases, system = (each for each in root.inner if each.name != "ServerOptions")
    inner = {each.name: each for each in system.inner}
    if len(inner) < 3 or len(system.inner) > 3:
        raise _wrong(system.line, "FileSystem needs MetaHandleRanges, DataHandleRanges and StorageHints, each once")
    settings: dict[str, str] = {}
    for context in (defaults, system, inner["StorageHints"]):
        own = {"Name", "ID"} if context is system else set()
        settings |= _settings_in(context, own)
    name = _option(system, "Name")
    if _option(system, "ID") != str(identifier(name)):
        raise _wrong(system.line, f"the ID is not that of the name {name[:80]!r}")
    servers = tuple(_servers(aliases, [each for each in root.inner if each.name == "ServerOptions"]))
    found = _checked(Orangefs(name=name, servers=servers, settings=settings))
    for context_name, (first, end) in (("MetaHandleRanges", _HANDLES[:2]), ("DataHandleRanges", _HANDLES[1:])):
        wanted = [("Range", text) for text in _ranges([each.alias for each in servers], first, end)]
        if [(option, value) for _, option, value in inner[context_name].options] != wanted:
            raise _wrong(inner[context_name].line, f"{context_name} does not divide the handles among the aliases")
    return found


def identifier(name: str) -> int:
    """Choose the number of a file system, which servers of several file systems tell them apart by.

    Returns:
        A number from 1 to 2**31 - 1, always the same for a name.
    """
    return zlib.crc32(name.encode()) % _INT_MAX + 1


def _checked(values: Orangefs) -> Orangefs:
    """Values that OrangeFS accepts."""
    checks.known(values.settings, tuple(SETTINGS), "OrangeFS")
    for name, value in values.settings.items():
        allowed = SETTINGS[name][1]
        if isinstance(allowed, int):
            checks.number(value, name, allowed, _INT_MAX)
        elif value not in allowed:
            raise ProvisioningError(f"{name} is {value[:80]!r}", hint=f"give {' or '.join(allowed)}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}", values.name):
        raise ProvisioningError(
            f"the file system's name {values.name[:80]!r} is no word", hint="use letters and digits"
        )
    used: set[tuple[str, int] | str] = set()
    for each in values.servers:
        checks.host(each.host, each.alias)
        for path in (each.data, each.metadata, each.log):
            checks.path(path, each.alias)
        keys: set[tuple[str, int] | str] = {
            (each.host, each.port),
            f"{each.host}:{each.data}",
            f"{each.host}:{each.metadata}",
            each.alias,
        }
        if used & keys or len(keys) < 4 or not 1 <= each.port <= _PORT_MAX:
            raise ProvisioningError(f"{each.alias} shares its name, port or folder with another server")
        used |= keys
    if not values.servers:
        raise ProvisioningError("a file system without servers cannot be", hint="name a server")
    return values


def _folder(device: str, node: str) -> None:
    if device.startswith("/dev/") and not device.startswith("/dev/shm/"):
        raise ProvisioningError(
            f"{device} on {node} is a block device, and OrangeFS keeps its bytes in folders",
            hint="name the folder at which the device's file system is mounted",
        )


def _of_context(context: str, settings: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in settings.items() if SETTINGS[name][0] == context]


def _written(context: str, options: Iterable[tuple[str, str]], inner: Sequence[str] = ()) -> list[str]:
    body = [*(f"{name} {value}" for name, value in options), *inner]
    return [f"<{context}>", *(f"    {line}" for line in body), f"</{context}>"]


def _ranges(aliases: Sequence[str], first: int, end: int) -> list[str]:
    """Equal ranges of handles for each server; the bounds of a range belong to it."""
    step = (end - first) // len(aliases)
    return [f"{alias} {first + place * step}-{first + (place + 1) * step - 1}" for place, alias in enumerate(aliases)]


def _parsed(text: str) -> _Context:
    """The contexts of a file, nested as they may be."""
    stack = [_Context(name="", line=1, options=[], inner=[])]
    for line, written in enumerate(text.split("\n"), start=1):
        content = written.strip(" \t\r")
        if not content or content.startswith("#"):
            continue
        here = stack[-1]
        if tag := re.fullmatch(r"<(/?)([A-Za-z]+)>", content):
            if not tag[1]:
                if tag[2] not in _CONTEXTS.get(here.name, ()):
                    raise _wrong(line, f"the context {tag[2][:40]} cannot stand in {here.name or 'the file'}")
                stack.append(_Context(name=tag[2], line=line, options=[], inner=[]))
                here.inner.append(stack[-1])
            elif tag[2] == here.name:
                stack.pop()
            else:
                raise _wrong(line, f"</{tag[2][:40]}> ends no context that is open")
            continue
        option = re.fullmatch(r"([A-Za-z]+)[ \t]+(\S.*)", content)
        if option is None or not here.name:
            raise _wrong(line, f"{content[:80]!r} is no option in a context")
        here.options.append((line, option[1], option[2]))
    if len(stack) > 1:
        raise _wrong(stack[-1].line, f"the context {stack[-1].name} has no end")
    return stack[0]


def _settings_in(context: _Context, own: set[str]) -> dict[str, str]:
    """The settings of a context, beside the options that every file has."""
    fixed = _FIXED.get(context.name, {})
    found: dict[str, str] = {}
    for line, name, value in context.options:
        if name in own:
            continue
        if name in found or (name in fixed and fixed[name] != value):
            raise _wrong(line, f"{name} is there twice, or has another value than {fixed.get(name)}")
        if name not in fixed and SETTINGS.get(name, ("",))[0] != context.name:
            raise _wrong(line, f"{context.name} has no option {name[:40]}")
        found[name] = value
    if fixed.keys() - found.keys():
        raise _wrong(context.line, f"{context.name} lacks {', '.join(fixed.keys() - found.keys())}")
    return {name: value for name, value in found.items() if name not in fixed}


def _servers(aliases: _Context, options: Sequence[_Context]) -> Iterator[OrangefsServer]:
    if len(aliases.options) != len(options):
        raise _wrong(aliases.line, f"{len(aliases.options)} aliases have {len(options)} ServerOptions")
    for (line, option, value), context in zip(aliases.options, options, strict=True):
        alias = re.fullmatch(r"(\S+)[ \t]+tcp://([^\s:/]+):([0-9]{1,5})", value)
        if option != "Alias" or alias is None:
            raise _wrong(line, "an alias is written `Alias NAME tcp://HOST:PORT`")
        names = sorted(name for _, name, _ in context.options)
        if names != ["DataStorageSpace", "LogFile", "MetadataStorageSpace", "Server"]:
            raise _wrong(context.line, "ServerOptions has other options than a server's folders and log")
        if _option(context, "Server") != alias[1]:
            raise _wrong(context.line, f"ServerOptions of {alias[1][:80]} are those of another server")
        yield OrangefsServer(
            alias=alias[1],
            host=alias[2],
            port=int(alias[3]),
            data=_option(context, "DataStorageSpace"),
            metadata=_option(context, "MetadataStorageSpace"),
            log=_option(context, "LogFile"),
        )


def _option(context: _Context, name: str) -> str:
    found = [value for _, option, value in context.options if option == name]
    if len(found) != 1:
        raise _wrong(context.line, f"{context.name} needs {name} once")
    return found[0]


def _wrong(line: int, message: str) -> ProvisioningError:
    return ProvisioningError(f"{FILE}, line {line}: {message}", hint="`weir plan emit` writes the file anew")
