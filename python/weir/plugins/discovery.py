"""The plug-ins that installed distributions declare, and those that a user names as `module:attribute`."""

import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from weir.plugins.errors import PluginError
from weir.plugins.kinds import Kind
from weir.plugins.plugin import Plugin

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""`module:attribute`, as entry points spell it."""


def installed(kind: Kind) -> list[Plugin]:
    """Find the plug-ins of a kind that installed distributions declare. None of them is imported.

    Returns:
        The plug-ins by their names; two distributions may declare one name.
    """
    return list(_installed(kind, tuple(sys.path)))


def is_spelled_as_target(name: str) -> bool:
    """Tell whether a name is `module:attribute`."""
    return _TARGET.fullmatch(name) is not None


def declared(kind: Kind, name: str) -> Plugin | None:
    """Find a plug-in by the name that its distribution declares.

    Returns:
        The plug-in; None where no distribution declares the name.

    Raises:
        PluginError: Several distributions declare the name.
    """
    found = [plugin for plugin in installed(kind) if plugin.name == name]
    if len(found) > 1:
        packages = " and ".join(plugin.package for plugin in found)
        raise PluginError(
            name,
            f"the {kind.name} `{name}` is declared by {packages}",
            hint=f"name one by its place, such as {found[0].target}, or remove a package",
        )
    return found[0] if found else None


def named(kind: Kind, name: str, own: Iterable[str] = ()) -> Plugin:
    """Find a plug-in by its name, or by its place, `module:attribute`.

    A place may be in the present folder, as for `python -m`.

    Args:
        own: Names of Weir's own algorithms, for the error.

    Raises:
        PluginError: There is no such plug-in, or several distributions declare it.
    """
    if is_spelled_as_target(name):
        here = str(Path.cwd())
        if here not in sys.path and "" not in sys.path:
            sys.path.append(here)
        return Plugin(kind, name, name)
    plugin = declared(kind, name)
    if plugin is not None:
        return plugin
    raise PluginError(name, _unknown(kind, name, own), hint="`weir plugins` lists those of installed packages")


def given(kind: Kind, plugin: Any) -> Plugin:
    """Take a plug-in that a program gives: a class, or a function that makes objects.

    Raises:
        PluginError: It is no plug-in of the kind.
    """
    target = f"{getattr(plugin, '__module__', '?')}:{getattr(plugin, '__qualname__', repr(plugin))}"
    found = Plugin(kind, target, target, given=plugin)
    found.load()
    return found


@cache
def _installed(kind: Kind, path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """The plug-ins that distributions on a path declare. A sweep asks for each of its runs, and a look takes long."""
    found = [
        Plugin(kind, point.name, point.value.partition("[")[0].strip(), _package(point))
        for point in metadata.entry_points(group=kind.group)
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda plugin: (plugin.name, plugin.package)))


def _unknown(kind: Kind, name: str, own: Iterable[str]) -> str:
    from difflib import get_close_matches

    known = [*own, *(plugin.name for plugin in installed(kind))]
    near = get_close_matches(name, known, n=1)
    meant = f" (did you mean `{near[0]}`?)" if near else ""
    listed = ", ".join(dict.fromkeys(known))
    return f"unknown {kind.name} `{name}`: expected one of {listed}, or `module:attribute`{meant}"


def _package(point: metadata.EntryPoint) -> str:
    distribution = point.dist
    return "" if distribution is None else f"{distribution.name} {distribution.version}"
