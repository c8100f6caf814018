"""The paper's workloads on a store of 7 servers x 5 targets, placed by prediction and by Lustre's rules.

.venv/bin/python benchmarks/_placement.py [--quick] [CASE ...]

Tarazu (ACM TOS 20-2, 2024, section 7): bytes are scaled down, 4 MiB for each of its GiB, and counts of files, processes
and stripes are not. Every target serves at an emulated speed, so that bandwidth shows where the stripes lie.
"""

import argparse
import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from _bounds import cost_bound
from _harness import ROOT, WAIT_SECONDS, WEIR, announce, run_weir
from weir import _core
from weir.experiments.store import PREFIX, Store

SERVERS, TARGETS_EACH = 7, 5
TARGETS = SERVERS * TARGETS_EACH
GIB = 4 << 20
"""Bytes that stand for one of the paper's GiB."""
SPEED = "4MB/s"
CAPACITY = "256MiB"
ALIGNMENT_BYTES = 4096
"""Unit of stripe sizes; the paper's 128 KiB scaled down would be less than a page."""
REPEATS = 3
FOLDER = f"{PREFIX}/data"
OURS, LUSTRE = "balanced", "lustre-standard"


@dataclass(frozen=True)
class Layout:
    """A layout of files, by the paper's table 8."""

    extents: tuple[tuple[float | None, int], ...]
    """End of each component in GiB (None: the file's end) and its stripes."""

    def spelling(self, size_bytes: int) -> str:
        """The layout for a file of this size: contiguous stripes, as in the paper."""
        parts = [f"-c {count}" for _, count in self.extents]
        if len(self.extents) > 1:
            ends = ("-1" if end is None else str(int(end * GIB)) for end, _ in self.extents)
            parts = [f"-E {end} {part}" for end, part in zip(ends, parts, strict=True)]
        return _core.contiguous_layout(" ".join(parts), size_bytes, ALIGNMENT_BYTES)

    def stripes(self, size_bytes: int) -> list[int]:
        """Bytes of each stripe of a file of this size."""
        shares = _core.stripe_shares(
            self.spelling(size_bytes), size_bytes, stripe_bytes=GIB, stripes=0, targets=TARGETS
        )
        return [share for component in shares for share in component if share]


LAYOUTS = {
    "no PFL": Layout(((None, 8),)),
    "C1": Layout(((1 / 8, 1), (1 / 2, 3), (2, 8), (None, 16))),
    "C2": Layout(((1 / 8, 1), (2, 12), (None, 32))),
}


@dataclass(frozen=True)
class Application:
    """One MPI program of a case."""

    program: str
    processes: int
    options: tuple[str, ...]
    sizes: tuple[int, ...]
    """Size of each file that the program makes."""


def ior(processes: int, gib: int, *, shared: bool = False) -> Application:
    """IOR of `gib` of the paper's GiB in all: a file for each process, or one for all."""
    block = gib * GIB // processes
    options = ("-b", str(block), "-t", str(block), "-r", "-u", "7", *(() if shared else ("-F",)))
    return Application("ior_like", processes, options, (gib * GIB,) if shared else (block,) * processes)


def hacc(processes: int, million_particles: int) -> Application:
    """HACC-I/O: a file for each process, 38 bytes a particle behind a header of 4 KiB."""
    particles = million_particles * 1_000_000 * GIB // (1 << 30)
    size = 4096 + 38 * particles
    return Application("hacc_like", processes, ("-p", str(particles), "-r", "-u", "7"), (size,) * processes)


CASES: dict[str, tuple[Application, ...]] = {
    "IOR 16 x 2": (ior(16, 32),),
    "IOR 16 x 8": (ior(16, 128),),
    "IOR shared 8": (ior(8, 8, shared=True),),
    "IOR shared 16": (ior(8, 16, shared=True),),
    "HACC 8 x 50 M": (hacc(8, 50),),
    "HACC 16 x 20 M": (hacc(16, 20),),
    "IOR and HACC": (ior(8, 64), hacc(8, 50)),
}


@dataclass(frozen=True)
class Measured:
    """One run of a case."""

    ost_cost: float
    """Fullest target over the mean of all (the paper's equation 4)."""
    server_cost: float
    """Fullest server over the mean of all."""
    write: float
    """Bandwidth of all applications together, in MiB a second."""
    read: float


