"""The engine as Python calls it: a scenario as JSON and columns goes in, an outcome comes out.

The interpreter's lock is free while the engine works, so that threads run scenarios beside each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from weir.simulation.errors import ScenarioError
from weir.simulation.outcome import Outcome, decode

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A scenario in the engine's shape."""

    document: dict[str, Any]
    """Values for JSON, in the shape of the engine's `Scenario`; its workload has no steps."""
    steps: "dict[str, NDArray[Any]]"
    """The steps as columns of one length, in the types of the engine's `Step`."""


class Progress(NamedTuple):
    """The progress of a run."""

    seconds: float
    """The virtual time."""
    events: int
    """Events taken."""
    steps_done: int
    """Steps done, of all."""
    steps: int
    """Steps of the workload."""


def simulate(prepared: Prepared, *, progress: Callable[[Progress], object] | None = None) -> Outcome:
    """Run a scenario.

    Args:
        progress: Called now and then. A KeyboardInterrupt that it raises ends the run early, like that of the user.

    Returns:
        The outcome. After an interruption it has all that was done.

    Raises:
        ScenarioError: The scenario has a fault, which the error names.
        PluginError: A plug-in that the scenario names is not there, or fails; the run then ends at once.
    """
    from weir import _core
    from weir.simulation.algorithms import for_engine

    def report(*figures: Any) -> None:
        if progress is not None:
            progress(Progress(*figures))

    document, plugins = for_engine(prepared.document)
    try:
        return decode(_core.simulate(document, prepared.steps, report, **plugins))
    except ValueError as error:
        raise ScenarioError(f"the scenario cannot be run: {error}", hint="see docs/reference/scenarios.md") from error
