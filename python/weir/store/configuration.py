"""The configuration of a store: the document of its cluster.toml.

It is made of a file, of given settings, which beat the file, and of defaults, which fill the rest. A setting
(`settings.py`) is one named value of it.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.store import settings
from weir.store.errors import SettingsError, StoreError
from weir.store.settings import Setting

FILE_VERSION = 1
"""`version` of a cluster.toml."""
DECIDED = "decided_milliseconds"
"""Key of the moment at which policy, scheduler and allocator were decided: a running store's later decisions count."""
_HEADLINE = "# Written by `weir up`: the file, flags and environment it was given, with defaults.\n"
_CHECK_SECONDS = 60.0
"""Longest time of `weir-server --check`, which reads one small file, on a busy machine."""


@dataclass
class Configuration:
    """The document of a cluster.toml.

    Attributes:
        document: The document, as TOML's tables.
        origins: Origin of each setting by its name: `flag`, `environment`, `argument`, `default`, or the file's path.
    """

    document: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> list[dict[str, Any]]:
        """The `[[server]]` tables."""
        tables: list[dict[str, Any]] = self.document["server"]
        return tables

    @property
    def policy(self) -> str:
        """Policy that the servers start with."""
        return str(self.document["policy"])

    @property
    def scheduler(self) -> str | None:
        """Named scheduler; None where none is named, so that the policy's default counts."""
        named = self.document.get("scheduler")
        return None if named is None else str(named)

    def targets(self) -> list[dict[str, Any]]:
        """List the targets of all servers.

        Returns:
            Their tables, in the order of servers and targets.
        """
        return [target for server in self.servers for target in server["target"]]

    def keeps_bytes(self) -> bool:
        """Decide whether any target outlives its server.

        Returns:
            Whether there is a `dir` target.
        """
        return any(target.get("backend") == "dir" for target in self.targets())

    def shape(self) -> list[list[tuple[str, str]]]:
        """Describe the part that must not change while a store holds files.

        Returns:
            For each server the backend and the path of each target; the path is empty where none is named.
        """
        return [
            [(str(target.get("backend")), str(target.get("path", ""))) for target in server["target"]]
            for server in self.servers
        ]

    def text(self) -> str:
        """Write the document.

        Returns:
            The document as TOML, below a comment.
        """
        import tomli_w

        return _HEADLINE + tomli_w.dumps(self.document)


def resolve(file: Path | None, given: Mapping[str, object], origin: Callable[[str], str]) -> Configuration:
    """Put given settings over the file, and defaults below it.

    Args:
        file: A cluster.toml; None is the embedded store.
        given: Values by the name of the setting; None where a setting is not given.
        origin: Called with the name of a given setting; tells its origin, such as `flag`.

    Returns:
        The configuration, with the origin of each setting. Its values are not checked.

    Raises:
        StoreError: The file cannot be read, or given settings and file contradict each other.
    """
    document = read_toml(file) if file else {}
    source = str(file) if file else ""
    document.setdefault("version", FILE_VERSION)
    chosen = _Chosen(given, origin)
    if "server" not in document or _tables(document, "server"):
        _make_servers(document, chosen, source)
    if not is_shaped(document):
        return Configuration(document, chosen.origins)
    chosen.put(settings.POLICY, [document], "policy", source)
    chosen.put(settings.SCHEDULER, [document], "scheduler", source)
    chosen.put(settings.LAMBDA_MILLISECONDS, [document], "lambda_milliseconds", source)
    chosen.put(settings.PORTS, [document], "ports", source)
    if isinstance(document.setdefault("layout", {}), dict):
        chosen.put(settings.ALLOCATOR, [document["layout"]], "allocator", source)
    targets = [target for server in document["server"] for target in server["target"]]
    chosen.put(settings.BACKEND, targets, "backend", source)
    chosen.put(settings.CAPACITY, [t for t in targets if t["backend"] == "ram"], "capacity", source)
    if chosen.is_given(settings.CAPACITY):
        chosen.put(settings.CAPACITY, targets, "capacity", source)
    for setting, key in (
        (settings.READ_SPEED, "read"),
        (settings.WRITE_SPEED, "write"),
        (settings.FIXED_TIME, "fixed"),
    ):
        chosen.put_nested(setting, targets, "speed", key, source)
    chosen.put_nested(settings.METADATA_TIME, document["server"], "metadata_speed", "fixed", source)
    _anchor_paths(targets, file)
    return Configuration(document, chosen.origins)


def check_sharing(policy: str, scheduler: str | None = None, place: str = "") -> tuple[str, str]:
    """Find the canonical names of a policy and its scheduler.

    Args:
        scheduler: Name of the scheduler; None is the policy's default.
        place: Place of the names in a file, for the error; empty where there is none.

    Raises:
        SettingsError: There is no such policy or scheduler, or they do not go together.
    """
    from weir import _core

    try:
        return _core.parse_sharing(policy, scheduler)
    except ValueError as error:
        message = f"{place}: {error}" if place else str(error)
        hint = "the default policy is size-fair, and its scheduler virtual-time"
        raise SettingsError(message, hint=hint) from error


