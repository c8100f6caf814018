"""Sharing on real servers: entitlements, and fairness over servers of which one is killed."""

import os
import signal
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from weir.experiments.figures import rows_of
from weir.experiments.jobs import Job, Run, run_jobs
from weir.experiments.store import Store

SPEED = "32MB/s"
SECONDS = 4.0
NEAR = 0.04


def received(run: Run, policy: str) -> dict[str, float]:
    """Each job's part of the time of the run's only target, after the first second."""
    rows = [row for row in rows_of(run, policy) if row.start_seconds >= 1.0]
    return {job.name: statistics.fmean(row.device_ratio for row in rows if row.job == job.name) for job in run.jobs}


def flood(name: str, *, user: str = "user", nodes: int = 1, targets: Sequence[str] = ()) -> Job:
    return Job(name, 4, SECONDS, user=user, nodes=nodes, targets=tuple(targets))


def test_a_limit_and_a_reservation_hold_beside_the_policy() -> None:
    tables = """
        [[share]]
        user = "limited"
        limit = "20%"
        [[share]]
        user = "reserved"
        reservation = 0.5
    """
    jobs = [flood("a", user="limited"), flood("b", user="reserved"), flood("c", user="other")]
    with Store(policy="user-fair", speed=SPEED, tables=tables) as store:
        shares = received(run_jobs(store, jobs), "user-fair")
    assert shares == pytest.approx({"a": 0.2, "b": 0.5, "c": 0.3}, abs=NEAR)


def test_a_limited_job_leaves_the_device_idle() -> None:
    tables = """
        [[share]]
        job = "slow"
        limit = 0.25
    """
    with Store(policy="job-fair", speed=SPEED, tables=tables) as store:
        shares = received(run_jobs(store, [flood("slow")]), "job-fair")
    assert shares["slow"] == pytest.approx(0.25, abs=NEAR)


def test_servers_are_fair_together_also_after_one_was_killed() -> None:
    jobs = [
        flood("both", nodes=16, targets=("0.0", "1.0")),
        flood("first", nodes=8, targets=("0.0",)),
        flood("second", nodes=8, targets=("1.0",)),
    ]
    jobs[0] = replace(jobs[0], processes=8)
    expected = {"both": 1.0, "first": 0.5, "second": 0.5}
    with Store(policy="size-fair", servers=2, speed=SPEED) as store:
        assert received(run_jobs(store, jobs), "size-fair") == pytest.approx(expected, abs=2 * NEAR)
        process = int((store.folder / "home/servers/1/pid").read_text().split()[0])
        os.kill(process, signal.SIGKILL)
        store.weir("up", "--no-mount")
        again = [replace(job, name=f"{job.name}-again") for job in jobs]
        shares = received(run_jobs(store, again), "size-fair")
    assert shares == pytest.approx({f"{name}-again": share for name, share in expected.items()}, abs=2 * NEAR)
