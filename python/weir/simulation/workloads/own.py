"""Generators of one's own: plug-ins that make the work of jobs, and the check of what they make."""

import dataclasses
from typing import Any

import numpy as np

from weir.plugins import WORKLOAD, Plugin, PluginError, named
from weir.plugins.errors import failure, wrong_answer
from weir.simulation.documents import Table
from weir.simulation.errors import ScenarioError
from weir.simulation.workload import Kind, Work
from weir.simulation.workloads.parameters import PARAMETER_KINDS, STEPS_MAX, read_parameters

_HINT = f"see {WORKLOAD.page}"


class OwnGenerator:
    """A generator whose faults name it, and whose work can be run. See `Generator`."""

    def __init__(self, plugin: Plugin, made: Any) -> None:
        """Take a generator with its parameters."""
        self._plugin = plugin
        self._made = made

    @property
    def processes(self) -> int:
        """See `Generator`."""
        return int(self._plugin.call("processes", lambda: self._made.processes))

    @property
    def is_random(self) -> bool:
        """See `Generator`. A generator that does not tell may throw dice."""
        return bool(self._plugin.call("is_random", lambda: getattr(self._made, "is_random", True)))

    def work(self, random: np.random.Generator) -> Work:
        """See `Generator`.

        Raises:
            PluginError: The plug-in fails, or its work cannot be run.
        """
        work = self._plugin.call("work", self._made.work, random)
        fault = _fault(work)
        if fault:
            raise wrong_answer(self._plugin, "work", fault)
        checked: Work = work
        return checked


def own_generator(name: str, table: Table, own: tuple[str, ...]) -> OwnGenerator:
    """Find a generator that is a plug-in, and read its parameters.

    Args:
        name: Its name, or `module:attribute`.
        table: The table of the parameters, which may have other keys.
        own: Names of Weir's generators, for the error.

    Raises:
        PluginError: There is no such plug-in, it cannot be loaded or made, or its parameters are not declared.
        ScenarioError: A parameter is missing or not allowed; the error names the file, the line and the key.
    """
    plugin = named(WORKLOAD, name, own)
    kind = plugin.load()
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise PluginError(name, f"the {plugin.words} is no dataclass, whose fields are its parameters", hint=_HINT)
    for field in dataclasses.fields(kind):
        if field.metadata.get("kind") not in PARAMETER_KINDS:
            raise PluginError(
                name,
                f"the parameter {field.name} of the {plugin.words} is not declared by a function of "
                "weir.simulation.workloads.parameters",
                hint=_HINT,
            )
    try:
        return OwnGenerator(plugin, read_parameters(kind, table))
    except ScenarioError:
        raise
    except Exception as error:
        raise failure(plugin, "its making", error) from error


def _fault(work: Any) -> str:
    """The fault in the work of a job; empty if there is none."""
    if not isinstance(work, Work):
        return f"{type(work).__name__} is no weir.simulation.workload.Work"
    steps, streams, files = work.steps, len(work.stream_nodes), len(work.file_bytes)
    if len(steps) > STEPS_MAX:
        return f"it has {len(steps)} steps, and a job has at most {STEPS_MAX}"
    columns = steps.columns()
    if any(column.shape != (len(steps),) for column in columns.values()):
        return "its columns of steps differ in length"
    if work.nodes < 1 or (streams and int(work.stream_nodes.max()) >= work.nodes):
        return f"a stream is on a node that is none of its {work.nodes}"
    for listed, what in ((work.layouts, "layouts"), (work.homes, "homes")):
        if listed and len(listed) != files:
            return f"it has {len(listed)} {what} for {files} files"
    if not len(steps):
        return ""
    if int(columns["stream"].max()) >= streams:
        return f"a step is of stream {int(columns['stream'].max())}, and there are {streams}"
    if int(columns["kind"].max()) >= len(Kind):
        return f"a step is of kind {int(columns['kind'].max())}, and kinds are 0 to {len(Kind) - 1}"
    touching = ~np.isin(columns["kind"], (Kind.COMPUTE, Kind.BARRIER))
    if touching.any() and int(columns["file"][touching].max()) >= files:
        return f"a step is of file {int(columns['file'][touching].max())}, and there are {files}"
    pauses = np.concatenate([columns["after_seconds"], columns["not_before_seconds"]])
    if not (np.isfinite(pauses) & (pauses >= 0)).all():
        return "a pause of a step is no time"
    return ""
