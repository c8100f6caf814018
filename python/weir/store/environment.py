"""Environments of programs, with a store and without one."""

from collections.abc import Mapping

_KEPT = ("WEIR_TRANSPORT", "WEIR_TIMEOUT_SECONDS")
"""Variables about the way to any store, which name no store."""


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
