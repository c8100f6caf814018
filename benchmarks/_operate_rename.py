"""Files that are written under temporary names and renamed, placed by prediction and by the store alone.

.venv/bin/python benchmarks/_operate_rename.py [--quick]

The figure is the fullest target over the mean of all (the Tarazu paper's equation 4), after a run that was predicted
from a traced run of the same program, and after the traced run itself, which the store placed when its files were made.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import ROOT, WAIT_SECONDS, WEIR, announce, run_weir
from weir.experiments.store import PREFIX, Store
from weir.placement.lookups import read_report, report_of

SERVERS, TARGETS_EACH = 2, 4
CAPACITY = "64MiB"
RANKS, STEPS = 4, 6
BLOCK_BYTES = 256 << 10
STYLES = ("suffix", "fixed", "random", "hidden")
"""Temporary names: `x.tmp`, one name for all steps, a name of mkstemp, and `.x.` with six letters of mkstemp."""
REPEATS = 3
FOLDER = f"{PREFIX}/data"


class Bench:
    """Runs the program on stores of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = directory / "careful_like"
        source = ROOT / "benchmarks/careful_like.c"
        compiler = ("mpicc.mpich", "-O2", "-Wall", "-Werror")
        subprocess.run([*compiler, "-o", self._program, source], check=True, timeout=WAIT_SECONDS)

    def costs(self, style: str) -> tuple[float, float]:
        """Fullest over mean of a predicted run, and of the run before it, which the store placed."""
        traces = self._directory / "traces"
        database = self._directory / "database/placement.db"
        for folder in (traces, database.parent):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        with Store(policy="fifo", servers=SERVERS, targets=TARGETS_EACH, capacity=CAPACITY) as store:
            unpredicted = self._run(store, style, "--trace", str(traces))
            run_weir(store.environment, "place", "--from", str(traces), "--database", str(database))
            predicted = self._run(store, style, "--placement", str(database))
        lookups = read_report(report_of(database))
        if lookups.placed != RANKS * STEPS or lookups.not_found:
            print(f"{style}: {lookups.placed} files placed, {lookups.not_found} not", file=sys.stderr)
        return predicted, unpredicted

    def _run(self, store: Store, style: str, *options: str) -> float:
        """Run the program into an empty folder, and return the fullest target over the mean."""
        for words in (["rm", "-rf", FOLDER], ["mkdir", FOLDER], [str(WEIR), "layout", "set", "-c", "1", FOLDER]):
            run_weir(store.environment, "run", "--prefix", PREFIX, "--", *words)
        before = _used_bytes(store)
        words = ["-o", f"{FOLDER}/state", "-w", style, "-b", str(BLOCK_BYTES), "-n", str(STEPS)]
        run_weir(store.environment, "run", "--prefix", PREFIX, *options, "--", *self._mpi(words))
        used = [now - then for now, then in zip(_used_bytes(store), before, strict=True)]
        return max(used) / (sum(used) / len(used))

    def _mpi(self, words: list[str]) -> list[str]:
        """The preload library for the program's processes, and not for mpiexec and its proxies."""
        script = (
            "preload=$LD_PRELOAD; unset LD_PRELOAD; processes=$1; shift; "
            'exec mpiexec.mpich -n "$processes" env LD_PRELOAD="$preload" "$@"'
        )
        return ["sh", "-c", script, "sh", str(RANKS), str(self._program), *words]


def _used_bytes(store: Store) -> list[int]:
    return [target.used_bytes for server in store.servers for target in server.status().targets]


def renames(directory: Path, *, repeats: int = REPEATS) -> dict[str, float]:
    """Every style of temporary names, by prediction and by the store alone: the worst median of each."""
    bench = Bench(directory)
    figures: dict[str, list[float]] = {"predicted": [], "unpredicted": []}
    for style in STYLES:
        costs = [bench.costs(style) for _ in range(repeats)]
        predicted, unpredicted = (statistics.median(pair[index] for pair in costs) for index in (0, 1))
        ratio = predicted / unpredicted
        announce(f"renamed, {style}", f"{predicted:.2f} of the mean", f"without prediction {unpredicted:.2f}", ratio)
        figures["predicted"].append(predicted)
        figures["unpredicted"].append(unpredicted)
    return {
        "tmp_rename_fullest_over_mean": max(figures["predicted"]),
        "tmp_rename_fullest_over_mean_unpredicted": max(figures["unpredicted"]),
        "tmp_rename_vs_unpredicted_max": max(
            one / other for one, other in zip(figures["predicted"], figures["unpredicted"], strict=True)
        ),
    }


def main() -> None:
    """Run all styles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of each")
    given = parser.parse_args()
    with TemporaryDirectory() as directory:
        print(json.dumps(renames(Path(directory), repeats=1 if given.quick else REPEATS)))


if __name__ == "__main__":
    main()
