"""Forecasts of the bandwidth that an analysis perceives, one step ahead: every method, simulated and measured.

make bench-forecast     every case, and figure 15 of the paper; the last line is one JSON object

Simulated: a device that is shared fairly by an analysis every 25 s and periodic checkpoints (see _noise.py), at 120 and
60 MB/s; two hours each, of which the first window (48 steps) only teaches. Measured: what was left of the bandwidth of
one of Edison's scratch file systems on a day of 2018, by 25 s. Errors are |forecast - value| / value, their means.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from _harness import OUT, announce, finish
from _noise import IRREGULAR, REGIME, REGIME_SECONDS, Array, Series, simulate
from _traffic_data import PERIOD_SECONDS, total_bytes_per_second
from weir.cli.common.output import table_lines
from weir.experiments.shared_tier import CADENCE_SECONDS, PAPER, Noise
from weir.prediction.bandwidth import NAMES, WINDOW, make
from weir.prediction.bandwidth.online import Online

SEEDS = range(5)
STEPS = 288
CAPACITIES = (120.0, 60.0)
REGIME_STEP = round(REGIME_SECONDS / CADENCE_SECONDS)
EDISON_BYTES_PER_SECOND = 48e9
"""Capacity of the file system, 24 OSTs: NERSC names 168 GB/s for Edison's three scratch file systems together
(nersc.gov/users/storage-and-file-systems/file-systems), which have 24, 24 and 36 OSTs (data/ost-map.txt.gz)."""
EDISON_LEFT_MIN = 0.05
"""Least part of the capacity that is left to others."""
ONLINE, PAPER_DFT = "online", "paper-dft"
FIGURE_WINDOW = 24
"""Steps of the window in the paper's figure 15: 600 s."""
PAPER_FIGURE = f"{PAPER_DFT}, window 600 s"
_LEGEND = {
    PAPER_FIGURE: "the paper's, window 600 s",
    PAPER_DFT: f"the paper's, window {WINDOW * CADENCE_SECONDS:g} s",
    ONLINE: "online",
}
SMOOTH_STEPS = 6
RECOVERED = 0.1
"""Mean error over `SMOOTH_STEPS` steps below which a method has learnt the new regime, if it stays there."""


@dataclass(frozen=True)
class Case:
    """One column."""

    name: str
    key: str
    noises: Sequence[Noise]
    jitter: float = 0.0
    first: int = WINDOW
    """Number of the first step whose error counts."""
    end: int = STEPS
    """Number of the first step whose error no longer counts."""


# The new regime counts for one window: the time that the paper's way takes to forget the old one.
CASES = (
    Case("the paper's three", "paper", PAPER),
    Case("83.7, 57.3, 101.9 s", "irregular", IRREGULAR),
    Case("2 % jitter", "jitter", PAPER, jitter=0.02),
    Case("another one starts", "regime", REGIME, first=REGIME_STEP, end=REGIME_STEP + WINDOW),
)
ASKED = {"paper": 0.035, "irregular": 0.20, "jitter": 0.23, "regime": 0.23}
"""Error that the online choice must reach, the larger of both capacities; of the measured series, less than last
value."""


@dataclass(frozen=True)
class Outcome:
    """The results of the methods on one series."""

    errors: dict[str, Array]
    """Error of each step; the first has none and counts 0. A method that knows too little yet counts as the last
    value."""
    covered: float
    """Part of the steps, from the second window on, that lay in the online choice's interval of 80 %."""


def outcome(series: Series) -> Outcome:
    """All methods on a series, step after step: the online choice asks them all."""
    online, paper = make(), make(PAPER_DFT, window=FIGURE_WINDOW)
    assert isinstance(online, Online)
    errors = {name: np.zeros(len(series.seconds)) for name in (*NAMES, PAPER_FIGURE)}
    covered = []
    for step, (time, value) in enumerate(zip(series.seconds.tolist(), series.bandwidth.tolist(), strict=True)):
        if step:
            each, together = online.said(time), online.forecast(time)
            each |= {ONLINE: together.value, PAPER_FIGURE: paper.forecast(time).value}
            for name, known in errors.items():
                known[step] = abs(each.get(name, each["last-value"]) - value) / value
            if step >= WINDOW:
                covered.append(together.low <= value <= together.high)
        online.observe(time, value)
        paper.observe(time, value)
    return Outcome(errors, float(np.mean(covered)))


def edison(*, capacity: float | None = EDISON_BYTES_PER_SECOND) -> Series:
    """The bandwidth that Edison's scratch file system had left, in GB/s; without a `capacity`, of the most that it ever
    moved.
    """
    samples = round(CADENCE_SECONDS / PERIOD_SECONDS)
    moved = total_bytes_per_second().reshape(-1, samples).mean(axis=1)
    whole = float(moved.max()) if capacity is None else capacity
    left = np.maximum(whole - moved, EDISON_LEFT_MIN * whole) / 1e9
    seconds = np.arange(len(left), dtype=np.float64) * CADENCE_SECONDS
    return Series(np.asarray(seconds, dtype=np.float64), np.asarray(left, dtype=np.float64))


Job = tuple[str, float, int]
"""Key of a case, capacity, seed."""
REAL: dict[Job, tuple[str, float | None]] = {
    ("real", 0.0, 0): (f"Edison, of {EDISON_BYTES_PER_SECOND / 1e9:g} GB/s", EDISON_BYTES_PER_SECOND),
    ("real_largest", 0.0, 0): ("Edison, of the largest rate", None),
}
"""The last columns, and the capacity of each."""


