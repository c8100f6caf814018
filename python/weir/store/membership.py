"""Targets that join and leave a store while it runs, and its configuration that follows.

A target that joins is written into the configuration first, and one that leaves afterwards: a command that dies in
between is completed by the same command, and until then a server that starts opens every target that may have files.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any, Protocol

from weir.store.answers import Status, WantedSpeed, WantedTarget
from weir.store.control import Server, ask_all
from weir.store.decoding import decode, encode, key_of
from weir.store.errors import NotYetError, SilentServerError, StoreError
from weir.store.notices import Notice

RETIRING, RETIRED = "retiring", "retired"


class ConfigurationFile(Protocol):
    """The configuration of a store, wherever its copies are."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other commands from the file.

        Returns:
            The time for which the file is this command's.
        """

    def read(self) -> dict[str, Any]:
        """Read the document."""

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document, on every host that has a copy.

        Args:
            document: The new document.
        """


def add_target(file: ConfigurationFile, server: Server, wanted: WantedTarget) -> str:
    """Add a target to a server that runs, and to the configuration.

    Returns:
        Name of the target.

    Raises:
        StoreError: The server refuses, and nothing was changed; or it does not answer: called again, this goes on.
    """
    table = table_of(wanted)
    with file.locked():
        state = server.status()
        check_backends([state], [wanted])
        number = state.target_numbers
        name = f"{server.number}.{number}"
        document = file.read()
        tables = _tables(document, server.number)
        if len(tables) < number:
            raise StoreError(
                f"the configuration has {len(tables)} targets of server {server.number}, which had {number} so far",
                hint="bring the configuration back from a copy; `weir config diff` compares",
            )
        before = list(tables)
        # A command that died may have left the table of a target that was not opened.
        tables[number:] = [table]
        file.write(document)
        try:
            server.add_target(name, wanted)
        except SilentServerError:
            raise
        except StoreError:
            tables[:] = before[:number]
            file.write(document)
            raise
    return name


def next_server(states: "Sequence[Status | StoreError]") -> int:
    """Find the number of the server that joins next.

    Args:
        states: States of all servers of the store.

    Raises:
        StoreError: A server does not answer, or knows of fewer servers than another.
    """
    for state in states:
        if isinstance(state, StoreError):
            raise StoreError(
                f"a server joins when all others answer: {state.message}", hint=state.hint or "see `weir status`"
            )
    numbers = {state.servers for state in states if isinstance(state, Status)}
    if len(numbers) != 1:
        raise NotYetError("the servers do not all know yet of the last one that joined", hint="try again in a moment")
    return numbers.pop()


def check_backends(states: "Sequence[Status | StoreError]", targets: Sequence[WantedTarget]) -> None:
    """Refuse targets in memory in a store that keeps its files.

    A server that started by a configuration with such a target would take the store for one that keeps nothing.

    Args:
        states: States of servers of the store.
        targets: The targets that are to join.

    Raises:
        StoreError: A target is in memory, and the store keeps its files.
    """
    keeps = any(isinstance(state, Status) and state.durable for state in states)
    if keeps and any(target.backend == "ram" for target in targets):
        raise StoreError(
            "a ram target keeps nothing over a restart, and this store keeps its files",
            hint="choose the backend dir",
        )


def unkept_notice(states: "Sequence[Status | StoreError]", targets: Sequence[WantedTarget]) -> Notice | None:
    """Warn of targets on directories in a store that keeps no names.

    Args:
        states: States of servers of the store.
        targets: The targets that are to join.

    Returns:
        The warning; None where the store keeps its files, or no target is on a directory.
    """
    keeps = any(isinstance(state, Status) and state.durable for state in states)
    if keeps or all(target.backend == "ram" for target in targets):
        return None
    return Notice(
        "this store has targets in memory and keeps no names, so the bytes on its dir targets are lost with it, too",
        hint="objects move between targets of one backend only, so the last dir target cannot leave while it has some",
    )


def check_version(states: "Sequence[Status | StoreError]", version: str) -> None:
    """Refuse to have a server of another version join.

    Args:
        version: Version of the new server.

    Raises:
        StoreError: A server has another version.
    """
    for state in states:
        if isinstance(state, Status) and state.version != version:
            raise StoreError(
                f"server {state.server} is of version {state.version}, and the new one would be of {version}",
                hint="`weir upgrade` brings the servers to the version that is installed",
            )


def begin_retirement(file: ConfigurationFile, server: Server, target: str) -> bool:
    """Close a target for new files.

    Args:
        server: The target's server.
        target: Name of the target.

    Returns:
        Whether the target is still there; a target that has retired before is only written down.

    Raises:
        StoreError: The server refuses, or has no such target; nothing was changed.
    """
    state = server.status()
    if target in {known.target for known in state.targets}:
        server.set_target_state(target, RETIRING)
        _write_state(file, target, RETIRING)
        return True
    if 0 <= _index(target) < state.target_numbers:
        _write_state(file, target, RETIRED)
        return False
    raise StoreError(f"the store has no target {target}", hint="`weir targets` lists them")


def reopen(file: ConfigurationFile, server: Server, target: str) -> None:
    """Let a retiring target take new files again.

    Args:
        server: The target's server.
        target: Name of the target.

    Raises:
        StoreError: The server refuses, for instance because the target has retired.
    """
    server.set_target_state(target, "open")
    _write_state(file, target, None)


