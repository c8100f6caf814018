"""Settings that a store has from its beginning, or from its start, and so does not take later."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weir.store import settings
from weir.store.configuration import check_sharing, resolve
from weir.store.settings import Setting


def unlike(file: Path, given: Mapping[str, object], origin: Callable[[str], str]) -> list[str]:
    """Find the given settings that a store has otherwise.

    Args:
        file: The store's configuration.
        given: Values by the name of the setting; None where a setting is not given.
        origin: Called with the name of a given setting; tells its origin, such as `flag`.

    Returns:
        The settings with their values: variables of the environment as they are set, arguments by their names.

    Raises:
        StoreError: The configuration cannot be read.
    """
    present = resolve(file, {}, origin).document
    wanted = [(setting, given.get(setting.name)) for setting in settings.STORE]
    return [
        f"`{setting.name}` {value}" if origin(setting.name) == "flag" else f"{setting.environment}={value}"
        for setting, value in wanted
        if value is not None and not _has(file, present, setting, value, origin)
    ]


def _has(file: Path, present: dict[str, Any], setting: Setting, value: object, origin: Callable[[str], str]) -> bool:
    """Whether a configuration has a setting with a value."""
    if setting is settings.SERVERS:
        return len(present["server"]) == value
    if setting is settings.TARGETS:
        return all(len(server["target"]) == value for server in present["server"])
    if setting in (settings.POLICY, settings.SCHEDULER):
        policy, scheduler = check_sharing(str(present["policy"]), present.get("scheduler"))
        return scheduler == value if setting is settings.SCHEDULER else policy == check_sharing(str(value))[0]
    return resolve(file, {setting.name: value}, origin).document == present