@dataclass
class Runs:
    """The runs of a case under one allocator."""

    runs: list[Measured] = field(default_factory=list)

    def median(self, figure: str) -> float:
        """The median of one figure of `Measured`."""
        return statistics.median(float(getattr(run, figure)) for run in self.runs)


class Bench:
    """Runs cases on stores of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for program in ("ior_like", "hacc_like"):
            source = ROOT / f"benchmarks/{program}.c"
            compiler = ("mpicc.mpich", "-O2", "-Wall", "-Werror")
            subprocess.run([*compiler, "-o", directory / program, source, "-lm"], check=True, timeout=WAIT_SECONDS)

    def ours(self, case: str, layout: Layout, repeats: int) -> tuple[Runs, Runs]:
        """Run a case as a user does: trace, predict, place, run again; also without a prediction.

        In the runs without a prediction the server places the files when they are made.
        """
        unpredicted, predicted = Runs(), Runs()
        with _store(OURS) as store:
            traces = self._fresh("traces")
            database = self._fresh("database") / "placement.db"
            for _ in range(repeats):
                self._lay_out(store, case, layout.spelling)
                unpredicted.runs.append(self._run(store, case, traces=traces))
            for _ in range(repeats):
                self._lay_out(store, case, None)
                self._place(store, case, layout, traces, database)
                predicted.runs.append(self._run(store, case, database=database))
        return predicted, unpredicted

    def lustre(self, case: str, layout: Layout, repeats: int) -> Runs:
        """A case placed by the rules of Lustre."""
        runs = Runs()
        with _store(LUSTRE) as store:
            for _ in range(repeats):
                self._lay_out(store, case, layout.spelling)
                runs.runs.append(self._run(store, case))
        return runs

    def laid_out(self, store: Store, case: str, spelling: str) -> Measured:
        """One run of a case in folders of this layout."""
        self._lay_out(store, case, lambda _: spelling)
        return self._run(store, case)

    def _fresh(self, name: str) -> Path:
        folder = self.directory / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _lay_out(self, store: Store, case: str, spelling: Callable[[int], str] | None) -> None:
        """An empty folder for each application of the case, of the layout for its size of files."""
        _on_store(store, "rm", "-rf", FOLDER)
        for application in CASES[case]:
            folder = f"{FOLDER}/{application.program}"
            _on_store(store, "mkdir", "-p", folder)
            if spelling is not None:
                _on_store(store, str(WEIR), "layout", "set", *spelling(application.sizes[0]).split(), folder)

    def _place(self, store: Store, case: str, layout: Layout, traces: Path, database: Path) -> None:
        layouts = [
            word
            for application in CASES[case]
            for word in (
                "--layout",
                f"{FOLDER}/{application.program}={layout.spelling(application.sizes[0])}",
            )
        ]
        # A folder of traces holds the runs of one program.
        runs = [word for folder in sorted(traces.iterdir()) for word in ("--from", str(folder))]
        run_weir(store.environment, "place", *runs, *layouts, "--database", str(database))

    def _run(self, store: Store, case: str, *, traces: Path | None = None, database: Path | None = None) -> Measured:
        before = _used_bytes(store)
        placement = ["--placement", str(database)] if database else []
        commands = []
        for application in CASES[case]:
            trace = ["--trace", str(traces / application.program)] if traces else []
            options = ["--prefix", PREFIX, *placement, *trace]
            commands.append([str(WEIR), "run", *options, "--", *self._mpi(application)])
        processes = [
            subprocess.Popen(words, env=store.environment, stdout=subprocess.PIPE, text=True) for words in commands
        ]
        rates = {"write": 0.0, "read": 0.0}
        for process in processes:
            output, _ = process.communicate(timeout=WAIT_SECONDS)
            if process.returncode != 0:
                raise SystemExit(f"{process.args!r} failed with exit code {process.returncode}")
            for line in output.splitlines():
                phase, _, _, _, rate = line.split()
                rates[phase] += float(rate)
        used = [now - then for now, then in zip(_used_bytes(store), before, strict=True)]
        servers = [sum(used[first : first + TARGETS_EACH]) for first in range(0, TARGETS, TARGETS_EACH)]
        return Measured(_cost(used), _cost(servers), rates["write"], rates["read"])

    def _mpi(self, application: Application) -> list[str]:
        """The preload library for the program's processes, and not for mpiexec and its proxies."""
        script = (
            "preload=$LD_PRELOAD; unset LD_PRELOAD; processes=$1; shift; "
            'exec mpiexec.mpich -n "$processes" env LD_PRELOAD="$preload" "$@"'
        )
        program = str(self.directory / application.program)
        output = f"{FOLDER}/{application.program}/file"
        return ["sh", "-c", script, "sh", str(application.processes), program, "-o", output, *application.options]


