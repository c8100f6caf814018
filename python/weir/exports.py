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

    Raises:
        AttributeError: The first function is asked for a name that the package does not offer.
    """

    def find(name: str) -> Any:
        """Import a name of this package when it is first asked for."""
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{place or name}")
        except ModuleNotFoundError as error:
            hint = _hint(f"{package}.{name}", error)
            if place:
                error.add_note(hint)
                raise
            # `help` passes over attributes that are not there, and over no other failure.
            raise AttributeError(f"{package}.{name} needs {error.name}, which is not installed; {hint}") from error
        if not place:
            return module
        found = getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        """List the names that this package offers."""
        return sorted(places)

    return find, names


def _hint(name: str, error: ModuleNotFoundError) -> str:
    """The command that installs what a name needs: the extra of its package has the package's name."""
    from weir.distribution import install_command

    if (error.name or "").startswith("weir"):
        return "hint: install Weir again: a module of its own is missing"
    return f"hint: {install_command(name.split('.')[1])}"
