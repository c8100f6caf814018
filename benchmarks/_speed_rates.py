"""Rates of kinds of work under `weir run`, through the prefix and the mount, before and now, beside the peers."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from _harness import compiled
from _speed_peers import peers
from _speed_places import NOW, before, store, tmpfs
from _speed_rounds import Effort, Figures, Work, compared, measured, rate_figures, worst

WAYS = ("run", "prefix", "mount")
COMPARED = {
    "create_vs_prefix": ("create", "run", "prefix"),
    "open_read_close_vs_prefix": ("open_read_close", "run", "prefix"),
    "reread_4k_vs_tmpfs": ("reread_4k", "run", "tmpfs"),
    "random_read_4k_vs_tmpfs": ("random_read_4k", "run", "tmpfs"),
    "random_write_4k_vs_tmpfs": ("random_write_4k", "run", "tmpfs"),
    "reread_1m_vs_tmpfs": ("reread_1m", "run", "tmpfs"),
    "read_1m_vs_before": ("read_1m", "run", "run_before"),
    "warm_write_1m_vs_before": ("write_1m", "run", "run_before"),
    "stat_vs_glusterfs": ("stat", "run", "glusterfs"),
    "mount_stat_vs_before": ("stat", "mount", "mount_before"),
    "mount_remove_vs_before": ("remove", "mount", "mount_before"),
    "mount_reread_4k_vs_before": ("reread_4k", "mount", "mount_before"),
    "mount_random_read_4k_vs_before": ("random_read_4k", "mount", "mount_before"),
}
"""Work, place and rival of each figure."""
MOUNT_SMALL_READS = ("mount_reread_4k_vs_before", "mount_random_read_4k_vs_before")


def works(effort: Effort) -> list[Work]:
    """The turns of a round, in their order: each finds what the ones before it left."""
    blocks, files, seconds = effort.blocks, effort.files, effort.seconds
    return [
        Work("write_1m", "write", blocks),
        Work("read_1m", "read", blocks),
        Work("reread_1m", "read", blocks, seconds),
        Work("reread_4k", "read-small", blocks, seconds),
        Work("random_read_4k", "random-read", blocks, seconds),
        Work("random_write_4k", "random-write", blocks, seconds),
        Work("create", "create", files),
        Work("remove", "remove", files),
        Work("create_4k", "fill", files),
        Work("stat", "stat", files, seconds),
        Work("open_read_close", "open", files, seconds),
        Work("remove_4k", "remove", files),
    ]


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The rates of all works and places with one and four processes, and their ratios."""
    load = compiled("speed_load", directory)
    with ExitStack() as ends:
        places = [
            *ends.enter_context(store(NOW, directory, WAYS)),
            *ends.enter_context(store(before(), directory, WAYS)),
            ends.enter_context(tmpfs(directory)),
            *peers(directory, ends),
        ]
        rates = measured(load, places, works(effort), effort.rounds)
    figures: Figures = rate_figures(rates)
    for figure, (work, ours, theirs) in COMPARED.items():
        figures |= compared(rates, figure, work, ours, theirs)
    return {**figures, "mount_small_read_vs_before": worst(figures, MOUNT_SMALL_READS)}
