"""What an analysis perceives of a device that periodic checkpoints share with it: a fluid model.

Whoever has work moves bytes all the time; the capacity is divided by weight among them (processor sharing), as a fair
server does. The random source comes in, so a seed is a run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from weir.experiments.shared_tier import CADENCE_SECONDS, PAPER, READ_MEGABYTES, Noise

Array = NDArray[np.float64]

MEASUREMENT_NOISE = 0.03
"""Standard deviation of a measured bandwidth, as a part of it."""


IRREGULAR = (Noise(256, 83.7), Noise(512, 57.3), Noise(768, 101.9))
"""Noise with periods that the cadence of the analysis does not divide."""
REGIME_SECONDS = 1600.0
REGIME = (*PAPER, Noise(512, 75, begin_seconds=REGIME_SECONDS))
"""Noise of another program that starts (section IV-C)."""


@dataclass(frozen=True)
class Series:
    """The steps of the analysis, in their order."""

    seconds: Array
    """Time at which each step begins."""
    bandwidth: Array
    """Bandwidth that each step measures, in MB/s."""


@dataclass
class _Flow:
    remaining: float
    weight: float


def simulate(
    noises: Sequence[Noise],
    *,
    capacity: float,
    steps: int,
    random: np.random.Generator,
    jitter: float = 0.0,
    cadence_seconds: float = CADENCE_SECONDS,
    read_megabytes: float = READ_MEGABYTES,
    measurement_noise: float = MEASUREMENT_NOISE,
    phases: Sequence[float] | None = None,
) -> Series:
    """Run the model.

    Args:
        noises: Programs that share the device.
        capacity: Capacity of the device, in MB/s.
        steps: Number of steps of the analysis.
        random: Draws the phase of each noise, the jitter and the noise of each measurement.
        jitter: Standard deviation of the time between two checkpoints, as a part of the period. It adds up: a program
            that computed longer writes everything later.
        cadence_seconds: Time between the beginnings of two steps; a step that takes longer delays the next.
        read_megabytes: Megabytes that a step reads.
        measurement_noise: Standard deviation of a measured bandwidth, as a part of it.
        phases: Phase of each noise, as a part of its period; drawn where they are left out.
    """
    drawn = list(random.random(len(noises))) if phases is None else list(phases)
    writes = [
        (when, noise)
        for noise, phase in zip(noises, drawn, strict=True)
        for when in _checkpoints(noise, phase, steps * cadence_seconds, jitter, random)
    ]
    writes.sort(key=lambda write: write[0])
    seconds, bandwidth = np.empty(steps), np.empty(steps)
    flows: dict[int, _Flow] = {}
    """The writers that have work; a late one writes both checkpoints one after the other."""
    numbers = {noise: number for number, noise in enumerate(noises)}
    now, place = 0.0, 0
    for step in range(steps):
        begin = max(step * cadence_seconds, now)
        own: _Flow | None = None
        while own is None or own.remaining > 0:
            # The next event: a checkpoint begins, the step begins, or a writer or the step is done.
            active = list(flows.values()) + ([own] if own is not None else [])
            share = capacity / sum(flow.weight for flow in active) if active else 0.0
            done = min((now + flow.remaining / (share * flow.weight) for flow in active), default=math.inf)
            arrival = writes[place][0] if place < len(writes) else math.inf
            then = min(done, arrival, begin if own is None else math.inf)
            for flow in active:
                flow.remaining -= share * flow.weight * (then - now)
                if flow.remaining <= 1e-6:
                    flow.remaining = 0.0
            flows = {number: flow for number, flow in flows.items() if flow.remaining > 0}
            now = then
            if then == arrival:
                noise = writes[place][1]
                flow = flows.setdefault(numbers[noise], _Flow(0.0, noise.weight))
                flow.remaining += noise.megabytes
                place += 1
            elif then == begin and own is None:
                own = _Flow(read_megabytes, 1.0)
        seconds[step], bandwidth[step] = begin, read_megabytes / (now - begin)
    return Series(seconds, bandwidth * np.maximum(1 + measurement_noise * random.standard_normal(steps), 0.1))


def _checkpoints(
    noise: Noise, phase: float, until_seconds: float, jitter: float, random: np.random.Generator
) -> list[float]:
    times = []
    when = noise.begin_seconds + phase * noise.period_seconds
    while when < until_seconds + noise.period_seconds:
        times.append(when)
        when += noise.period_seconds * max(1 + jitter * float(random.standard_normal()), 0.1)
    return times
