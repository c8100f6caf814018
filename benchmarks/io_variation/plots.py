"""The plots of the experiment, as PNG files in `benchmarks/out`: a policy has a colour, a codec a hatch or a line."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from _harness import OUT

from io_variation.experiment import PSNR_MAX_DB, Measured

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS: Mapping[str, tuple[str, Callable[[Measured], float]]] = {
    "mean": ("mean I/O time (ms)", lambda each: 1e3 * each.mean),
    "variance": ("variance of I/O time (ms²)", lambda each: 1e6 * each.variance),
    "psnr": (f"PSNR of all steps (dB; {PSNR_MAX_DB:.1f}: no error)", lambda each: each.psnr),
}
_SCALES = {"mean": 1e3, "variance": 1e6, "psnr": 1.0}
_COLOURS = {
    "best effort": "tab:red",
    "plot": "tab:orange",
    "plot, online": "gold",
    "time budget": "tab:blue",
    "same seconds": "tab:cyan",
    "isolation": "tab:gray",
}
_HATCHES = {"decimate": "///", "planes": ""}
_NAMES = {"blob_f1": "F1", "ssim": "SSIM", "dice": "Dice"}
"""Titles of scores whose key does not read well."""
_WIDTH, _HEIGHT = 5.0, 4.2
_LEGEND_COLUMNS = 5


@dataclass(frozen=True)
class Mark:
    """A published figure, drawn across the bar that it is beside."""

    panel: str
    """Panel of the figure: `mean` (seconds), `variance` (seconds squared) or `psnr` (dB)."""
    group: str
    bar: str
    """Bar of the figure, as `label` names it."""
    value: float
    legend: str


def bars(name: str, title: str, groups: Mapping[str, Sequence[Measured]], marks: Sequence[Mark] = ()) -> Path:
    """Mean and variance of the I/O time and PSNR, a group of bars for each entry."""
    figure = _figure(title, len(_PANELS))
    labels = _labels(groups)
    for place, (panel, (what, value)) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
        drawn = _grouped(place, labels, groups, value)
        for mark in (mark for mark in marks if mark.panel == panel):
            left, width = drawn[mark.group, mark.bar]
            height = mark.value * _SCALES[panel]
            place.plot([left, left + width], [height] * 2, color="black", linewidth=2, label=mark.legend)
        place.set_ylabel(what)
        if panel == "variance":
            _decades(place)
    return _saved(figure, name)


def scores(name: str, title: str, groups: Mapping[str, Sequence[Measured]]) -> Path:
    """The scores of an analysis, a panel for each entry (the paper's figure 14)."""
    figure = _figure(title, len(groups))
    labels = _labels(groups)
    for place, (what, cases) in zip(figure.subplots(1, len(groups), squeeze=False).flat, groups.items(), strict=True):
        by_score = dict.fromkeys(cases[0].scores, cases)
        _grouped_scores(place, labels, by_score)
        place.set_title(what, fontsize=10)
        place.set_ylabel("error beside the original, or likeness")
    return _saved(figure, name)


def over_time(name: str, title: str, runs: Mapping[str, Sequence[Measured]], period_seconds: float) -> Path:
    """I/O time of every step: a column for each entry, a row for each codec (the paper's figure 11)."""
    codecs = list(dict.fromkeys(each.codec for cases in runs.values() for each in cases))
    figure = _figure(title, len(runs), rows=len(codecs))
    places = figure.subplots(len(codecs), len(runs), squeeze=False, sharex=True, sharey="col")
    for row, codec in zip(places, codecs, strict=True):
        for place, (what, cases) in zip(row, runs.items(), strict=True):
            for each in (each for each in cases if each.codec == codec):
                times = [period_seconds * step for step in range(len(each.seconds))]
                milliseconds = [1e3 * seconds for seconds in each.seconds]
                place.plot(times, milliseconds, label=each.case, color=_COLOURS[each.case], linewidth=1.3)
            place.set_title(f"{what}, {codec}", fontsize=10)
            place.set_ylabel("I/O time (ms)")
            place.grid(alpha=0.3)
    for place in places[-1]:
        place.set_xlabel("time since the warm-up (s, as in the paper)")
    return _saved(figure, name)


def label(each: Measured) -> str:
    """Codec and case, as legends name them."""
    return f"{each.codec}, {each.case}"


def _decades(place: "Axes") -> None:
    """A logarithmic axis of whole decades: between them labels would not fit."""
    place.set_yscale("log")
    low, high = place.get_ylim()
    place.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))


def _labels(groups: Mapping[str, Sequence[Measured]]) -> list[str]:
    return list(dict.fromkeys(label(each) for cases in groups.values() for each in cases))


def _grouped(
    place: "Axes",
    labels: Sequence[str],
    groups: Mapping[str, Sequence[Measured]],
    value: Callable[[Measured], float],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Bars side by side in each group; the begin of each, and its width."""
    width = 0.85 / len(labels)
    drawn = {}
    for at, (group, cases) in enumerate(groups.items()):
        for each in cases:
            left = at + width * (labels.index(label(each)) - len(labels) / 2)
            _bar(place, each, left, value(each), width)
            drawn[group, label(each)] = (left, width)
    place.set_xticks(range(len(groups)), list(groups))
    place.grid(axis="y", alpha=0.3)
    return drawn


def _grouped_scores(place: "Axes", labels: Sequence[str], by_score: Mapping[str, Sequence[Measured]]) -> None:
    width = 0.85 / len(labels)
    for at, (score, cases) in enumerate(by_score.items()):
        for each in cases:
            _bar(place, each, at + width * (labels.index(label(each)) - len(labels) / 2), each.scores[score], width)
    names = [_NAMES.get(score, score.removeprefix("blob_").replace("_", "\n")) for score in by_score]
    place.set_xticks(range(len(names)), names, fontsize=8)
    place.grid(axis="y", alpha=0.3)


def _bar(place: "Axes", each: Measured, left: float, height: float, width: float) -> None:
    place.bar(
        left,
        height,
        width,
        align="edge",
        label=label(each),
        color=_COLOURS[each.case],
        hatch=_HATCHES[each.codec],
        edgecolor="white",
        linewidth=0.5,
    )


def _figure(title: str, columns: int, *, rows: int = 1) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    return figure


def _saved(figure: "Figure", name: str) -> Path:
    """With one legend for all panels."""
    from matplotlib.lines import Line2D

    handles: dict[str, Artist] = {}
    for place in figure.axes:
        for handle, text in zip(*place.get_legend_handles_labels(), strict=True):
            handles.setdefault(text, handle)
    # Published results come behind the measured ones.
    handles = dict(sorted(handles.items(), key=lambda item: isinstance(item[1], Line2D)))
    columns = min(len(handles), _LEGEND_COLUMNS)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, fontsize=9)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.png"
    figure.savefig(path, dpi=110)
    return path
