"""The pace that a budget keeps where the place is sometimes slow: real reads, many small steps."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import fsspec
import numpy
import pytest
from places import Throttled
from weir import adaptive
from weir.adaptive.policy import Policy

STEPS = 77
WARM_UP = 14
CADENCE_SECONDS = 0.24
PIECE_BYTES = 1 << 12
FAST, SLOW = 4e6, 0.3e6
"""Bytes per second: a step's reads take about 12 or 150 ms, and a busy machine adds tens."""


@pytest.fixture
def slow_seeds() -> Iterator[random.Random]:
    """A shared place, slow when somebody else is busy."""
    fsspec.register_implementation("throttled", Throttled, clobber=True)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    yield random.Random(seed)
    del Throttled.bandwidth


@pytest.fixture
def slowed(tmp_path: Path, slow_seeds: random.Random) -> list[Any]:
    """Tiers of five steps, of which the last comes at a four-hundredth of the others' bandwidth.

    A step takes so long that a busy machine changes no forecast by much.
    """
    Throttled.bandwidth = lambda name: FAST / 5 if int(name.partition(".")[0]) < 4 else FAST / 2000
    noise = numpy.random.default_rng(slow_seeds.randrange(1 << 32))
    fields = [noise.normal(size=(30, 30, 30)).astype("f4") for _ in range(5)]
    shared = adaptive.Tier(f"throttled://{tmp_path}/shared", connections=1, request_bytes=PIECE_BYTES)
    tiers: list[Any] = [str(tmp_path / "fast"), shared]
    adaptive.write(tiers, fields, tolerance=1e-3, chunk_bytes=PIECE_BYTES)
    return tiers


def last_of(tiers: list[Any], budget: adaptive.Budget) -> adaptive.Step:
    return list(adaptive.open(tiers, policy=budget, warm_up_steps=3))[-1]


def test_no_read_begins_once_the_time_is_over(slowed: list[Any]) -> None:
    step = last_of(slowed, adaptive.Budget(seconds=0.2, seconds_max=60.0))
    assert 0 < step.tiers[1].read_bytes < step.tiers[1].wanted_bytes / 4
    assert not step.late


def test_a_read_that_has_begun_is_given_up_in_the_end(slowed: list[Any]) -> None:
    step = last_of(slowed, adaptive.Budget(seconds=0.2))
    assert step.tiers[1].read_bytes == 0
    assert step.tiers[1].bandwidth is None
    assert step.late


def times_of(tiers: list[Any], policy: Policy | str) -> tuple[list[float], list[float]]:
    """Seconds that the shared place takes for each step's reads, without those of a busy machine; augmentations."""
    begun = time.monotonic()
    steps = []
    for step in adaptive.open(tiers, policy=policy, warm_up_steps=WARM_UP):
        steps.append(step)
        time.sleep(max(begun + len(steps) * CADENCE_SECONDS - time.monotonic(), 0.0))
    assert not any(step.late or step.problems for step in steps)
    del steps[:WARM_UP]
    seconds = [step.tiers[1].read_bytes / Throttled.bandwidth(f"{step.number}.") for step in steps]
    return seconds, [step.augmentation for step in steps]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::weir.adaptive.AdaptiveWarning")
def test_a_budget_of_variance_is_kept_where_the_place_is_sometimes_slow(
    tmp_path: Path, slow_seeds: random.Random
) -> None:
    # Somebody else is busy in three steps of seven, and every read is up to a tenth off.
    chance = [slow_seeds.uniform(0.9, 1.1) for _ in range(STEPS)]

    def bandwidth(name: str) -> float:
        number = int(name.partition(".")[0])
        return (SLOW if number % 7 < 3 else FAST) * chance[number]

    Throttled.bandwidth = bandwidth
    noise = numpy.random.default_rng(slow_seeds.randrange(1 << 32))
    fields = (noise.normal(size=(30, 30, 30)).astype("f4") for _ in range(STEPS))
    shared = adaptive.Tier(f"throttled://{tmp_path}/shared", request_bytes=PIECE_BYTES)
    tiers: list[Any] = [str(tmp_path / "fast"), shared]
    assert adaptive.write(tiers, fields, tolerance=1e-3, chunk_bytes=PIECE_BYTES) == STEPS

    usual, whole = times_of(tiers, "best-effort")
    assert min(whole) == 1.0
    accepted = pvariance(usual) / 16
    kept, augmented = times_of(tiers, adaptive.Budget(variance=accepted))
    print(f"variance {pvariance(usual):.3g} s2 by best effort, {pvariance(kept):.3g} of {accepted:.3g} accepted")
    print(f"mean {fmean(usual):.3g} s and {fmean(kept):.3g} s, augmentation {fmean(augmented):.2f}")
    assert pvariance(kept) < pvariance(usual) / 4
    assert fmean(kept) < fmean(usual)
    # A budget on a busy machine reads less, and one that reads nothing varies even less.
    assert fmean(augmented) > 0.02
