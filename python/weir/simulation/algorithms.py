"""Schedulers, allocators and generators of a scenario: Weir's own, and plug-ins in their places.

A scenario names a plug-in as it names an algorithm of Weir's. The engine gets the plug-in itself, and in the document
one of its own algorithms stands in that place.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weir import _core
from weir.plugins import ALLOCATOR, SCHEDULER, Kind, Plugin, PluginError, named
from weir.simulation.errors import ScenarioError

if TYPE_CHECKING:
    from weir.simulation.scenario import Scenario

_OWN_ALLOCATOR = "random"
"""Stands in a document in the place of a plug-in."""


def scheduler_plugin(name: str | None) -> Plugin | None:
    """Find the scheduler of a name.

    Args:
        name: A name of a scheduler; None is the policy's default.

    Returns:
        The plug-in; None for a scheduler of Weir's.

    Raises:
        PluginError: There is no such scheduler.
    """
    return None if name is None else _plugin(SCHEDULER, name, _core.scheduler_names())


def allocator_plugin(name: str) -> Plugin | None:
    """Find the allocator of a name.

    Returns:
        The plug-in; None for an allocator of Weir's.

    Raises:
        PluginError: There is no such allocator.
    """
    return _plugin(ALLOCATOR, name, _core.allocator_names())


def known_allocator(name: str) -> str:
    """Check the name of an allocator, and that a plug-in loads.

    Raises:
        ValueError: There is no such allocator, or the plug-in cannot be loaded.
    """
    try:
        plugin = allocator_plugin(name)
        if plugin is not None:
            plugin.load()
    except PluginError as error:
        raise ValueError(error.message) from error
    return name


def known_sharing(policy: str, scheduler: str | None) -> tuple[str, str | None]:
    """Check the names of a policy and a scheduler, and that a plug-in loads.

    Args:
        scheduler: The scheduler; None is the policy's default.

    Returns:
        The canonical spellings; of the scheduler, None where none was named.

    Raises:
        ValueError: There is no such policy or scheduler, they do not go together, or the plug-in cannot be loaded.
    """
    name = None if scheduler is None else scheduler.strip()
    if name is None or name.lower() in _core.scheduler_names():
        canonical, enforced = _core.parse_sharing(policy, name)
        return canonical, None if name is None else enforced
    try:
        plugin = scheduler_plugin(name)
        if plugin is not None:
            plugin.load()
    except PluginError as error:
        raise ValueError(error.message) from error
    return _core.parse_policy(policy), name


def check_mode(scheduler: str | None, mode: str) -> None:
    """Refuse a scheduler that has nothing to order.

    Args:
        mode: Model of the run.

    Raises:
        ScenarioError: The scheduler is a plug-in, and the mode has no requests.
    """
    if mode != "request" and scheduler_plugin(scheduler) is not None:
        raise ScenarioError(
            f"the scheduler {scheduler} is a plug-in, and the mode is {mode}, in which no requests are ordered",
            hint='set mode = "request"',
        )


def for_engine(document: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Put a scenario's document into the engine's shape.

    Args:
        document: Values for JSON, in the shape of the engine's `Scenario`, in which plug-ins may be named.

    Returns:
        The document as JSON, and the plug-ins as further arguments of the engine.

    Raises:
        PluginError: A plug-in is not there, or cannot be loaded.
    """
    own = dict(document)
    plugins: dict[str, Any] = {}
    if (scheduler := scheduler_plugin(document.get("scheduler"))) is not None:
        from weir.plugins.scheduler import SchedulerMaker, WaitingJob

        check_mode(document["scheduler"], document.get("mode", "flow"))
        jobs = [WaitingJob(*(job[name] for name in WaitingJob._fields)) for job in document["workload"]["jobs"]]
        own["scheduler"] = None
        plugins["chooser"] = SchedulerMaker(scheduler, jobs)
    if (allocator := allocator_plugin(document["allocator"])) is not None:
        from weir.plugins.allocator import AllocatorMaker

        own["allocator"] = _OWN_ALLOCATOR
        plugins["allocator"] = AllocatorMaker(allocator)
    return json.dumps(own), plugins


def identities(scenario: "Scenario") -> list[str]:
    """Tell builds of the plug-ins of a scenario apart, so that no result of another build counts.

    Generators are not among them: the work that they made is.

    Returns:
        The identities; none where the scenario names no plug-in.
    """
    found = (scheduler_plugin(scenario.scheduler), allocator_plugin(scenario.allocator))
    return [plugin.identity() for plugin in found if plugin is not None]


def _plugin(kind: Kind, name: str, own: list[str]) -> Plugin | None:
    return None if name in own else named(kind, name, own)
