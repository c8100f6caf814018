"""The names that a package offers, imported when they are first asked for, so that `import weir` takes no time."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exporting(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and the `__dir__` of a package (PEP 562).

    Args:
        package: Name of the package.
        places: The module of each name, below the package; a name that is a module below it has an empty place.

    Returns:
        A function that imports a name, and one that lists all names.
    """

    def find(name: str) -> Any:
        """Import a name of this package when it is first asked for."""
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not place:
            return import_module(f"{package}.{name}")
        found = getattr(import_module(f"{package}.{place}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        """List the names that this package offers."""
        return sorted(places)

    return find, names
