"""A layout that `weir simulate tune` finds, tried on a real store beside the store's default and beside Lustre's.

.venv/bin/python benchmarks/_tuned_store.py [--trials N] [--repeats N] [CASE ...]

The store and the programs are those of the placement benchmark: 7 servers x 5 targets of an emulated speed. The search
runs by requests on a simulated store of the same shape and speeds and on the same jobs: by flows, programs that share
targets end late. It never sees the real store.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import announce
from _placement import CASES, SERVERS, SPEED, TARGETS_EACH, Application, Bench, Measured, _store
from _simulated_tables import Part, table
from weir.simulation.documents import parse_document
from weir.simulation.sweeps.pools import Threads
from weir.simulation.tuning.cases import cases_of_seeds
from weir.simulation.tuning.tuner import Options, Tuned, tune

DEFAULT_CASES = ("IOR shared 16", "IOR and HACC")
DEFAULT_LAYOUT = "-c -1 -S 1M"
"""The layout of files on a store that names none: stripes of 1 MiB on all targets (docs/reference/configuration.md)."""
LUSTRE_LAYOUT = "-c 1 -S 1M"
"""The layout of files on a Lustre file system that names none (Lustre manual, section 19.2)."""
TRIALS = 60
REPEATS = 3
TOPOLOGY = f"""
[topology]
name = "the placement benchmark"
[topology.clients]
nodes = 1
link = {{ rate = "4GB/s", latency = "50us" }}
[[topology.servers]]
count = {SERVERS}
link = {{ rate = "4GB/s", latency = "50us" }}
[[topology.servers.targets]]
count = {TARGETS_EACH}
capacity = "256MiB"
read = "{SPEED}"
write = "{SPEED}"
"""
"""The links stand for this machine's loopback: they are no bottleneck beside 35 targets of 4 MB/s."""


_PIECE = 64 << 10
"""Bytes of a request: the programs write a block by one call, whose pieces go to their targets at once."""


def scenario(case: str) -> str:
    """A scenario of the case's programs: they write all files, and then read them."""
    jobs = [_job(application) for application in CASES[case]]
    return "\n".join(['policy = "fifo"', 'mode = "request"', TOPOLOGY, *jobs])


def _job(application: Application) -> str:
    is_shared = len(application.sizes) == 1
    whole = _whole(application.sizes[0] // (application.processes if is_shared else 1))
    return f"""
[[jobs]]
generator = "ior"
name = "{application.program}"
processes = {application.processes}
processes_per_node = {application.processes}
mode = "{"shared" if is_shared else "file-per-process"}"
block = {whole}
transfer = {_PIECE}
depth = {-(-whole // _PIECE)}
write = true
read = true
"""


def _whole(size: int) -> int:
    """Bytes of a process in whole pieces."""
    return -(-size // _PIECE) * _PIECE


def found_layout(case: str, directory: Path, trials: int) -> Tuned:
    """The layout that the search finds for a case, without a real store."""
    base = parse_document(scenario(case), origin=case, folder=directory)
    options = Options(objective="job_bytes_per_second", trials=trials)
    folder = directory / "tuning"
    folder.mkdir(exist_ok=True)
    # The placement of files draws no dice that change the bandwidth of alike targets, so one seed judges.
    return tune(base, cases_of_seeds(0, 1, 1), options, folder, pool=Threads(2), progress=lambda *_: None)


def measured(bench: Bench, case: str, spelling: str, repeats: int) -> list[Measured]:
    """Runs of a case on a real store in folders of this layout."""
    with _store("balanced") as store:
        return [bench.laid_out(store, case, spelling) for _ in range(repeats)]


def tuned_store(
    directory: Path, *, trials: int = TRIALS, repeats: int = REPEATS, cases: Sequence[str] = DEFAULT_CASES
) -> Part:
    """Tune a layout for each case by simulated runs, and run the case under it, the store's default and Lustre's."""
    bench = Bench(directory)
    ratios: list[float] = []
    lustre: list[float] = []
    errors: list[float] = []
    rows: list[list[str]] = []
    for number, case in enumerate(cases):
        folder = directory / str(number)
        folder.mkdir()
        tuned = found_layout(case, folder, trials)
        spelling = str(tuned.changes["layout.components"])
        found, default, one = (
            statistics.median(run.write + run.read for run in measured(bench, case, layout, repeats))
            for layout in (spelling, DEFAULT_LAYOUT, LUSTRE_LAYOUT)
        )
        mean = tuned.judgement.mean if tuned.judgement is not None else None
        promised = 1 / mean.mean if mean is not None else float("nan")
        ratios.append(found / default)
        lustre.append(found / one)
        errors.append(abs(ratios[-1] / promised - 1))
        beside = f"default {default:.0f}; simulated {promised:.2f} times"
        announce(f"{case}: tuned", f"{found:.0f} MiB/s", beside, ratios[-1])
        announce(f"{case}: tuned", spelling, f"{LUSTRE_LAYOUT}: {one:.0f} MiB/s", lustre[-1])
        rates = [f"{rate:.0f} MiB/s" for rate in (found, default, one)]
        rows.append([case, f"`{spelling}`", *rates, f"{ratios[-1]:.2f}", f"{promised:.2f}"])
    heads = ["programs", "found layout", "found", "store's default", "one target", "found by default", "as simulated"]
    figures = {
        "tuned_vs_default_min": min(ratios),
        "tuned_vs_default_max": max(ratios),
        "tuned_vs_one_stripe_min": min(lustre),
        "tuned_vs_simulated_error_max": max(errors),
    }
    return Part(figures, {"tuned": table(heads, rows)})


def main() -> None:
    """Run the cases that are named, or the usual ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    given = parser.parse_args()
    cases = tuple(given.cases) or DEFAULT_CASES
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        part = tuned_store(Path(directory), trials=given.trials, repeats=given.repeats, cases=cases)
    print(json.dumps(part.figures))


if __name__ == "__main__":
    main()
