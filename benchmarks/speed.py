"""The speed of small and large calls: beside the version before, tmpfs, a bare ping-pong and other file systems.

make bench-speed        every figure, as root; the last line is one JSON object
.venv/bin/python benchmarks/speed.py [--quick] rates round-trip fresh shared programs hosts

.venv/bin/python benchmarks/speed.py --table    the newest figures as the table of docs/measured.md

`--quick` does fewer rounds with smaller amounts. `WEIR_BEFORE=DIR` names a built checkout of the version before, and
`WEIR_PEERS=DIR` a folder whose `bin` and `sbin` have the programs of peers.
"""

import json
import signal
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from _harness import MEASURED, measure_parts
from _speed_rounds import FULL, QUICK, Effort
from _speed_table import table

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rates": (
        "_speed_rates",
        (
            "create_vs_prefix",
            "open_read_close_vs_prefix",
            "reread_4k_vs_tmpfs",
            "random_read_4k_vs_tmpfs",
            "random_write_4k_vs_tmpfs",
            "reread_1m_vs_tmpfs",
            "read_1m_vs_before",
            "warm_write_1m_vs_before",
            "stat_vs_glusterfs",
            "mount_stat_vs_before",
            "mount_small_read_vs_before",
        ),
    ),
    "round-trip": ("_speed_round_trip", ("round_trip_vs_pingpong",)),
    "fresh": ("_speed_fresh", ("cold_write_1m_vs_tmpfs",)),
    "shared": ("_speed_shared", ("shared_x4_prefix_vs_run",)),
    "programs": ("_speed_programs", ("programs_vs_tmpfs_max",)),
    "hosts": ("_speed_hosts", ("remote_4k_vs_before",)),
}
"""The module of each part, and the figures that it owes."""


def measured(name: str, effort: Effort) -> Mapping[str, float | None]:
    """The figures of one part."""
    figures: Mapping[str, float | None]
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as directory:
        figures = import_module(PARTS[name][0]).measure(Path(directory), effort)
    return figures


def newest_figures() -> dict[str, Any]:
    """The newest figures of each part, over all runs of this benchmark on this machine."""
    figures: dict[str, Any] = {}
    for line in MEASURED.read_text().splitlines():
        run = json.loads(line)
        if run["benchmark"] == "speed":
            figures |= {name: value for name, value in run["figures"].items() if value is not None}
    return figures


def main() -> None:
    if sys.argv[1:] == ["--table"]:
        print(table(newest_figures()))
        return
    # The stores, mounts and namespaces of a part end with it, also where somebody ends the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended by SIGTERM"))
    effort = QUICK if "--quick" in sys.argv else FULL
    sys.argv = [word for word in sys.argv if word != "--quick"]
    measure_parts("speed", PARTS, lambda name: measured(name, effort))


if __name__ == "__main__":
    main()
