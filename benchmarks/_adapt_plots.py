"""The plots of the experiment, as PNG files in `benchmarks/out`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from _adapt_experiment import Measured
from _running import OUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES = (4.6, 3.4)
_PANELS: tuple[tuple[str, Callable[[Measured], float]], ...] = (
    ("mean I/O time (ms)", lambda each: 1e3 * each.mean),
    ("variance of I/O time (ms²)", lambda each: 1e6 * each.variance),
    ("PSNR (dB)", lambda each: each.psnr),
)


def bars(name: str, title: str, groups: Mapping[str, Sequence[Measured]]) -> Path:
    """Mean and variance of the I/O time and PSNR, a group of bars for each entry."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES[0] * len(_PANELS), _INCHES[1] + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    labels = list(dict.fromkeys(label(each) for cases in groups.values() for each in cases))
    width = 0.8 / len(labels)
    for place, (what, value) in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
        for number, case in enumerate(labels):
            heights = [
                next((value(each) for each in cases if label(each) == case), float("nan")) for cases in groups.values()
            ]
            place.bar(
                [at + width * (number - (len(labels) - 1) / 2) for at in range(len(groups))], heights, width, label=case
            )
        place.set_xticks(range(len(groups)), list(groups))
        place.set_ylabel(what)
        if "variance" in what:
            place.set_yscale("log")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4), fontsize=8)
    return _saved(figure, name)


def over_time(name: str, title: str, runs: Mapping[str, Sequence[Measured]], period_seconds: float) -> Path:
    """I/O time of every step, a panel for each entry (the paper's figure 11)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES[0] * len(runs), _INCHES[1] + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for place, (what, cases) in zip(figure.subplots(1, len(runs), squeeze=False).flat, runs.items(), strict=True):
        for each in cases:
            times = [period_seconds * step for step in range(len(each.seconds))]
            place.plot(times, [1e3 * seconds for seconds in each.seconds], label=label(each), linewidth=1.2)
        place.set_title(what, fontsize=10)
        place.set_xlabel("time behind the warm-up (s)")
        place.set_ylabel("I/O time (ms)")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4), fontsize=8)
    return _saved(figure, name)


def label(each: Measured) -> str:
    """Codec and case, as legends name them."""
    return f"{each.codec}, {each.case}"


def _saved(figure: "Figure", name: str) -> Path:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.png"
    figure.savefig(path, dpi=110)
    return path
