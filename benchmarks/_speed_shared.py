"""Four processes that write and read one file, each its own pieces: through the prefix beside `weir run`."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from _harness import compiled
from _speed_places import NOW, before, store
from _speed_rounds import Effort, Figures, Work, compared, measured, rate_figures, worst

WAYS = ("run", "prefix")
PROCESSES = 4
PIECES = {"1m": 1 << 20, "4k": 4096}


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The rates of pieces of 1 MiB and 4 KiB, and the worst ratio of the prefix to `weir run`."""
    load = compiled("speed_load", directory)
    works = [
        Work(f"shared_{verb}_{size}", f"shared-{verb}", piece, effort.seconds)
        for size, piece in PIECES.items()
        for verb in ("write", "read")
    ]
    with ExitStack() as ends:
        places = [
            place for checkout in (NOW, before()) for place in ends.enter_context(store(checkout, directory, WAYS))
        ]
        rates = measured(load, places, works, effort.rounds, (PROCESSES,))
    figures: Figures = rate_figures(rates)
    for work in works:
        figures |= compared(rates, f"{work.name}_prefix_vs_run", work.name, "prefix", "run")
        for way in WAYS:
            figures |= compared(rates, f"{way}_{work.name}_vs_before", work.name, way, f"{way}_before")
    ratios = [f"{work.name}_prefix_vs_run" for work in works]
    return {**figures, f"shared_x{PROCESSES}_prefix_vs_run": worst(figures, ratios)}
