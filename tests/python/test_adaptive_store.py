"""Adaptive reading from a Weir store: on its mount, and by what its servers say."""

import gc
import threading
import time
from pathlib import Path

import answers
import numpy
import pytest
from store import Store
from waits import PATIENCE_SECONDS, wait_until
from weir import adaptive
from weir.adaptive.server_forecast import ServerForecast, ServerPoll, available_of, server_forecast_of
from weir.prediction.bandwidth import Forecast


class Scripted(ServerPoll):
    """A store that says what a test wants."""

    said: float | None = None

    def available(self) -> float | None:
        return self.said


def test_a_stream_on_a_mount_is_read_with_the_servers_figures(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.up(read_speed="100MB/s", targets=2)
    monkeypatch.setenv("WEIR_CLUSTER", str(store.home / "cluster.json"))
    monkeypatch.setenv("WEIR_MOUNT", str(store.mount))
    tiers = [str(tmp_path / "fast"), str(store.mount / "run")]
    field = numpy.random.default_rng(5).normal(size=(40, 50, 60)).astype("f4")
    adaptive.write(tiers, [field, field + 1], exact=True)
    steps = list(adaptive.open(tiers, policy=adaptive.Budget(seconds=60.0), warm_up_steps=1))
    assert numpy.array_equal(steps[0].data, field)
    assert numpy.array_equal(steps[1].data, field + 1)

    assert server_forecast_of(tiers[0]) is None, "a tier elsewhere has no servers"
    figures = server_forecast_of(tiers[1])
    assert figures is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Two targets of 100 MB/s, of which the only job may use all, once what it read itself is past.
    while (available := figures.available()) != pytest.approx(2e8, rel=0.01) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert available == pytest.approx(2e8, rel=0.01)
    del figures
    gc.collect()
    polls = "weir-adaptive-store"
    wait_until("the polls end with their readers", lambda: all(each.name != polls for each in threading.enumerate()))


def test_without_a_store_there_are_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_MOUNT", str(tmp_path))
    monkeypatch.delenv("WEIR_CLUSTER", raising=False)
    assert server_forecast_of(str(tmp_path / "run")) is None
    monkeypatch.setenv("WEIR_CLUSTER", str(tmp_path / "cluster.json"))
    assert server_forecast_of(str(tmp_path / "run")) is None


def test_what_is_free_or_owed_is_available() -> None:
    cost = {"fixed_seconds": 0.0, "bytes_per_second": 100}
    speed = {"read_bytes_per_second": 40, "write_bytes_per_second": None, "fixed_seconds": 0.0}
    busy = answers.target(load=0.75, cost={"read": cost, "write": cost})
    targets = [busy, answers.target(speed=speed, cost={"read": cost, "write": cost})]
    mine, other = answers.job(job="a", share_owed=0.4), answers.job(job="b", share_owed=0.6)
    assert available_of(targets, [mine, other], "a") == pytest.approx(100 * 0.4 + 40)
    assert available_of(targets, [other], "a") == pytest.approx(100 * 0.5 + 40)
    elsewhere = answers.job(job="a", devices=[], share_owed=0.0)
    assert available_of(targets, [elsewhere, other], "a") == pytest.approx(100 * 0.5 + 40), "no share there yet"
    assert available_of(targets, [], None) == pytest.approx(140)
    assert available_of([busy], [other] * 9, "a") == pytest.approx(25)


def test_figures_are_used_while_they_are_closer_than_the_past() -> None:
    poll = Scripted([], None)
    figures = ServerForecast(poll)
    past = Forecast(100.0, 90.0, 110.0, "last-value")
    # The servers see each change as it comes; the past sees it a step later.
    for step in range(16):
        poll.said = 1000.0 if step % 2 else 400.0
        used = figures.refine(past)
        assert step > 8 or used is past, "a few steps tell nothing"
        figures.observe(poll.said / 4)
    assert used.method == "store"
    assert used.value == pytest.approx(250.0)
    assert used.low <= used.value <= used.high
    # A store that is wrong from now on loses.
    poll.said = 400.0
    for step in range(20):
        came = 100.0 + 300.0 * (step % 2)
        exact = Forecast(came, came, came, "last-value")
        used = figures.refine(exact)
        figures.observe(came)
    assert used is exact
    poll.said = None
    assert figures.refine(past) is past
