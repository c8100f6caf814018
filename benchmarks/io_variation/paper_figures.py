"""The paper's figures 11 to 14 and 16 to 18: the experiment, and its dependence on noise, period, thresholds and
budget.
"""

import re
import statistics
import sys
from collections.abc import Mapping, Sequence

from _harness import announce
from weir.experiments.shared_tier import CADENCE_SECONDS, CAPACITY_MEGABYTES, PAPER, Noise, SharedTier

from io_variation.analyses import ANALYSES, SCALE
from io_variation.experiment import BEST_EFFORT, ISOLATION, Case, Experiment, Measured, budget, paper_plot
from io_variation.plots import Mark, bars, label, over_time, scores

SMALL = (Noise(128, 80), Noise(256, 60), Noise(512, 100))
"""The noise of the paper's table VII."""
_XGC, _, _JET = ANALYSES
PERIODS_SECONDS = (25.0, 35.0, 50.0)
"""Periods of the analysis; above 30 s it does not see every checkpoint (figure 17)."""
THRESHOLDS = ((0.5, 0.75), (0.5, 1.0), (0.25, 1.0))
"""Thresholds of the plot, as parts of the capacity: the paper's 60-90, 60-120 and 30-120 MB/s (figure 18)."""
SHARES = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2}
"""Time budgets, as parts of the time of reading everything."""
PUBLISHED_MEAN, PUBLISHED_VARIANCE = 0.33, 0.04
"""Mean and variance of dynamic reading beside best effort, for Jet: the paper's section IV-C. Other figures it only
draws."""
PUBLISHED_SMALL_VARIANCE = 0.2
"""Variance of best effort under small noise beside large noise: the paper's section IV-D1."""
_OTHERS = {
    "plot": "decimate, the paper's policy",
    "time_budget": "decimate, a quarter too",
    "same_seconds": "decimate, the same seconds",
}
"""Cases of decimation, by their keys."""


def figures_11_to_14() -> dict[str, float]:
    """Three analyses, the paper's three cases, two codecs: I/O times, PSNR, and the scores of the analyses.

    Decimation also reads with the policy of `planes`: as a rule, a quarter of the time of reading everything, which is
    longer for decimation, and once with the very seconds of `planes`. The remaining difference is the codec's.
    """
    runs: dict[str, list[Measured]] = {}
    for analysis in ANALYSES:
        with SharedTier(scale=SCALE) as tier:
            experiment = Experiment(tier, analysis)
            whole, best = (experiment.run(codec, BEST_EFFORT) for codec in ("decimate", "planes"))
            runs[analysis.name] = [
                whole,
                experiment.run("decimate", paper_plot(CAPACITY_MEGABYTES)),
                experiment.run("decimate", budget(whole.mean)),
                experiment.run("decimate", budget(best.mean, name="same seconds")),
                experiment.run("decimate", ISOLATION),
                best,
                experiment.run("planes", budget(best.mean)),
                experiment.run("planes", ISOLATION),
            ]
        tell(analysis.name, runs[analysis.name])
    over_time("adapt-figure-11", "I/O time of each step", runs, CADENCE_SECONDS)
    bars("adapt-figure-12-13", "I/O time and quality", runs, _published(runs[_JET.name], _JET.name))
    scores("adapt-figure-14", "What the analyses find", runs)
    return _against(runs)


def figure_16() -> dict[str, float]:
    """XGC under large and small noise."""
    runs: dict[str, list[Measured]] = {}
    for name, noises in (("large noise", PAPER), ("small noise", SMALL)):
        with SharedTier(scale=SCALE) as tier:
            runs[name] = _dynamic(Experiment(tier, _XGC), noises)
        tell(name, runs[name])
    large, small = ([each for each in runs[name] if each.case == BEST_EFFORT.name] for name in runs)
    marks = [
        Mark("variance", "small noise", label(each), PUBLISHED_SMALL_VARIANCE * each.variance, "the paper: -80 %")
        for each in large
    ]
    bars("adapt-figure-16", "XGC under large and small noise", runs, marks)
    ratio = small[0].variance / large[0].variance
    announce("variance, small noise", f"{ratio:.2f} of large", f"{PUBLISHED_SMALL_VARIANCE:g} in the paper", ratio)
    return {"variance_small_vs_large_noise": ratio, **_numbers(runs)}


