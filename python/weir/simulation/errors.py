"""The errors of simulations."""

from weir.errors import WeirError


class SimulationError(WeirError):
    """A simulation that cannot be described, run or read."""


class ScenarioError(SimulationError):
    """A topology, a workload or a scenario that cannot be used: the file, the line, the key, and what is allowed."""
