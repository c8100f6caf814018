"""Environments of programs, with a store and without one."""

from collections.abc import Mapping, MutableMapping

_KEPT = ("WEIR_TRANSPORT", "WEIR_TIMEOUT_SECONDS", "WEIR_HEARTBEAT_SECONDS", "WEIR_WINDOWS")
"""Variables about the way to any store, which name no store."""

_OF_ONE_STORE = ("WEIR_CLUSTER", "WEIR_CREDENTIAL", "WEIR_MOUNT")
"""Variables that name a store, or a place or a right in it; `weir env` prints them."""


def forget_store(environment: MutableMapping[str, str]) -> None:
    """Take the variables of one store away, for a command whose user named a store otherwise.

    Args:
        environment: Variables by their names.
    """
    for name in _OF_ONE_STORE:
        environment.pop(name, None)


def without_store(environment: Mapping[str, str], *, kept: tuple[str, ...] = _KEPT) -> dict[str, str]:
    """An environment in which a program is no client of a store.

    Args:
        environment: Variables by their names.
        kept: Variables of Weir that stay.

    Returns:
        The variables without those of Weir, and LD_PRELOAD without its library.
    """
    inherited = {name: value for name, value in environment.items() if not name.startswith("WEIR_") or name in kept}
    libraries = inherited.pop("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = [library for library in libraries if library and "libweir_preload" not in library]
    if others:
        inherited["LD_PRELOAD"] = ":".join(others)
    return inherited
