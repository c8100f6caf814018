"""Adaptive reading: quality and speed of the codecs, forecasts, and the paper's experiment with real I/O.

make bench-adapt                                  the table's four parts; the last line is one JSON object
.venv/bin/python benchmarks/adapt.py PART...      codecs, speed, forecast, experiment, budgets, figure-15, -16, -17, -18

Qiao et al., "Taming I/O variation on QoS-less HPC storage" (IPDPS 2021). Plots go to benchmarks/out/adapt-*.png.
"""

import argparse
import signal
import sys
from collections.abc import Callable
from types import FrameType

import forecast
from _harness import finish
from io_variation import codec_quality, paper_figures

ALL = ("codecs", "speed", "forecast", "experiment")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the parts that are named, or all that the table has."""
    for number in _SIGNALS:
        signal.signal(number, _leave)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts: dict[str, Callable[[], dict[str, float]]] = {
        "codecs": codec_quality.quality,
        "speed": codec_quality.speed,
        "forecast": forecast.forecasts,
        "experiment": paper_figures.figures_11_to_14,
        "budgets": paper_figures.budgets,
        "figure-15": forecast.forecasts,
        "figure-16": paper_figures.figure_16,
        "figure-17": paper_figures.figure_17,
        "figure-18": paper_figures.figure_18,
    }
    parser.add_argument("parts", nargs="*", choices=[*parts, []], metavar="PART", help=", ".join(parts))
    chosen = parser.parse_args().parts or ALL
    figures: dict[str, float] = {}
    for part in chosen:
        figures |= parts[part]()
    finish("adapt" if tuple(chosen) == ALL else f"adapt-{'-'.join(chosen)}", figures)


def _leave(number: int, frame: FrameType | None) -> None:
    """End by an exception, so that no server and no writer stays behind."""
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(f"ended by {signal.Signals(number).name}")


if __name__ == "__main__":
    main()
