"""Settings in question: changes of a scenario, by the words of an administrator."""

import copy
import dataclasses
import re
from typing import TYPE_CHECKING

from weir.simulation.errors import ScenarioError
from weir.simulation.what_if import Setting

if TYPE_CHECKING:
    from weir.simulation.scenario import Scenario

_DEATH = re.compile(r"(?P<server>\d{1,9})@(?P<at>[^-]+)(-(?P<back>.+))?", re.ASCII)


def another_policy(text: str) -> Setting:
    """Divide the targets' time by another policy.

    Args:
        text: A policy, or a policy and its scheduler as in `size-fair by gift`.

    Returns:
        The setting; its scheduler is the policy's default where the text names none.

    Raises:
        ScenarioError: There is no such policy or scheduler, or they do not go together.
    """
    from weir.simulation.algorithms import known_sharing

    policy, _, scheduler = text.partition(" by ")
    try:
        canonical, kept = known_sharing(policy.strip(), scheduler.strip() or None)
    except ValueError as error:
        raise ScenarioError(f"policy {text}: {error}", hint="name a scheduler as in `size-fair by gift`") from error
    return Setting(f"policy {text}", lambda scenario: dataclasses.replace(scenario, policy=canonical, scheduler=kept))


def another_allocator(name: str) -> Setting:
    """Choose the targets of files by another algorithm.

    Args:
        name: The allocator.

    Raises:
        ScenarioError: There is no such allocator.
    """
    from weir.simulation.algorithms import known_allocator

    try:
        known_allocator(name)
    except ValueError as error:
        raise ScenarioError(str(error), hint="`weir plugins` lists those of installed packages") from error
    return Setting(f"allocator {name}", lambda scenario: dataclasses.replace(scenario, allocator=name))


def another_layout(text: str) -> Setting:
    """Lay out the files whose job names no layout in another way.

    Args:
        text: The layout, in the spelling of `lfs setstripe`.

    Raises:
        ScenarioError: The text is no layout.
    """
    from weir import _core

    try:
        _core.parse_layout(text)
    except ValueError as error:
        raise ScenarioError(f"layout {text}: {error}", hint="try -E 128M -c 1 -E -1 -c 8") from error
    return Setting(f"layout {text}", lambda scenario: dataclasses.replace(scenario, layout=text))


def another_number_of_targets(count: int) -> Setting:
    """Have another number of targets on the same servers.

    Targets are taken from the servers that have most of them, or given to those that have fewest. A new target is like
    the last one of its server.

    Args:
        count: Targets of all servers together.

    Raises:
        ScenarioError: There is no target.
    """
    if count < 1:
        raise ScenarioError(f"{count} targets hold nothing", hint="give at least 1")
    return Setting(f"{count} targets", lambda scenario: _with_targets(scenario, count))


def a_dying_server(text: str) -> Setting:
    """Let a server end in the middle of the work.

    Args:
        text: The server and the moment, as in `2@30s`; with the moment of its return, as in `2@30s-90s`.

    Returns:
        The setting. Its change raises ScenarioError where the topology has no such server.

    Raises:
        ScenarioError: The text does not read so.
    """
    from weir import _core

    hint = "give a server and a moment such as 2@30s, with its return as in 2@30s-90s"
    found = _DEATH.fullmatch(text)
    if found is None:
        raise ScenarioError(f"`{text}` is no server and moment", hint=hint)
    try:
        at = _core.parse_seconds(found["at"])
        back = None if found["back"] is None else _core.parse_seconds(found["back"])
    except ValueError as error:
        raise ScenarioError(f"`{text}`: {error}", hint=hint) from error
    if back is not None and back <= at:
        raise ScenarioError(f"`{text}`: the server returns before it ends", hint=hint)
    server = int(found["server"])
    words = f"server {server} dies at {found['at']}" + (f", is back at {found['back']}" if back is not None else "")
    return Setting(words, lambda scenario: _with_death(scenario, server, at, back))


def together(settings: list[Setting]) -> Setting:
    """Change several things at once.

    Args:
        settings: The settings, applied in their order.

    Returns:
        One setting.
    """

    def change(scenario: "Scenario") -> "Scenario":
        for setting in settings:
            scenario = setting.change(scenario)
        return scenario

    return Setting(", ".join(setting.name for setting in settings), change)


def _with_targets(scenario: "Scenario", count: int) -> "Scenario":
    from weir.simulation.topology import Topology

    document = copy.deepcopy(scenario.topology.document)
    servers = [server for server in document["servers"] if server["targets"]]
    for _ in range(scenario.topology.targets - count):
        max(servers, key=lambda server: len(server["targets"]))["targets"].pop()
    for _ in range(count - scenario.topology.targets):
        fewest = min(servers, key=lambda server: len(server["targets"]))
        # A new target is empty.
        fewest["targets"].append({**copy.deepcopy(fewest["targets"][-1]), "used_bytes": 0})
    topology = Topology(document)
    stripes = min(scenario.stripe_count, topology.targets)
    return dataclasses.replace(scenario, topology=topology, stripe_count=stripes)


def _with_death(scenario: "Scenario", server: int, at: float, back: float | None) -> "Scenario":
    from weir.simulation.scenario import Fault

    if server >= scenario.topology.servers:
        raise ScenarioError(
            f"there is no server {server}: {scenario.topology.name} has {scenario.topology.servers}",
            hint="servers are numbered from 0",
        )
    faults = [*scenario.faults, Fault(at, "dies", server)]
    if back is not None:
        faults.append(Fault(back, "returns", server))
    return dataclasses.replace(scenario, faults=tuple(faults))