def figure_17() -> dict[str, float]:
    """XGC read less and less often."""
    runs: dict[str, list[Measured]] = {}
    for period in PERIODS_SECONDS:
        name = f"every {period:g} s"
        with SharedTier(scale=SCALE) as tier:
            runs[name] = _dynamic(Experiment(tier, _XGC, period_seconds=period), PAPER)
        tell(name, runs[name])
    bars("adapt-figure-17", "XGC, by the period of the analysis", runs)
    often, *_, seldom = (measured[1] for measured in runs.values())
    return {"variance_50_s_vs_25_s": seldom.variance / often.variance, **_numbers(runs)}


def figure_18() -> dict[str, float]:
    """XGC with several thresholds of the augmentation-bandwidth plot."""
    runs: dict[str, list[Measured]] = {}
    with SharedTier(scale=SCALE) as tier:
        experiment = Experiment(tier, _XGC)
        for low, high in THRESHOLDS:
            name = f"{low * CAPACITY_MEGABYTES:g}-{high * CAPACITY_MEGABYTES:g} MB/s"
            theirs = paper_plot(CAPACITY_MEGABYTES, low=low, high=high)
            online = paper_plot(CAPACITY_MEGABYTES, low=low, high=high, forecaster="online")
            runs[name] = [
                experiment.run("decimate", theirs),
                experiment.run("planes", theirs),
                experiment.run("planes", online),
            ]
            tell(name, runs[name])
    bars("adapt-figure-18", "XGC, by the thresholds of the plot", runs)
    steep, flat, _ = (measured[0] for measured in runs.values())
    return {"variance_60_120_vs_60_90": flat.variance / steep.variance, **_numbers(runs)}


def budgets() -> dict[str, float]:
    """XGC with several time budgets: a user chooses a budget in place of thresholds."""
    runs: dict[str, list[Measured]] = {}
    with SharedTier(scale=SCALE) as tier:
        experiment = Experiment(tier, _XGC)
        best = experiment.run("planes", BEST_EFFORT)
        tell("everything", [best])
        for name, share in SHARES.items():
            time = budget(best.mean, share=share)
            runs[name] = [experiment.run(codec, time) for codec in ("decimate", "planes")]
            tell(f"{name} of it", runs[name])
    bars("adapt-budgets", "XGC, by the part of best effort's time that is planned", runs)
    return _numbers(runs)


def tell(what: str, cases: Sequence[Measured]) -> None:
    """A table for people.

    PSNR is that of the mean squared error of all steps. Behind it stands the mean of the steps' PSNR, in which steps
    without any error, which `whole` counts, weigh as much as all others together.
    """
    print(
        f"\n{what:24} {'mean':>9} {'variance':>12} {'PSNR':>6} {'mean':>6} {'whole':>6} "
        f"{'read':>14} {'forecast':>9}  analysis"
    )
    for each in cases:
        error = f"{statistics.fmean(each.forecast_errors):9.3f}" if each.forecast_errors else f"{'':9}"
        found = ", ".join(f"{name} {value:.3f}" for name, value in each.scores.items())
        print(
            f"{label(each):24} {1e3 * each.mean:6.1f} ms {1e6 * each.variance:8.1f} ms² "
            f"{each.psnr:6.1f} {each.psnr_mean:6.1f} {each.whole:3}/{len(each.seconds):<2} "
            f"{statistics.fmean(each.bytes_read) / 1e6:5.2f} MB {statistics.fmean(each.augmentation):5.1%} "
            f"{error}  {found}"
        )
    sys.stdout.flush()


def _dynamic(experiment: Experiment, noises: Sequence[Noise]) -> list[Measured]:
    """Best effort beside dynamic, the paper's way and ours."""

    def run(codec: str, case: Case) -> Measured:
        return experiment.run(codec, case, noises=noises)

    whole, best = run("decimate", BEST_EFFORT), run("planes", BEST_EFFORT)
    return [whole, run("decimate", paper_plot(CAPACITY_MEGABYTES)), best, run("planes", budget(best.mean))]


