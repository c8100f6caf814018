"""Table I of the interference paper for a store: seven tasks among three instances of each, without and with sharing.

The runs are kept in `benchmarks/out/interference/matrix`, and a matrix that was ended goes on where it stopped.
"""

from pathlib import Path
from statistics import fmean

from _harness import announce
from _interference_collect import KEPT, POLICIES, run_undisturbed
from weir.interference.slowdowns import Matrix, UnderPolicy, of_policy, read

PARALLEL = 3
"""Runs at the same time: emulated devices need next to no processor."""


def measure(_directory: Path) -> dict[str, float | None]:
    """Measure the matrix under each policy."""
    folder = KEPT / "matrix"
    KEPT.mkdir(parents=True, exist_ok=True)
    policies = [f"--policy={policy}" for policy in POLICIES if policy != "fifo"]
    if not (folder / "matrix.json").exists():
        run_undisturbed(["interference", "matrix", "--to", str(folder), f"--parallel={PARALLEL}", *policies])
    matrix = read(folder / "matrix.json")
    for each in matrix.policies:
        _print(matrix, each)
    fifo, shared = (of_policy(matrix, policy) for policy in POLICIES)
    worst, worst_shared = _worst(fifo), _worst(shared)
    announce("worst slowdown", f"{worst_shared:.2f} by shares", f"{worst:.2f} under fifo", worst_shared / worst)
    noise = max(abs(slowdown - 1) for each in matrix.policies for slowdown in each.quiet.values())
    return {
        "matrix_mean_fifo": fmean(cell.slowdown for cell in fifo.cells),
        "matrix_mean_shared": fmean(cell.slowdown for cell in shared.cells),
        "matrix_worst_fifo": worst,
        "matrix_worst_shared": worst_shared,
        "matrix_quiet_error": noise,
    }


def _worst(each: UnderPolicy) -> float:
    return max(cell.slowdown for cell in each.cells)


def _print(matrix: Matrix, each: UnderPolicy) -> None:
    """A table with a line for each task and a column for each interferer."""
    print(f"\n{each.policy}, {matrix.instances} instances")
    print(f"{'':18}" + "".join(f"{task:>18}" for task in (*matrix.tasks, "alone again")))
    for task in matrix.tasks:
        cells = [*(each.slowdown(task, other) for other in matrix.tasks), each.quiet[task]]
        print(f"{task:18}" + "".join(f"{value:18.2f}" for value in cells), flush=True)
