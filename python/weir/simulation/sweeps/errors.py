"""The errors of sweeps."""

from weir.simulation.errors import ScenarioError, SimulationError


class SweepError(SimulationError):
    """A sweep that cannot begin or go on."""


class SweepFileError(ScenarioError):
    """A sweep file that cannot be used: the file, the line, the key, and what is allowed."""
