"""The table of the page of measurements, from the figures of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """A figure of the table, and the bound that is asked of it."""

    figure: str
    words: str
    least: float | None = None
    most: float | None = None

    def is_reached(self, value: float) -> bool:
        """Whether a value is within the bounds."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def asked(self) -> str:
        """The bound in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


ROWS = (
    Row("create_vs_prefix", "creates under `weir run` over those through the prefix", least=0.95),
    Row("open_read_close_vs_prefix", "open, read 4 KiB and close: `weir run` over the prefix", least=0.95),
    Row("round_trip_vs_pingpong", "time of a 4 KiB write over a bare ping-pong; 1, 4 and 16 processes", most=1.5),
    Row("reread_4k_vs_tmpfs", "4 KiB re-reads in order over tmpfs", least=0.5),
    Row("random_read_4k_vs_tmpfs", "4 KiB random reads over tmpfs", least=0.4),
    Row("random_write_4k_vs_tmpfs", "4 KiB random writes over tmpfs", least=0.4),
    Row("read_1m_vs_before", "first reads of 1 MiB over the version before", least=1.0),
    Row("reread_1m_vs_tmpfs", "re-reads of 1 MiB over tmpfs", least=0.8),
    Row("cold_write_1m_vs_tmpfs", "1 MiB writes into fresh memory over tmpfs", least=0.8),
    Row("warm_write_1m_vs_before", "later 1 MiB writes over the version before", least=0.95),
    Row("shared_x4_prefix_vs_run", "one file of four processes: the prefix over `weir run`", least=0.95),
    Row("stat_vs_glusterfs", "stat over GlusterFS", least=1.0),
    Row("mount_stat_vs_before", "stat through the mount over the version before", least=5.0),
    Row("mount_small_read_vs_before", "4 KiB reads through the mount over the version before", least=5.0),
    Row("programs_vs_tmpfs_max", "time of whole programs over tmpfs, the worst of six and two ways", most=2.0),
    Row("remote_4k_vs_before", "4 KiB random reads from another host over the version before", least=1.0),
)


def table(figures: Mapping[str, Any]) -> str:
    """The rows in Markdown; a figure that misses what was asked is bold, and one that was not measured is so called.

    Args:
        figures: The figures by their names. Those of each number of processes stand behind the worst of them.
    """
    lines = ["| what | worst | 1, 4, 16 processes, with the least and greatest round | asked |", "|---|---|---|---|"]
    for row in ROWS:
        value = figures.get(row.figure)
        told = "not measured" if value is None else f"{value:.3g}"
        if value is not None and not row.is_reached(value):
            told = f"**{told}**"
        lines.append(f"| {row.words} | {told} | {_rounds(row.figure, figures)} | {row.asked} |")
    return "\n".join(lines)


def _rounds(figure: str, figures: Mapping[str, Any]) -> str:
    told = []
    for count in (1, 4, 16):
        key = f"{figure}_x{count}"
        if figures.get(key) is not None:
            told.append(f"{figures[key]:.3g} ({figures[f'{key}_min']:.3g} to {figures[f'{key}_max']:.3g})")
    return "; ".join(told)
