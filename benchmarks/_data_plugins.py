"""Algorithms of one's own: the kinds of which every door works, and what a call of a scheduler in Python costs.

`examples/plugins` is installed into a folder of its own, and each of its plug-ins is used on each way on which a user
brings one (`tests/plugin_doors.py`). The cost of a scheduler is that of a simulated run with it beside the same run by
Weir's own, for each request that was served.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import ROOT, announce

sys.path.insert(0, str(ROOT / "tests"))

import plugin_doors
from weir.simulation.runs import run
from weir.simulation.scenario import parse_scenario

_COST_SCENARIO = """topology = "1x1"
mode = "request"
policy = "job-fair"
scheduler = "{scheduler}"
[layout]
stripe_count = 1
[[jobs]]
generator = "ior"
processes = 4
block = "{block}MiB"
transfer = "64KiB"
count = {jobs}
"""


def measure(quick: bool) -> dict[str, float | int | None]:
    """Count the kinds whose doors all work, and time a choice of a scheduler in Python."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        package = folder / "package"
        plugin_doors.install(package)
        working = 0
        for kind, doors in plugin_doors.DOORS.items():
            failed = []
            for door in doors:
                place = folder / door.__name__
                place.mkdir()
                try:
                    door(plugin_doors.Reader(place, package))
                except Exception as error:
                    # A door that fails is what is counted here; the next one is tried, too.
                    failed.append(f"{door.__name__}: {error}")
            working += not failed
            print(f"{kind}: {len(doors) - len(failed)} of {len(doors)} doors work", *failed, sep="\n  ", flush=True)
        sys.path.insert(0, str(package))
        costs = {jobs: _microseconds(jobs, 16 if quick else 64) for jobs in (2, 16)}
    kinds = len(plugin_doors.DOORS)
    announce("kinds of plug-ins that work through every door", str(working), f"{kinds} kinds", working / kinds)
    return {"plugins_working": working, **{f"scheduler_call_microseconds_{jobs}": cost for jobs, cost in costs.items()}}


def _microseconds(jobs: int, block: int) -> float:
    """The time by which a choice among `jobs` jobs makes a run longer, for each of the run's requests."""

    def seconds(scheduler: str) -> float:
        text = _COST_SCENARIO.format(scheduler=scheduler, block=block, jobs=jobs)
        scenario = parse_scenario(text, origin="cost", folder=Path())
        begun = time.perf_counter()
        run(scenario)
        return time.perf_counter() - begun

    requests = jobs * 4 * block * 16
    return 1e6 * (seconds("lottery") - seconds("virtual-time")) / requests
