"""Types of the names in options of `weir simulate`: of objectives, topologies, and parts of a search."""

from weir.cli.common.parameters import Checked
from weir.store import values


def _objective(text: str) -> None:
    from weir.simulation.sweeps.evaluation import OBJECTIVES

    values.one_of(text, OBJECTIVES, "objective")


def _topology(text: str) -> None:
    from weir.simulation.topology import topology_named

    topology_named(text)


def _part(text: str) -> None:
    from weir.simulation.tuning.space import PARTS

    values.one_of(text, PARTS, "part of the settings")


OBJECTIVE = Checked("objective", _objective)
"""A figure of simulated runs."""
TOPOLOGY = Checked("topology", _topology)
"""Machines: a preset, numbers such as 16x8, or a file."""
PART = Checked("part", _part)
"""A part of the settings that can be searched."""
