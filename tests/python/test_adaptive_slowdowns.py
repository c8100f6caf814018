"""Predicted slowdowns in the adaptive reader: it reads less where it is told that it will be slowed."""

import math
import os
import signal
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import fsspec
import numpy
import pytest
import weir.store
from places import Throttled
from waits import wait_until
from weir import adaptive
from weir.adaptive.policy import Plan, Planner
from weir.adaptive.slowdowns import (
    Outlook,
    Slowdowns,
    StoreSlowdowns,
    measured,
    store_slowdowns,
)
from weir.adaptive.tiers import Zone
from weir.guard.observations import SLOWDOWN_MAX, Observation, Use
from weir.prediction.bandwidth import Forecast
from weir.store.answers import WaitedFor
from weir.store.observations import JobKey, ObservedJob, Window, measured_slowdown, waited_ratio
from weir.store.predictions import JobPrediction, PredictedHorizon, Predictions, least_of, likely_slowdown

MB = 1_000_000
PIECE_BYTES = 1 << 12


def plans(slowdowns: Slowdowns | None, said: list[float | None] | None = None) -> list[Plan]:
    """The plans of a tier whose reads always come at 100 MB/s."""
    tier = adaptive.Tier("memory://shared", zone=Zone.AUGMENTATION, forecaster="mean")
    policy = adaptive.Plot(low=20 * MB, high=200 * MB)
    planner = Planner(tier, policy, warm_up_steps=0, slowdowns=slowdowns)
    made = []
    for step in range(12):
        if said is not None:
            said.append(8.0 if step >= 10 else 1.0)
        plan = planner.plan(step * 10.0, 10 * MB, accuracy_asked=False)
        planner.record(plan, step * 10.0, 5 * MB, 0.05, 100.0 * MB)
        planner.learn()
        made.append(plan)
    return made


def test_less_is_planned_where_a_slowdown_is_predicted() -> None:
    said: list[float | None] = []
    slowed = plans(lambda: said[-1], said)
    plain = plans(None)
    assert [plan.wanted_bytes for plan in slowed[:10]] == [plan.wanted_bytes for plan in plain[:10]]
    assert slowed[10].wanted_bytes < plain[10].wanted_bytes / 4
    assert slowed[10].forecast is not None and slowed[10].forecast.value == pytest.approx(100 * MB / 8)


@pytest.mark.parametrize("said", [None, 1.0, 0.2, math.nan, math.inf])
def test_without_a_prediction_nothing_changes(said: float | None) -> None:
    # The bounds of a forecast depend on the fits that have ended by then.
    assert [plan.wanted_bytes for plan in plans(lambda: said)] == [plan.wanted_bytes for plan in plans(None)]


def test_the_slowdown_of_the_past_is_in_the_forecast_already() -> None:
    told = [2.0]
    outlook = Outlook(lambda: told[0])
    past = Forecast(50.0, 40.0, 60.0, "mean")
    for _ in range(6):
        outlook.refine(past)
        outlook.observe(50.0)
    assert outlook.refine(past) is past
    told[0] = 8.0
    found = outlook.refine(past)
    assert (found.value, found.low, found.high) == pytest.approx((12.5, 10.0, 15.0))
    # The end of a slowdown lets nobody read more than the past does.
    told[0] = 1.0
    assert outlook.refine(past) is past


def test_predictions_that_were_wrong_are_left_out_until_they_are_right() -> None:
    told = [1.0]
    outlook = Outlook(lambda: told[0])
    past = Forecast(100.0, 90.0, 110.0, "mean")
    for _ in range(16):
        outlook.refine(past)
        outlook.observe(100.0)
    told[0] = 4.0
    uses = []
    for _ in range(4):
        uses.append(outlook.refine(past) is not past)
        outlook.observe(100.0)
    assert uses[0] and not uses[-1]
    for _ in range(3):
        outlook.refine(past)
        outlook.observe(25.0)
    assert outlook.refine(past).value == pytest.approx(25.0)


def test_a_reader_reads_less_of_a_real_place_while_it_is_told_of_a_slowdown(tmp_path: Path) -> None:
    fsspec.register_implementation("throttled", Throttled, clobber=True)
    Throttled.bandwidth = lambda name: 8e4
    try:
        fields = [numpy.random.default_rng(step).normal(size=(30, 30, 30)).astype("f4") for step in range(8)]
        shared = adaptive.Tier(f"throttled://{tmp_path}/shared", connections=1, request_bytes=PIECE_BYTES)
        tiers: list[Any] = [str(tmp_path / "fast"), shared]
        adaptive.write(tiers, fields, tolerance=1e-3, chunk_bytes=PIECE_BYTES)
        told: list[float] = [1.0]
        read = []
        policy = adaptive.Budget(seconds=0.6, seconds_max=60.0)
        for step in adaptive.open(tiers, policy=policy, warm_up_steps=3, slowdowns=lambda: told[0]):
            read.append(step.tiers[1].wanted_bytes)
            # The eighth step, number 7, is told of a slowdown.
            told[0] = 100.0 if step.number >= 6 else 1.0
    finally:
        del Throttled.bandwidth
    assert len(read) == 8 and 0 < read[6] < 200_000
    assert read[7] < read[6] / 4