def check(configuration: Configuration, file: Path | None) -> None:
    """Have the server check a configuration, so that there is one judge of it.

    Args:
        file: Origin of the configuration, for the error; None where it has no file.

    Raises:
        SettingsError: The server refuses the configuration; the error names the line of the file where the fault is
            there.
        StoreError: The server does not answer in time.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as resolved:
        resolved.write(configuration.text())
        resolved.flush()
        refusal = _refusal(Path(resolved.name))
        if refusal is None:
            return
        message = _without_line(refusal[0]).replace(resolved.name, str(file or "the flags"))
    if file is not None:
        original = _refusal(file)
        if original is not None and _without_line(original[0]) == message:
            message = original[0]
    raise SettingsError(message, hint=refusal[1] or "see docs/reference/configuration.md")


def _refusal(path: Path) -> tuple[str, str] | None:
    """Message and hint with which the server refuses a file, or None where it accepts it."""
    import subprocess

    from weir import native
    from weir.store.processes import error_in

    program = native.server_program()
    command = [str(program), "--config", str(path), "--check"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_CHECK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StoreError(f"`{program} --check` did not answer in {_CHECK_SECONDS:.0f} s") from None
    if answer.returncode == 0:
        return None
    lines = [line.strip() for line in answer.stderr.splitlines()]
    return error_in(lines) or (answer.stderr.strip() or f"`{program} --check` gave {answer.returncode}", "")


def _without_line(message: str) -> str:
    """A message without the number of its line, which is the line of another file than the user's."""
    return re.sub(r"\bline \d+: ", "", message, count=1)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Returns:
        The document.

    Raises:
        SettingsError: The file is not there, cannot be read, or is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not TOML: {error}", hint="see docs/reference/configuration.md") from error
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}", hint="is the path right?") from error


class _Chosen:
    """Puts given values into tables, and remembers the origin of each setting."""

    def __init__(self, given: Mapping[str, object], origin: Callable[[str], str]) -> None:
        self._given = given
        self._origin = origin
        self.origins: dict[str, str] = {}

    def is_given(self, setting: Setting) -> bool:
        return self._given.get(setting.name) is not None

    def value(self, setting: Setting) -> str:
        """The given value, else the default."""
        if self.is_given(setting):
            self.origins[setting.name] = self._origin(setting.name)
            return str(self._given[setting.name])
        self.origins.setdefault(setting.name, "default")
        return setting.default

    def put(self, setting: Setting, tables: list[dict[str, Any]], key: str, source: str) -> None:
        """Set `key` of each table to the given value; without one, set it to the default where the table lacks it."""
        given = self.is_given(setting)
        if not given and any(key in table for table in tables):
            self.origins[setting.name] = source
        value = int(self.value(setting)) if setting.bounds else self.value(setting)
        for table in tables:
            if given or (key not in table and value):
                table[key] = value

    def put_nested(self, setting: Setting, tables: list[dict[str, Any]], outer: str, key: str, source: str) -> None:
        """Do as `put`, for a key inside the table `outer` of each table, which is made where it is needed."""
        if self.is_given(setting):
            self.put(setting, [table.setdefault(outer, {}) for table in tables], key, source)
        else:
            self.put(setting, [table[outer] for table in tables if outer in table], key, source)


def _make_servers(document: dict[str, Any], chosen: _Chosen, source: str) -> None:
    """Fill in servers and targets where the file lists none."""
    if "server" in document:
        for setting in (settings.SERVERS, settings.TARGETS):
            if chosen.is_given(setting) and (setting is settings.SERVERS or _all_have_targets(document)):
                raise SettingsError(
                    f"{source} lists its own {setting.name}, so `{setting.name}` cannot choose them",
                    hint=f"leave out `{setting.name}` (and {setting.environment}), or the tables in the file",
                )
        chosen.origins[settings.SERVERS.name] = source
    else:
        document["server"] = [{} for _ in range(int(chosen.value(settings.SERVERS)))]
    if _all_have_targets(document):
        chosen.origins[settings.TARGETS.name] = source
        return
    count = int(chosen.value(settings.TARGETS))
    for server in document["server"]:
        if "target" not in server:
            server["target"] = [{} for _ in range(count)]


def _all_have_targets(document: dict[str, Any]) -> bool:
    return all("target" in server for server in document["server"])


def is_shaped(document: dict[str, Any]) -> bool:
    """Decide whether servers and targets are tables; a document of another shape is left to the server to refuse.

    Args:
        document: Document of a cluster.toml.

    Returns:
        Whether each server is a table, and each of its targets.
    """
    return _tables(document, "server") and all(_tables(server, "target") for server in document["server"])


def _tables(table: dict[str, Any], key: str) -> bool:
    """Whether `key` is an array of tables that is not empty; anything else is left to the server to refuse."""
    value = table.get(key)
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _anchor_paths(targets: list[dict[str, Any]], file: Path | None) -> None:
    """Make relative paths of targets absolute: they begin at the folder of the file that names them."""
    for target in targets:
        if file and isinstance(target.get("path"), str):
            target["path"] = os.path.normpath(file.absolute().parent / target["path"])