def _published(cases: Sequence[Measured], name: str) -> list[Mark]:
    """The paper's reductions, beside every dynamic case of the analyses for which the paper has them."""
    whole = {each.codec: each for each in cases if each.case == BEST_EFFORT.name}
    return [
        Mark(panel, name, label(each), value, "the paper's -67 % and -96 %")
        for each in cases
        if each.case not in (BEST_EFFORT.name, ISOLATION.name)
        for panel, value in (
            ("mean", PUBLISHED_MEAN * whole[each.codec].mean),
            ("variance", PUBLISHED_VARIANCE * whole[each.codec].variance),
        )
    ]


def _against(runs: Mapping[str, Sequence[Measured]]) -> dict[str, float]:
    """Our case beside best effort, and beside decimation with the paper's policy and with ours.

    Keys without the name of an analysis are of the analysis with the worst result.
    """
    result: dict[str, float] = {}
    worst: dict[str, list[float]] = {}
    for name, (whole, plot, rule, same, _, best, ours, isolation) in runs.items():
        others = {"plot": plot, "time_budget": rule, "same_seconds": same}
        each = {
            "io_time_mean_vs_best_effort": ours.mean / best.mean,
            "io_time_variance_vs_best_effort": ours.variance / best.variance,
            "decimate_io_time_mean_vs_best_effort": plot.mean / whole.mean,
            "decimate_io_time_variance_vs_best_effort": plot.variance / whole.variance,
            "psnr_vs_decimate_db": ours.psnr - max(theirs.psnr for theirs in others.values()),
            "psnr_vs_isolation_db": ours.psnr - isolation.psnr,
        }
        for policy, theirs in others.items():
            each[f"io_time_mean_vs_decimate_{policy}"] = ours.mean / theirs.mean
            each[f"io_time_variance_vs_decimate_{policy}"] = ours.variance / theirs.variance
            each[f"psnr_vs_decimate_{policy}_db"] = ours.psnr - theirs.psnr
            each[f"psnr_mean_vs_decimate_{policy}_db"] = ours.psnr_mean - theirs.psnr_mean
        for key, value in each.items():
            result[f"{key}_{name.lower()}"] = value
            worst.setdefault(key, []).append(value)
        result |= {f"score_{score}_{name.lower()}": value for score, value in ours.scores.items()}
        _announce(name, each)
    return {key: min(values) if key.startswith("psnr") else max(values) for key, values in worst.items()} | result


def _announce(name: str, figures: Mapping[str, float]) -> None:
    """One analysis beside the paper's results and the required ones."""
    print()
    for what, key, published in (
        ("mean", "io_time_mean_vs_best_effort", PUBLISHED_MEAN),
        ("variance", "io_time_variance_vs_best_effort", PUBLISHED_VARIANCE),
    ):
        beside = f"{published:g} in the paper" if name == _JET.name else f"{published:g} in the paper, for Jet"
        announce(f"{name}, {what}", f"{figures[key]:.3f} of best effort", beside, figures[key] / published)
    for policy, words in _OTHERS.items():
        for what in ("mean", "variance"):
            ratio = figures[f"io_time_{what}_vs_decimate_{policy}"]
            announce(f"{name}, {what}", f"{ratio:.3f} of decimation", words, ratio)
        gain, mean = (figures[f"{key}_vs_decimate_{policy}_db"] for key in ("psnr", "psnr_mean"))
        print(f"{f'{name}, PSNR':20} {f'{gain:+.1f} dB':>24}   beside {words} ({mean:+.1f} dB in the mean of decibels)")


def _numbers(runs: Mapping[str, Sequence[Measured]]) -> dict[str, float]:
    return {
        _key(name, each.codec, each.case, what): value
        for name, cases in runs.items()
        for each in cases
        for what, value in (("mean_seconds", each.mean), ("variance", each.variance), ("psnr_db", each.psnr))
    }


def _key(*words: str) -> str:
    return re.sub(r"\W+", "_", "_".join(words).lower())
