"""The differences between a configuration and the store that runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weir import _core
from weir.store.answers import Speed, Status
from weir.store.configuration import Configuration, check_sharing
from weir.store.errors import SettingsError

_RATE_ROUNDING = 1e-6
"""Relative difference up to which two speeds are the same: servers tell whole bytes a second."""


@dataclass(frozen=True)
class Difference:
    """One setting whose value in the file is not the one in force.

    Attributes:
        setting: Name of the setting, with the server or target that it is of.
        configured: Value in the file, in words.
        running: Value in force, in words.
    """

    setting: str
    configured: str
    running: str


def differences(configuration: Configuration, states: Sequence[Status]) -> list[Difference]:
    """Compare a configuration with a running store.

    Args:
        states: States of the servers that answer, by number.

    Returns:
        The differences: of the policy, scheduler and allocator, of the servers, and of each target's state, kind,
        capacity and emulated speed.

    Raises:
        SettingsError: The file's policy or scheduler does not exist, or a size or speed cannot be read.
    """
    found = []
    policy, scheduler = check_sharing(configuration.policy, configuration.scheduler)
    allocator = str(configuration.document.get("layout", {}).get("allocator") or "balanced")
    for name, wanted, running in (
        ("policy", policy, [state.policy for state in states]),
        ("scheduler", scheduler, [state.scheduler for state in states]),
        ("allocator", allocator, [state.allocator for state in states]),
    ):
        present = sorted(set(running))
        if present != [wanted]:
            found.append(Difference(name, wanted, " and ".join(present)))
    by_number = {state.server: state for state in states}
    for number, table in enumerate(configuration.servers):
        state = by_number.pop(number, None)
        if state is not None:
            found += _of_server(number, table, state)
    found += [Difference(f"server {number}", "none", "runs") for number in sorted(by_number)]
    return found


def _of_server(number: int, table: dict[str, Any], state: Status) -> list[Difference]:
    found = []
    if str(table.get("state", "open")) != state.state:
        found.append(Difference(f"state of server {number}", str(table.get("state", "open")), state.state))
    if len(table["target"]) != state.target_numbers:
        found.append(Difference(f"targets of server {number}", str(len(table["target"])), str(state.target_numbers)))
    if speed := _speed_difference(table.get("metadata_speed"), state.metadata.speed):
        found.append(Difference(f"metadata speed of server {number}", *speed))
    by_name = {target.target: target for target in state.targets}
    for index, wanted in enumerate(table["target"][: state.target_numbers]):
        name, wanted_state = f"{number}.{index}", str(wanted.get("state", "open"))
        running = by_name.get(name)
        running_state = "retired" if running is None else running.state
        if wanted_state != running_state:
            found.append(Difference(f"state of {name}", wanted_state, running_state))
        if running is None:
            continue
        if wanted.get("backend") != running.backend:
            found.append(Difference(f"backend of {running.target}", str(wanted.get("backend")), running.backend))
        if "capacity" in wanted and _parsed(_core.parse_size, wanted["capacity"]) != running.capacity_bytes:
            found.append(
                Difference(f"capacity of {running.target}", str(wanted["capacity"]), f"{running.capacity_bytes} bytes")
            )
        if speed := _speed_difference(wanted.get("speed"), running.speed):
            found.append(Difference(f"speed of {running.target}", *speed))
    return found


def _speed_difference(table: dict[str, Any] | None, running: Speed | None) -> tuple[str, str] | None:
    """A configured and an emulated speed in words; None where they are the same."""
    wanted = table or {}
    read, write = (_parsed(_core.parse_rate, wanted[key]) if key in wanted else None for key in ("read", "write"))
    fixed = _parsed(_core.parse_seconds, wanted["fixed"]) if "fixed" in wanted else 0.0
    present: tuple[float | None, float | None, float] = (None, None, 0.0)
    if running is not None:
        present = (running.read_bytes_per_second, running.write_bytes_per_second, running.fixed_seconds)
    if all(_is_same(one, other) for one, other in zip((read, write, fixed), present, strict=True)):
        return None
    return _words((read, write, fixed)), _words(present)


def _is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _RATE_ROUNDING * max(abs(one), abs(other), 1e-3)


def _words(speed: tuple[float | None, float | None, float]) -> str:
    read, write, fixed = speed
    parts = [f"{name} {rate / 1e6:g} MB/s" for name, rate in (("read", read), ("write", write)) if rate is not None]
    if fixed:
        parts.append(f"fixed {fixed * 1e6:g} us")
    return ", ".join(parts) or "as fast as it is"


def _parsed(parse: Any, value: object) -> float:
    """A size, rate or time of a file, which may be a number there."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return float(parse(str(value)))
    except ValueError as error:
        raise SettingsError(str(error), hint="see docs/reference/configuration.md") from error
