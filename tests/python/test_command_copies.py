"""Words and bounds of the command line that packages define, too: commands import these packages when they run."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from weir.experiments import figures
from weir.guard import bounds
from weir.interference import estimators, kernels, plan, slowdowns
from weir.plugins import KINDS
from weir.provisioning.deployments import Policy
from weir.provisioning.emit import targets
from weir.provisioning.jobs.wishes import SystemKind
from weir.provisioning.pairwise import runs
from weir.provisioning.stress import kernels as stress_kernels
from weir.provisioning.stress import plan as stress_plan
from weir.provisioning.stress import systems

MODEL = Path(__file__).parents[2] / "crates/interference/src/model.rs"

COPIES: dict[str, Callable[[], object]] = {
    "bench.bench._SCHEDULERS": lambda: figures.SCHEDULERS,
    "guard._KINDS": lambda: bounds.KINDS,
    "interference.data._BINS_MAX": lambda: bound_of_rust("BINS_MAX"),
    "interference.evaluate.ESTIMATORS": lambda: tuple(estimators.estimators((2.0,))),
    "job.run._POLICIES": lambda: get_args(Policy),
    "plan.emit._SYSTEMS": lambda: targets.TARGETS,
    "plugins.KINDS": lambda: tuple(KINDS),
    "plan.factors._PROCESSES_MAX": lambda: runs.PROCESSES_MAX,
    "plan.planned._POLICIES": lambda: get_args(Policy),
    "plan.planned._SYSTEMS": lambda: get_args(SystemKind),
    "interference.matrix._KERNELS": lambda: tuple(kernels.KERNELS),
    "interference.matrix._PARALLEL_MAX": lambda: plan.PARALLEL_MAX,
    "interference.matrix.TASKS": lambda: slowdowns.TASKS,
    "stress._BACKENDS": lambda: systems.BACKENDS,
    "stress._DEVICES": lambda: tuple(systems.DEVICES),
    "stress._FILE_BYTES_MIN": lambda: stress_kernels.FILE_BYTES_MIN,
    "stress._KERNELS": lambda: tuple(stress_kernels.KERNELS),
    "stress._PROCESSES_MAX": lambda: stress_plan.PROCESSES_MAX,
}
"""The definition of each constant of `weir.cli`, by the constant's module and name."""


def bound_of_rust(name: str) -> int:
    """A constant of the native predictor."""
    found = re.search(rf"^const {name}: usize = (\d+);$", MODEL.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("name", COPIES)
def test_a_constant_of_a_command_is_that_of_its_package(name: str) -> None:
    module, _, constant = name.rpartition(".")
    assert getattr(importlib.import_module(f"weir.cli.{module}"), constant) == COPIES[name]()
