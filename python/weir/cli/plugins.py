"""`weir plugins`: the algorithms of other packages, and whether they load."""

from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED, say
from weir.cli.common.output import output_option, show

if TYPE_CHECKING:
    from weir.plugins import Kind, Plugin

KINDS = ("forecaster", "allocator", "scheduler", "codec", "interference model", "workload")
"""Names of `weir.plugins.KINDS`."""


@click.command()
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind; repeat for several.")
@output_option
def plugins(kinds: tuple[str, ...], output: str) -> int:
    """List the algorithms of other packages, which commands take by name beside Weir's.

    Each plug-in is imported; STATE shows whether it loads. The exit code is 1 if one does not. Commands also take an
    algorithm that no package declares, as MODULE:ATTRIBUTE. No server of a store runs a plug-in.
    """
    from weir.plugins import KINDS as ALL
    from weir.plugins import installed

    found = [
        _line(plugin, _own_names(kind))
        for name, kind in ALL.items()
        if not kinds or name in kinds
        for plugin in installed(kind)
    ]
    header = ("KIND", "NAME", "PACKAGE", "STATE", "SUMMARY")
    show(output, found, header, [tuple(line[name.lower()] for name in header) for line in found])
    if not found and output == "table":
        say("no installed package declares a plug-in: see docs/extend")
    return FAILED if any(line["state"] != "loads" for line in found) else 0


def _line(plugin: "Plugin", own: tuple[str, ...]) -> dict[str, str]:
    from weir.plugins import PluginError

    line = {"kind": plugin.kind.name, "name": plugin.name, "package": plugin.package, "object": plugin.target}
    if plugin.name in own:
        return {**line, "state": "hidden by Weir's own of that name", "summary": ""}
    try:
        return {**line, "state": "loads", "summary": plugin.summary()}
    except PluginError as error:
        return {**line, "state": f"does not load: {error.message}", "summary": ""}


def _own_names(kind: "Kind") -> tuple[str, ...]:
    """Names of Weir's algorithms of a kind, which no plug-in can have."""
    from weir import _core

    if kind.name == "forecaster":
        from weir.prediction.bandwidth import NAMES
        from weir.prediction.creations import MODELS

        return (*NAMES, *MODELS)
    if kind.name == "allocator":
        from weir.placement.allotment import allocator_names

        return tuple(allocator_names())
    if kind.name == "scheduler":
        return tuple(_core.scheduler_names())
    if kind.name == "codec":
        from weir.adaptive.containers import CODECS

        return CODECS
    if kind.name == "workload":
        from weir.simulation.workloads.jobs import GENERATORS

        return tuple(GENERATORS)
    from weir.interference.estimators import estimators

    return tuple(estimators((2.0,)))
