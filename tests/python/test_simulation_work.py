"""Work of every source in the engine: all of it is done, and every byte arrives once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from weir.simulation import run
from weir.simulation.scenario import Scenario, parse_scenario
from weir.simulation.topology import preset_names

LOGS = Path(__file__).resolve().parents[1] / "data" / "darshan"
SMALL_LOGS = (
    "sample-goodost",
    "ior_hdf5",
    "shane_macsio",
    "pq_app_readAB_writeC",
    "dbin_tmatch",
    "sample-dxt-simple",
    "dbin_ior",
)
JOBS = {
    "ior": 'processes = 6\nblock = "4MiB"\nsegments = 2\nread = true\nreorder = true\nrepetitions = 2\nremove = true',
    "ior shared": 'processes = 6\nmode = "shared"\nblock = "4MiB"\nsegments = 2\nread = true',
    "ior reads": 'processes = 6\nblock = "4MiB"\nwrite = false\nread = true',
    "hacc-io": "processes = 4\nparticles = 100_000",
    "hacc-io shared": 'processes = 4\nparticles = 100_000\nmode = "shared"',
    "mdtest": 'processes = 3\nitems = 20\nbytes = "1KiB"\nread = true\niterations = 2',
    "checkpoints": 'processes = 4\nperiod = "10s"\nbytes = "8MiB"\njitter = 0.1\nkeep = 2\nrestart = true',
    "training": 'processes = 4\nsamples = 200\nepochs = 2\nsamples_per_file = 16\ncompute = "10ms"',
    "scalability": 'application = "cosmoflow"\nvolume = 0.005',
}


def scenario(jobs: str, *, topology: str = "16x8", mode: str = "flow") -> Scenario:
    text = f'topology = "{topology}"\nmode = "{mode}"\n[layout]\nstripe_count = 4\n[[jobs]]\n{jobs}\n'
    return parse_scenario(text, origin="s.toml", folder=LOGS)


def check_done(found: Scenario) -> Any:
    """Run a scenario; all is done, and the bytes of the jobs and of the targets are those of the work."""
    outcome = run(found)
    steps = found.workload.steps
    assert outcome.is_complete
    owners = found.workload.stream_jobs[steps.stream]
    for number, job in enumerate(outcome.jobs):
        own = owners == number
        assert job.is_complete and job.refused_files == 0
        assert job.read_bytes == steps.bytes[own & (steps.kind == 3)].sum()
        assert job.written_bytes == steps.bytes[own & (steps.kind == 4)].sum()
    assert sum(target.written_bytes for target in outcome.targets) == sum(job.written_bytes for job in outcome.jobs)
    return outcome


@pytest.mark.parametrize("name", JOBS)
def test_the_work_of_every_generator_is_done(name: str) -> None:
    check_done(scenario(f'generator = "{name.split()[0]}"\n{JOBS[name]}'))


@pytest.mark.parametrize("name", SMALL_LOGS)
def test_the_work_of_a_log_is_done_and_takes_its_pauses(name: str) -> None:
    (path,) = LOGS.glob(f"{name}*.darshan")
    found = scenario(f'log = "{path.name}"')
    outcome = check_done(found)
    pauses = np.bincount(found.workload.steps.stream, weights=found.workload.steps.after_seconds)
    assert outcome.seconds >= pauses.max() - 1e-6


@pytest.mark.parametrize("topology", [*preset_names(), "2x3"])
def test_every_preset_runs(topology: str) -> None:
    outcome = check_done(scenario('generator = "ior"\nprocesses = 4\nblock = "16MiB"\nread = true', topology=topology))
    assert outcome.seconds > 0


def test_a_periodic_checkpoint_takes_its_periods() -> None:
    found = scenario('generator = "checkpoints"\nprocesses = 4\ncheckpoints = 3\nperiod = "10s"\nbytes = "1MiB"')
    assert 30.0 < run(found).seconds < 31.0


def test_a_file_for_each_process_and_one_for_all_take_the_same_targets_time() -> None:
    """The same bytes on all targets alike: 4 processes of 100 MB on 2 x 2 targets of 1 GB/s."""
    keys = 'generator = "ior"\nprocesses = 4\nprocesses_per_node = 1\nblock = "96MiB"\ndepth = 64\nmode = "{}"'
    text = f'topology = "2x2"\n[[jobs]]\n{keys}\n'
    times = [
        run(parse_scenario(text.format(mode), origin="s.toml", folder=LOGS)).seconds
        for mode in ("file-per-process", "shared")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.05)
    assert times[0] == pytest.approx(4 * (96 << 20) / 4e9, rel=0.1)
