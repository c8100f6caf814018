"""The simulator: topologies, workloads, scenarios and their runs in virtual time.

`read_scenario` reads a scenario's file, and `run` runs it. Names are imported when they are asked for, so that a
command which only reads an error starts at once.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.simulation.alone import Baseline
    from weir.simulation.engine import Progress
    from weir.simulation.errors import ScenarioError, SimulationError
    from weir.simulation.outcome import Outcome
    from weir.simulation.records import Record
    from weir.simulation.runs import record, run
    from weir.simulation.scenario import Scenario, read_scenario

__all__ = [
    "Baseline",
    "Outcome",
    "Progress",
    "Record",
    "Scenario",
    "ScenarioError",
    "SimulationError",
    "read_scenario",
    "record",
    "run",
]

__getattr__, __dir__ = exporting(
    __name__,
    {
        "Baseline": "alone",
        "Outcome": "outcome",
        "Progress": "engine",
        "Record": "records",
        "Scenario": "scenario",
        "ScenarioError": "errors",
        "SimulationError": "errors",
        "read_scenario": "scenario",
        "record": "runs",
        "run": "runs",
    },
)