@pytest.mark.parametrize(
    ("name", "least"),
    [("below 2", 1.0), ("2 to 5", 2.0), ("from 5", 5.0), ("1.5 to 2", 1.5), ("not known", None), ("", None)],
)
def test_a_class_has_a_least_slowdown(name: str, least: float | None) -> None:
    assert least_of(name) == least


def test_the_largest_likely_slowdown_of_the_next_window_counts() -> None:
    told = [(0, "below 2", 0.9), (1, "2 to 5", 0.6), (1, "from 5", 0.4), (3, "from 5", 0.9)]
    assert likely_slowdown([PredictedHorizon(*each, ()) for each in told]) == 2.0
    assert likely_slowdown([PredictedHorizon(0, "not known", 1.0, ())]) is None and likely_slowdown([]) is None


def test_the_predictions_of_a_store_are_asked_for() -> None:
    horizons = (PredictedHorizon(0, "2 to 5", 0.8, (0.1, 0.8, 0.1)),)
    jobs = tuple(
        JobPrediction(name, "u", 1, "trees", horizons if name == "mine" else (), (), 1.0, 1.0, 1.0, ())
        for name in ("other", "mine")
    )
    with weir.store.up(mount=False) as store:
        slowdowns = StoreSlowdowns(store.servers, "mine")
        stranger = StoreSlowdowns(store.servers, "stranger")
        store.servers[0].tell_interference(Predictions(7, 60.0, (), jobs))
        assert slowdowns.ask() == 2.0
        wait_until("the thread has an answer", lambda: slowdowns() == 2.0)
        assert stranger.ask() is None
        store.down(discard=True)
        with pytest.raises(weir.store.StoreError):
            stranger.ask()


def test_a_store_without_a_predictor_tells_the_slowdown_of_the_last_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.toml"
    speed = 'speed = { read = "64MB/s", write = "64MB/s", fixed = "1ms" }'
    target = f'[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n{speed}\n'
    file.write_text(f'version = 1\npolicy = "fifo"\nwindow = "300ms"\n[[server]]\n{target}')
    loop = "while dd if=/dev/zero of=/weir/file bs=64k count=512 conv=notrunc status=none; do :; done"
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store, store.job(job="mine") as environment:
        for name in ("WEIR_CLUSTER", "WEIR_CREDENTIAL"):
            monkeypatch.setenv(name, environment[name])
        slowdowns = store_slowdowns()

        def is_told() -> bool:
            found = slowdowns.ask()
            assert found is None or found >= 1.0
            return found is not None

        # The job goes on meanwhile, so its work is in the last window however late the question comes.
        with subprocess.Popen(["sh", "-c", loop], env=environment, start_new_session=True) as writer:
            try:
                wait_until("the job had device time in the last window", is_told)
            finally:
                os.killpg(writer.pid, signal.SIGKILL)
        every = [window for server in store.servers for window in server.windows(0).windows]
        mine = [measured(window, "mine") for window in every]
        known = [each for each in mine if each is not None]
        assert known and max(known) == pytest.approx(1.0), "the job was alone"
        assert {measured(window, "nobody") for window in every} == {None}
        store.down(discard=True)
    monkeypatch.delenv("WEIR_CREDENTIAL")
    with pytest.raises(weir.store.StoreError, match="no store and no job"):
        store_slowdowns()


def test_the_store_the_guard_and_a_reader_tell_the_same_slowdown_of_the_same_waits() -> None:
    assert measured_slowdown(2.0, 1.0) == 1.5 and measured_slowdown(2.0, 0.0) == 1.0
    assert waited_ratio(2.0, 1.0) == 0.5 and waited_ratio(0.0, 1.0) is measured_slowdown(0.0, 1.0) is None
    lines = (line_of("job", 2.0, waits=(0.75,), others=0.25), line_of("other", 1.0))
    assert measured(Window(1, (), lines, 0), "job") == 1.5
    job, other, idle, starved = (JobKey(name, 1) for name in ("job", "other", "idle", "starved"))
    seen = {"0.0": {job: Use(0.2, {other: 0.1}), idle: Use(0.0), starved: Use(0.0, {other: 0.5})}}
    observation = Observation(1, 1.0, "fifo", (), seen)
    assert observation.slowdown(job) == pytest.approx(1.5) and observation.slowdown(idle) == 1.0
    assert observation.slowdown(starved) == SLOWDOWN_MAX


def line_of(job: str, device_seconds: float, waits: tuple[float, ...] = (), others: float = 0.0) -> ObservedJob:
    counts: dict[str, Any] = {each.name: 0 for each in fields(ObservedJob)}
    known: dict[str, Any] = {"job": job, "user": "user", "device": "0.0", "device_seconds": device_seconds}
    waited = tuple(WaitedFor("other", "user", 1, seconds) for seconds in waits)
    return ObservedJob(**{**counts, **known, "waited_for": waited, "waited_for_others_seconds": others})