def begin_server(file: ConfigurationFile, server: Server) -> list[str]:
    """Close a server and all of its targets for new files and trees.

    Returns:
        Names of its targets that have not left yet.

    Raises:
        StoreError: The server refuses or does not answer; nothing was changed.
    """
    if server.status().state != RETIRED:
        server.set_state(RETIRING)
    _write_server(file, server)
    return [target.target for target in server.status().targets]


def reopen_server(file: ConfigurationFile, server: Server) -> None:
    """Let a server that retires take files and trees again, on those of its targets that have not left.

    Raises:
        StoreError: The server refuses, for instance because it has retired.
    """
    server.set_state("open")
    _write_server(file, server)


def end_server(file: ConfigurationFile, server: Server) -> None:
    """Let a server without targets have retired.

    Raises:
        StoreError: The server refuses or does not answer.
    """
    server.set_state(RETIRED)
    _write_server(file, server)


def objects_left(servers: Sequence[Server], target: str) -> int | StoreError:
    """Count the objects on a target that retires.

    Args:
        servers: All servers of the store.
        target: Name of the target.

    Returns:
        The sum over all homes of files; an error where a home does not answer, or does not know yet.
    """
    objects = 0
    for server, answer in zip(servers, ask_all(servers, Server.status), strict=True):
        if isinstance(answer, StoreError):
            return answer
        known = _leaving(answer, target)
        if known is None:
            return NotYetError(f"server {server.number} does not know yet that {target} retires")
        objects += known
    return objects


def end_retirement(file: ConfigurationFile, server: Server, target: str) -> None:
    """Let a target leave that has no objects any more.

    Args:
        server: The target's server.
        target: Name of the target.

    Raises:
        NotYetError: A home has objects there, or a request is under way.
        StoreError: The server refuses or does not answer.
    """
    server.set_target_state(target, RETIRED)
    _write_state(file, target, RETIRED)


def _leaving(state: Status, target: str) -> int | None:
    return next((leaving.objects for leaving in state.leaving if leaving.target == target), None)


def _write_state(file: ConfigurationFile, target: str, state: str | None) -> None:
    def change(table: dict[str, Any]) -> None:
        table.pop("state", None)
        if state is not None:
            table["state"] = state

    _change_table(file, target, change)


def _write_server(file: ConfigurationFile, server: Server) -> None:
    """Write the states of a server and of its targets down, as the server tells them."""
    state = server.status()
    known = {target.target: target.state for target in state.targets}
    with file.locked():
        document = file.read()
        tables = _tables(document, server.number)
        own = document["server"][server.number]
        named = [(f"{server.number}.{index}", table) for index, table in enumerate(tables)]
        for table, wanted in [(own, state.state), *((table, known.get(name, RETIRED)) for name, table in named)]:
            table.pop("state", None)
            if wanted != "open":
                table["state"] = wanted
        file.write(document)


def _change_table(file: ConfigurationFile, target: str, change: Callable[[dict[str, Any]], None]) -> None:
    with file.locked():
        document = file.read()
        tables = _tables(document, int(target.partition(".")[0]))
        index = _index(target)
        if not index < len(tables):
            raise StoreError(
                f"the configuration has no target {target}",
                hint="bring it back from a copy; `weir config diff` compares",
            )
        change(tables[index])
        file.write(document)


def _tables(document: dict[str, Any], server: int) -> list[dict[str, Any]]:
    """The tables of a server's targets in the document."""
    try:
        tables: list[dict[str, Any]] = document["server"][server]["target"]
    except (KeyError, IndexError, TypeError) as error:
        raise StoreError(f"the configuration has no targets of server {server}") from error
    return tables


def table_of(wanted: WantedTarget) -> dict[str, Any]:
    """Make the table of a target, as it stands in cluster.toml."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items() if item is not None}
        return value

    table: dict[str, Any] = filled(encode(wanted))
    return table


def wanted_of(tables: Sequence[dict[str, Any]]) -> tuple[WantedTarget, ...]:
    """Read the tables of targets that `table_of` made."""
    targets = []
    for table in tables:
        speed = table.get("speed")
        whole = {**dict.fromkeys(map(key_of, fields(WantedTarget))), **table}
        if speed is not None:
            whole["speed"] = {**dict.fromkeys(map(key_of, fields(WantedSpeed))), **speed}
        targets.append(decode(WantedTarget, whole, place="the target"))
    return tuple(targets)


def model_targets(document: dict[str, Any]) -> tuple[WantedTarget, ...]:
    """Find the targets that those of a new server are to be like.

    Args:
        document: The store's configuration.

    Returns:
        Backend and capacity of each target of the first server that has targets which have not retired; none where no
        server has any.
    """
    for server in document["server"]:
        tables = [table for table in server["target"] if table.get("state") != RETIRED]
        if tables:
            return tuple(WantedTarget(table["backend"], table.get("capacity")) for table in tables)
    return ()


def _index(target: str) -> int:
    """The number of a target on its server; -1 where the name has none."""
    _, _, index = target.partition(".")
    return int(index) if index.isascii() and index.isdecimal() else -1
