"""The first gigabyte: 1 MiB writes into a store that was just brought up, beside a tmpfs that was just mounted."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import compiled
from _speed_places import NOW, before, store, tmpfs
from _speed_rounds import Effort, Figures, Rates, Work, compared, rate_figures, rate_of, rotated, taking_turns

WAYS = ("run", "prefix", "mount")


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The rates of one process at each place, and their ratios to tmpfs and to the version before."""
    load = compiled("speed_load", directory)
    checkouts = {"": NOW, "_before": before()}
    names = [*(f"{way}{suffix}" for suffix in checkouts for way in WAYS), "tmpfs"]
    work = Work("cold_write_1m", "write", effort.fresh_blocks)
    rates: Rates = {}
    for number in range(effort.rounds):
        for name in rotated(names, number):
            way, _, is_before = name.partition("_")
            with TemporaryDirectory(dir=directory) as fresh, ExitStack() as ends:
                if name == "tmpfs":
                    places = [ends.enter_context(tmpfs(Path(fresh)))]
                else:
                    checkout = checkouts["_before" if is_before else ""]
                    places = ends.enter_context(store(checkout, Path(fresh), (way,)))
                turns = ends.enter_context(taking_turns(places, (load,), "1"))
                rates.setdefault((name, work.name, 1), []).append(rate_of(turns[name], work))
    figures: Figures = rate_figures(rates)
    for way in WAYS:
        key = "cold_write_1m" if way == "run" else f"{way}_cold_write_1m"
        figures |= compared(rates, f"{key}_vs_tmpfs", work.name, way, "tmpfs")
        figures |= compared(rates, f"{key}_vs_before", work.name, way, f"{way}_before")
    return figures
