"""The paper's figures 11 to 14 and 16 to 18: the experiment, and what it depends on."""

import sys
from collections.abc import Sequence

from _adapt_analyses import ANALYSES, SCALE
from _adapt_experiment import BEST_EFFORT, ISOLATION, Case, Experiment, Measured, budget, paper_plot
from _adapt_plots import bars, label, over_time
from _adapt_store import CAPACITY_MEGABYTES, SharedTier
from _noise import CADENCE_SECONDS, PAPER, Noise

SMALL = (Noise(128, 80), Noise(256, 60), Noise(512, 100))
"""Table VII of the paper."""
_XGC, _, _JET = ANALYSES
PERIODS_SECONDS = (25.0, 35.0, 50.0)
"""Of the analysis; above 30 s it does not see every checkpoint (figure 17)."""
THRESHOLDS = ((0.5, 0.75), (0.5, 1.0), (0.25, 1.0))
"""Of the plot, as parts of the capacity: the paper's 60-90, 60-120 and 30-120 MB/s (figure 18)."""


def figures_11_to_14() -> dict[str, float]:
    """Three analyses, three cases, two codecs: I/O times, PSNR, and what the analyses find."""
    runs: dict[str, list[Measured]] = {}
    for analysis in ANALYSES:
        with SharedTier(scale=SCALE) as tier:
            experiment = Experiment(tier, analysis)
            best = {codec: experiment.run(codec, BEST_EFFORT) for codec in ("decimate", "planes")}
            runs[analysis.name] = [
                best["decimate"],
                experiment.run("decimate", paper_plot(tier.capacity_megabytes)),
                experiment.run("decimate", ISOLATION),
                best["planes"],
                experiment.run("planes", budget(best["planes"].mean)),
                experiment.run("planes", ISOLATION),
            ]
        tell(analysis.name, runs[analysis.name])
    over_time("adapt-figure-11", "I/O time of each step", runs, CADENCE_SECONDS)
    bars("adapt-figure-12-13", "I/O time and quality", runs)
    return _against(runs)


def figure_16() -> dict[str, float]:
    """XGC under large and small noise."""
    runs: dict[str, list[Measured]] = {}
    for name, noises in (("large noise", PAPER), ("small noise", SMALL)):
        with SharedTier(scale=SCALE) as tier:
            experiment = Experiment(tier, _XGC)
            runs[name] = _dynamic(experiment, noises)
        tell(name, runs[name])
    bars("adapt-figure-16", "XGC under large and small noise", runs)
    return _numbers(runs)


def figure_17() -> dict[str, float]:
    """XGC read less and less often."""
    runs: dict[str, list[Measured]] = {}
    for period in PERIODS_SECONDS:
        name = f"{period:g} s"
        with SharedTier(scale=SCALE) as tier:
            runs[name] = _dynamic(Experiment(tier, _XGC, period_seconds=period), PAPER)
        tell(name, runs[name])
    bars("adapt-figure-17", "XGC, by the period of the analysis", runs)
    return _numbers(runs)


def figure_18() -> dict[str, float]:
    """XGC with several thresholds of the augmentation-bandwidth plot."""
    runs: dict[str, list[Measured]] = {}
    with SharedTier(scale=SCALE) as tier:
        experiment = Experiment(tier, _XGC)
        for low, high in THRESHOLDS:
            name = f"{low * CAPACITY_MEGABYTES:g}-{high * CAPACITY_MEGABYTES:g} MB/s"
            case = paper_plot(tier.capacity_megabytes, low=low, high=high)
            online = Case(f"{case.name}, online", case.policy, case.arguments)
            runs[name] = [
                experiment.run("decimate", case),
                experiment.run("planes", case),
                experiment.run("planes", online),
            ]
            tell(name, runs[name])
    bars("adapt-figure-18", "XGC, by the thresholds of the plot", runs)
    return _numbers(runs)


def tell(what: str, cases: Sequence[Measured]) -> None:
    """A table for people."""
    print(f"\n{what:32} {'mean':>9} {'variance':>10} {'PSNR':>7} {'worst':>6} {'read':>6} {'forecast':>9}  analysis")
    for each in cases:
        error = f"{sum(each.forecast_errors) / len(each.forecast_errors):9.3f}" if each.forecast_errors else f"{'':9}"
        scores = ", ".join(f"{name} {value:.3f}" for name, value in each.scores.items())
        print(
            f"{label(each):32} {1e3 * each.mean:6.1f} ms {1e6 * each.variance:6.1f} ms² "
            f"{each.psnr:7.1f} {each.psnr_together:6.1f} "
            f"{sum(each.augmentation) / len(each.augmentation):6.1%} {error}  {scores}"
        )
    sys.stdout.flush()


def _dynamic(experiment: Experiment, noises: Sequence[Noise]) -> list[Measured]:
    """Best effort beside dynamic, the paper's way and ours."""
    best = {codec: experiment.run(codec, BEST_EFFORT, noises=noises) for codec in ("decimate", "planes")}
    plot = paper_plot(experiment.tier.capacity_megabytes)
    return [
        best["decimate"],
        experiment.run("decimate", plot, noises=noises),
        best["planes"],
        experiment.run("planes", budget(best["planes"].mean), noises=noises),
    ]


def _against(runs: dict[str, list[Measured]]) -> dict[str, float]:
    """Ours beside best effort and beside the paper's; of the three analyses, the one where it does worst."""
    result: dict[str, float] = {}
    worst: dict[str, list[float]] = {}
    for name, (whole, theirs, _, best, ours, isolation) in runs.items():
        each = {
            "io_time_mean_vs_best_effort": ours.mean / best.mean,
            "io_time_variance_vs_best_effort": ours.variance / best.variance,
            "decimate_io_time_mean_vs_best_effort": theirs.mean / whole.mean,
            "decimate_io_time_variance_vs_best_effort": theirs.variance / whole.variance,
            "io_time_mean_vs_decimate": ours.mean / theirs.mean,
            "io_time_variance_vs_decimate": ours.variance / theirs.variance,
            "psnr_vs_decimate_db": ours.psnr - theirs.psnr,
            "psnr_together_vs_decimate_db": ours.psnr_together - theirs.psnr_together,
            "psnr_vs_isolation_db": ours.psnr - isolation.psnr,
        }
        for key, value in each.items():
            result[f"{key}_{name.lower()}"] = value
            worst.setdefault(key, []).append(value)
    return {key: min(values) if key.startswith("psnr") else max(values) for key, values in worst.items()} | result


def _numbers(runs: dict[str, list[Measured]]) -> dict[str, float]:
    return {
        f"{label(each)}, {name}: {what}": value
        for name, cases in runs.items()
        for each in cases
        for what, value in (("mean_seconds", each.mean), ("variance", each.variance), ("psnr_db", each.psnr))
    }
