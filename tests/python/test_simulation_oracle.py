"""SimGrid as the oracle of the flow model: an independent solver of max-min fair flows.

It needs Debian's libsimgrid-dev and a C++ compiler; without them there is nothing to compare with.
"""

import importlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TOLERANCE = 0.02


@pytest.fixture(scope="module")
def flows() -> Any:
    """The module of problems that both sides read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("_simulated_flows")


@pytest.fixture(scope="module")
def oracle(flows: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SimGrid's program, compiled."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    probe = subprocess.run(
        ["c++", "-E", "-x", "c++", "-", "-o", "/dev/null"],
        input="#include <simgrid/s4u.hpp>\n",
        text=True,
        capture_output=True,
    )
    if probe.returncode != 0:
        pytest.skip("libsimgrid-dev is not installed")
    program: Path = flows.compiled_oracle(tmp_path_factory.mktemp("oracle"))
    return program


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_every_flow_of_a_random_problem_ends_as_in_simgrid(seed: int, flows: Any, oracle: Path) -> None:
    # Some 20 clients against 24 targets: clients' links, servers' links and targets all bind somewhere.
    problem = flows.Problem.drawn(
        seed, clients=3 + seed, servers=4, targets_each=3, flows=300, span_seconds=5.0, link_rate=(1 + seed % 3) * 1e9
    )
    theirs = flows.simgrid(oracle, problem)
    # A job for each flow, so that the outcome has the end of each.
    ours = flows.ours(problem, jobs=300)
    difference = np.abs(ours.ends - theirs.ends) / theirs.ends
    assert difference.max() <= TOLERANCE, f"flow {difference.argmax()} ends {difference.max():.1%} apart"


@pytest.mark.slow
def test_flows_of_one_job_share_like_flows_of_many(flows: Any, oracle: Path) -> None:
    problem = flows.Problem.drawn(9, clients=6, servers=3, targets_each=4, flows=300, span_seconds=5.0, link_rate=1e9)
    theirs = flows.simgrid(oracle, problem)
    end = flows.ours(problem, jobs=1).ends.max()
    assert abs(end / theirs.ends.max() - 1) <= TOLERANCE
