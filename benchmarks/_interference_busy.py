"""Labels of quiet windows beside 20 busy processes: programs and stores with real-time priority, and without."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _harness import announce
from weir.interference import plan, real_time
from weir.interference.agreement import quiet_part
from weir.interference.collection import Run, collect, noise_words, quality

BUSY_PROCESSES = 20
QUIET_MIN = 0.95
"""The part of the quiet windows that has to be labelled 0.95 to 1.05."""
_KERNELS = ("amrex", "enzo", "mdtest-hard-write")
"""Their runs are at the same time: bringing stores up is what takes long on a busy machine."""
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Computes until the benchmark has ended."""
_WITHOUT = ("setpriv", "--inh-caps", "-sys_nice", "--bounding-set", "-sys_nice")
"""Runs a command that may set no real-time priority."""


def measure(directory: Path) -> dict[str, float | None]:
    """Collect quiet runs beside a load, twice."""
    file = directory / "plan.toml"
    targets = (f'[[target]]\nname = "{name}"\nkernel = "{name}"\nrounds = 150\nseconds = 15\n' for name in _KERNELS)
    file.write_text("\n".join([f"version = 1\nparallel = {len(_KERNELS)}\n", *targets]))
    figures: dict[str, float | None] = {}
    for ending, prefix in (("", ()), ("_without_priority", _WITHOUT)):
        if not prefix and not real_time.is_allowed():
            print("no right to real-time priority: labels are measured without it alone", file=sys.stderr)
            continue
        with _busy():
            runs, folder = _collected(file, directory / f"data{ending}", prefix)
        figures |= _figures(runs, folder, ending)
    return figures


@contextmanager
def _busy() -> Iterator[None]:
    """Processes that compute all the time, for the length of a block."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _collected(file: Path, folder: Path, prefix: tuple[str, ...]) -> tuple[list[Run], Path]:
    command = [*prefix, sys.executable, "-m", "weir.cli", "interference", "collect", str(file), "--to", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Every run is done, so this reads them.
    return collect(plan.read(file), folder, print), folder


def _figures(runs: list[Run], folder: Path, ending: str) -> dict[str, float | None]:
    quiet = quality(runs, folder).quiet
    right, noisy = quiet_part(quiet), sum(run.noisy for run in runs)
    print(noise_words(runs, plan.Plan(version=1, target=()).noise_max), flush=True)
    if right is not None:
        announce(
            f"quiet labels right{ending.replace('_', ' ')}",
            f"{100 * right:.1f} % of {len(quiet)}",
            f"{100 * QUIET_MIN:.0f} %",
            right / QUIET_MIN,
        )
    return {
        f"quiet_labels_right_busy{ending}": right,
        f"quiet_windows_busy{ending}": len(quiet),
        f"quiet_windows_noisy{ending}": noisy,
    }
