"""The simulator from Python: topologies, workloads, scenarios and their runs in virtual time.

`read_scenario` reads a scenario's file, and `run` runs it. Names are imported when they are asked for, so that a
command which only reads an error starts at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.simulation.engine import Progress
    from weir.simulation.errors import ScenarioError, SimulationError
    from weir.simulation.outcome import Outcome
    from weir.simulation.runs import run
    from weir.simulation.scenario import Scenario, read_scenario

__all__ = ["Outcome", "Progress", "Scenario", "ScenarioError", "SimulationError", "read_scenario", "run"]

_PLACES = {
    "Outcome": "outcome",
    "Progress": "engine",
    "Scenario": "scenario",
    "ScenarioError": "errors",
    "SimulationError": "errors",
    "read_scenario": "scenario",
    "run": "runs",
}


def __getattr__(name: str) -> Any:
    """Import a name of this package when it is first asked for."""
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
