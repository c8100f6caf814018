"""The errors of tuning."""

from weir.simulation.errors import SimulationError


class TuningError(SimulationError):
    """A search that cannot begin, go on or be judged."""
