"""Algorithms that are none of Weir's: found by the entry points of installed distributions, or named by their places.

Each kind has a module here with its protocol, which a plug-in follows without importing anything of Weir, and with the
check of its answers. A fault of a plug-in is a `PluginError` that names it. No server of a store runs a plug-in.
"""

from weir.plugins.discovery import declared, given, installed, is_spelled_as_target, named
from weir.plugins.errors import PluginError
from weir.plugins.kinds import (
    ALLOCATOR,
    CODEC,
    FORECASTER,
    INTERFERENCE_MODEL,
    KINDS,
    SCHEDULER,
    WORKLOAD,
    Kind,
)
from weir.plugins.plugin import Plugin

__all__ = [
    "ALLOCATOR",
    "CODEC",
    "FORECASTER",
    "INTERFERENCE_MODEL",
    "KINDS",
    "SCHEDULER",
    "WORKLOAD",
    "Kind",
    "Plugin",
    "PluginError",
    "declared",
    "given",
    "installed",
    "is_spelled_as_target",
    "named",
]