def _store(allocator: str) -> Store:
    return Store(
        policy="fifo",
        servers=SERVERS,
        targets=TARGETS_EACH,
        speed=SPEED,
        capacity=CAPACITY,
        allocator=allocator,
    )


def _on_store(store: Store, *words: str) -> None:
    run_weir(store.environment, "run", "--prefix", PREFIX, "--", *words)


def _used_bytes(store: Store) -> list[int]:
    return [target.used_bytes for server in store.servers for target in server.status().targets]


def _cost(used: Sequence[int]) -> float:
    return max(used) / (sum(used) / len(used))


def placement(directory: Path, *, repeats: int = REPEATS, cases: Sequence[str] = tuple(CASES)) -> dict[str, float]:
    """Every case under every layout, by prediction, by the server alone and by Lustre's rules, in turn."""
    bench = Bench(directory)
    costs: list[float] = []
    lustre_costs: list[float] = []
    server_costs: list[float] = []
    reads: list[float] = []
    writes: list[float] = []
    for case in cases:
        for name, layout in LAYOUTS.items():
            stripes = [
                stripe for application in CASES[case] for size in application.sizes for stripe in layout.stripes(size)
            ]
            bound, server_bound = cost_bound(stripes, TARGETS), cost_bound(stripes, SERVERS)
            lustre = bench.lustre(case, layout, repeats)
            predicted, unpredicted = bench.ours(case, layout, repeats)
            what = f"{case}, {name}"
            for label, runs in (("predicted", predicted), ("not predicted", unpredicted), (LUSTRE, lustre)):
                announce(
                    f"{what}: {label}",
                    f"OST cost {runs.median('ost_cost'):.3f}",
                    f"least {bound:.3f}; servers {runs.median('server_cost'):.3f}, least {server_bound:.3f}",
                    runs.median("ost_cost") / bound,
                )
            for figure, ratios in (("write", writes), ("read", reads)):
                ratios.append(predicted.median(figure) / lustre.median(figure))
                announce(
                    f"{what}: {figure}",
                    f"{predicted.median(figure):.0f} MiB/s",
                    f"{LUSTRE} {lustre.median(figure):.0f}, not predicted {unpredicted.median(figure):.0f}",
                    ratios[-1],
                )
            costs.append(max(run.ost_cost for run in predicted.runs) / bound)
            lustre_costs.append(max(run.ost_cost for run in lustre.runs) / bound)
            server_costs.append(max(run.server_cost for run in predicted.runs) / server_bound)
    return {
        "ost_cost_vs_bound_max": max(costs),
        "ost_cost_lustre_vs_bound_max": max(lustre_costs),
        "server_cost_vs_bound_max": max(server_costs),
        "read_vs_lustre_min": min(reads),
        "read_vs_lustre_max": max(reads),
        "write_vs_lustre_min": min(writes),
        "write_vs_lustre_max": max(writes),
    }


def shared_files(directory: Path) -> dict[str, float]:
    """A shared file in contiguous stripes (the paper's section 5.8) beside stripes in turn."""
    bench = Bench(directory)
    figures: dict[str, float] = {}
    case = "IOR shared 16"
    size = CASES[case][0].sizes[0]
    contiguous = LAYOUTS["no PFL"].spelling(size)
    rates = {}
    with _store(OURS) as store:
        for name, spelling in (("contiguous", contiguous), ("round_robin", f"-c 8 -S {GIB // 16}")):
            runs = Runs([bench.laid_out(store, case, spelling) for _ in range(REPEATS)])
            rates[name] = {figure: runs.median(figure) for figure in ("write", "read")}
    for figure in ("write", "read"):
        ours, theirs = rates["contiguous"][figure], rates["round_robin"][figure]
        announce(f"shared file: {figure}", f"contiguous {ours:.0f} MiB/s", f"in turn {theirs:.0f}", ours / theirs)
        figures[f"contiguous_vs_round_robin_{figure}"] = ours / theirs
    return figures


def main() -> None:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    given = parser.parse_args()
    with TemporaryDirectory() as directory:
        figures = placement(Path(directory), repeats=1 if given.quick else REPEATS, cases=given.cases or tuple(CASES))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