def run(job: Job) -> Outcome:
    """One series; in a process of its own."""
    key, capacity, seed = job
    if job in REAL:
        return outcome(edison(capacity=REAL[job][1]))
    case = next(case for case in CASES if case.key == key)
    random = np.random.default_rng([seed, round(capacity)])
    return outcome(simulate(case.noises, capacity=capacity, steps=STEPS, random=random, jitter=case.jitter))


def every_outcome() -> dict[Job, Outcome]:
    """All series, on all processors."""
    jobs = [*REAL, *((case.key, rate, seed) for case in CASES for rate in CAPACITIES for seed in SEEDS)]
    with ProcessPoolExecutor() as pool:
        return dict(zip(jobs, pool.map(run, jobs), strict=True))


def tell(outcomes: dict[Job, Outcome]) -> dict[str, float]:
    """The table, and the figures of the online choice."""
    figures: dict[str, float] = {}
    rows = []
    for method in NAMES:
        row = [method]
        for case in CASES:
            for rate in CAPACITIES:
                series = [outcomes[case.key, rate, seed].errors[method] for seed in SEEDS]
                errors = [float(each[case.first : case.end].mean()) for each in series]
                row.append(f"{np.median(errors):.3f} {max(errors):.3f}")
                if method == ONLINE:
                    for key, value in ((case.key, np.median(errors)), (f"{case.key}_worst", max(errors))):
                        name = f"forecast_error_{key}"
                        figures[name] = max(figures.get(name, 0.0), float(value))
        for job in REAL:
            real = float(outcomes[job].errors[method][WINDOW:].mean())
            row.append(f"{real:.4f}")
            key = f"forecast_error_{job[0]}"
            figures[key if method == ONLINE else f"{key}_{method.replace('-', '_')}"] = real
        rows.append(tuple(row))
    header = ("median and worst of seeds", *(f"{case.name}, {rate:g}" for case in CASES for rate in CAPACITIES))
    print(*table_lines((*header, *(name for name, _ in REAL.values())), rows), sep="\n", flush=True)
    covered = [each.covered for each in outcomes.values()]
    tell_asked(figures)
    return figures | {"interval_coverage": float(np.mean(covered)), "interval_coverage_worst": min(covered)}


def tell_asked(figures: dict[str, float]) -> None:
    """The requested figures, beside the limits."""
    for key, asked in ASKED.items():
        name = f"forecast_error_{key}"
        announce(key, f"{figures[name]:.4f}", f"{asked:g} asked", figures[name] / asked)
    for key, _, _ in REAL:
        name = f"forecast_error_{key}"
        last, paper = figures[f"{name}_last_value"], figures[f"{name}_paper_dft"]
        announce(key, f"{figures[name]:.4f}", f"{last:.4f} last value, {paper:.4f} DFT", figures[name] / last)


def figure_15(outcomes: dict[Job, Outcome]) -> dict[str, float]:
    """The time until each method learns that another program has started; drawn beside the paper's way.

    Errors are averaged over seeds and capacities, and then over the steps of the last `SMOOTH_STEPS`.
    """
    lines = {PAPER_FIGURE: "paper_dft_600_s", PAPER_DFT: "paper_dft_1200_s", ONLINE: "online"}
    curves, figures = {}, {}
    for name, key in lines.items():
        errors = np.mean([each.errors[name] for job, each in outcomes.items() if job[0] == "regime"], axis=0)
        curves[name] = np.convolve(errors, np.ones(SMOOTH_STEPS) / SMOOTH_STEPS)[: len(errors)]
        wrong = np.flatnonzero(curves[name][REGIME_STEP:] > RECOVERED)
        if len(wrong) and wrong[-1] < len(errors) - REGIME_STEP - WINDOW:
            figures[f"regime_recovery_seconds_{key}"] = (int(wrong[-1]) + 1) * CADENCE_SECONDS
        figures[f"regime_error_600_s_{key}"] = float(errors[REGIME_STEP : REGIME_STEP + FIGURE_WINDOW].mean())
    mine, papers = figures["regime_error_600_s_online"], figures["regime_error_600_s_paper_dft_600_s"]
    announce("600 s after a change", f"{mine:.3f}", f"{papers:.3f} by the paper's way", mine / papers)
    draw(curves)
    return figures


def draw(curves: dict[str, Array]) -> None:
    """The curves, into `benchmarks/out/forecast-figure-15.png`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(7.5, 4), layout="constrained")
    FigureCanvasAgg(canvas)
    place = canvas.subplots()
    for name, errors in curves.items():
        first = FIGURE_WINDOW + SMOOTH_STEPS
        place.plot(CADENCE_SECONDS * np.arange(first, len(errors)), errors[first:], label=_LEGEND[name])
    for seconds, label in ((0, "another 512 MB every 75 s"), (600, "one window later")):
        place.axvline(REGIME_SECONDS + seconds, color="black", linestyle=":" if seconds else "--", label=label)
    place.set_xlabel("time (s)")
    place.set_ylabel(f"relative error, over {SMOOTH_STEPS} steps")
    place.set_ylim(bottom=0)
    place.grid(alpha=0.3)
    place.legend(fontsize=8)
    OUT.mkdir(exist_ok=True)
    canvas.savefig(OUT / "forecast-figure-15.png", dpi=110)


def forecasts() -> dict[str, float]:
    """Every figure."""
    outcomes = every_outcome()
    return tell(outcomes) | figure_15(outcomes)


if __name__ == "__main__":
    finish("forecast", forecasts())
