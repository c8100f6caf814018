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
from weir.adaptive import budget, fetch
from weir.adaptive.policy import Policy

STEPS = 77
WARM_UP = 14
CADENCE_SECONDS = 0.12
PIECE_BYTES = 1 << 12
FAST, SLOW = 8e6, 0.6e6
"""Bytes per second: what a step has to read takes about 6 or 75 ms, and a busy machine adds a few."""


@pytest.fixture
def slow_seeds(monkeypatch: pytest.MonkeyPatch) -> Iterator[random.Random]:
    """Pieces as small beside a step as those of large steps are, and a shared place."""
    fsspec.register_implementation("throttled", Throttled, clobber=True)
    for module, name in ((fetch, "PIECE_BYTES_MIN"), (budget, "PROBE_BYTES")):
        monkeypatch.setattr(module, name, PIECE_BYTES)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    yield random.Random(seed)
    del Throttled.bandwidth


def times_of(tiers: list[Any], policy: Policy | str) -> tuple[list[float], list[float]]:
    begun = time.monotonic()
    steps = []
    for step in adaptive.open(tiers, policy=policy, warm_up_steps=WARM_UP):
        steps.append(step)
        time.sleep(max(begun + len(steps) * CADENCE_SECONDS - time.monotonic(), 0.0))
    assert not any(step.late or step.problems for step in steps)
    del steps[:WARM_UP]
    return [step.seconds for step in steps], [step.augmentation for step in steps]


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
    tiers: list[Any] = [str(tmp_path / "fast"), f"throttled://{tmp_path}/shared"]
    assert adaptive.write(tiers, fields, tolerance=1e-3, chunk_bytes=PIECE_BYTES) == STEPS

    usual, whole = times_of(tiers, "best-effort")
    assert min(whole) == 1.0
    accepted = pvariance(usual) / 16
    kept, augmented = times_of(tiers, adaptive.Budget(variance=accepted))
    print(f"variance {pvariance(usual):.3g} s2 by best effort, {pvariance(kept):.3g} of {accepted:.3g} accepted")
    print(f"mean {fmean(usual):.3g} s and {fmean(kept):.3g} s, augmentation {fmean(augmented):.2f}")
    assert pvariance(kept) < pvariance(usual) / 4
    assert fmean(kept) < fmean(usual)
    assert fmean(augmented) > 0.25, "to read nothing would vary even less"
