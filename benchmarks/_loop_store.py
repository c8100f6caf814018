"""Plans that learn, on the real store: regret over ten runs of `weir job run`, beside never learning and hindsight.

python _loop_store.py [CASE...]    the last line is one JSON object

Each case has a home of its own, so nothing was measured before its first run. Kinds of devices are emulated: targets of
the kinds are as fast as the case says they really are, and the site's objectives are what the case believes of them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import msgspec
from _harness import announce
from _loop_cases import CASES, KINDS, RUNS, Case
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, Sslo, SsloTable, System

WAIT_SECONDS = 120.0
HINDSIGHT_RUNS = (0, 4, 8)
"""Runs behind which each kind of devices is measured, by which the best in hindsight is found: the machine is busier at
times than at others."""
KERNEL = Path(__file__).resolve().with_name("_loop_kernel.py")


@dataclass(frozen=True)
class Told:
    """The regrets of a case: I/O time over that of the best kind, less one."""

    learning: tuple[float, ...]
    """By run."""
    never: float
    """Regret of each run of a planner that never learns."""
    chosen: tuple[str, ...]
    """Kind of devices of each run."""
    best: str


class Site:
    """The site of a case."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._devices = {kind: folder / kind for kind in KINDS}
        for device in self._devices.values():
            device.mkdir(parents=True)
        self._variables = {**os.environ, "WEIR_HOME": str(folder / "home")}
        self._write()

    def _write(self) -> None:
        lines = ['source = "a case"']
        for kind, device in self._devices.items():
            place = f'path = "{device}", kind = "{kind}", capacity_bytes = 1000000000, free_bytes = 1000000000'
            lines += ["[[nodes]]", f'name = "{kind}"', f"devices = [{{ {place} }}]"]
        (self._folder / "resources.toml").write_text("\n".join(lines) + "\n")
        sslos = tuple(self._objective(kind) for kind in KINDS)
        (self._folder / "sslos.json").write_bytes(msgspec.json.encode(SsloTable(source="a case", sslos=sslos)))
        phases = json.dumps([asdict(phase) for phase in self._case.kernel])
        (self._folder / "job.sh").write_text(
            f"#!/bin/sh\n#SBATCH --nodes=1 --ntasks=1\nexec {sys.executable} {KERNEL} '{phases}' {self.clock}\n"
        )

    def _objective(self, kind: str) -> Sslo:
        belief, truth = self._case.belief[kind], self._case.truth[kind]
        settings = {
            "read_speed": f"{truth.megabytes_read:g}MB/s",
            "write_speed": f"{truth.megabytes_written:g}MB/s",
            "fixed_time": f"{truth.fixed_milliseconds:g}ms",
            "metadata_time": f"{truth.names_milliseconds:g}ms",
        }
        return Sslo(
            name=f"objective-{kind}",
            system=System(device=kind, servers=1, settings=settings),
            guarantees=Guarantees(
                read_bytes_per_second=belief.megabytes_read * 1e6,
                write_bytes_per_second=belief.megabytes_written * 1e6,
                metadata_operations_per_second=belief.names_a_second,
            ),
            sensitivities=Sensitivities(small=belief.small),
        )

    @property
    def clock(self) -> Path:
        """The file with the seconds that the kernel counted itself."""
        return self._folder / "clock"

    def weir(self, *words: object, variables: Mapping[str, str] | None = None) -> str:
        """Run a command; returns what it says on standard error."""
        answer = subprocess.run(
            [Path(sys.executable).with_name("weir"), *map(str, words)],
            env={**self._variables, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        if answer.returncode:
            sys.exit(f"weir {' '.join(map(str, words))}: {answer.returncode}\n{answer.stdout}{answer.stderr}")
        return answer.stderr

    def trace(self) -> None:
        """Record a past run, on a store in memory: its log knows nothing of the case's devices."""
        phases = json.dumps([asdict(phase) for phase in self._case.kernel])
        self.weir("up", "--targets", 1, "--capacity", "256MiB")
        try:
            self.weir("run", "--trace", self._folder / "log", "--", sys.executable, KERNEL, phases)
        finally:
            self.weir("down", "--force", "--discard", "--yes")

    def run(self, *options: str, home: str = "home") -> tuple[str, float]:
        """Run the job once; returns its kind of devices, and its own clock's seconds."""
        words = self.weir(
            *("job", "run", self._folder / "job.sh", "--trace", self._folder / "log", "--size", "256MiB"),
            *("--resources", self._folder / "resources.toml", "--sslos", self._folder / "sslos.json"),
            *("--policy", "performance", *options),
            variables={"WEIR_HOME": str(self._folder / home)},
        )
        found = re.search(r"server of (\w+) on", words)
        if found is None:
            sys.exit(f"no plan was told: {words}")
        return found[1], float(self.clock.read_text())


def told(case: Case) -> Told:
    """Run a case."""
    with tempfile.TemporaryDirectory(prefix="weir-loop-") as folder:
        site = Site(case, Path(folder))
        site.trace()
        runs: list[tuple[str, float]] = []
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(RUNS):
            runs.append(site.run())
            times[runs[-1][0]].append(runs[-1][1])
            if number in HINDSIGHT_RUNS:
                for kind in KINDS:
                    # In another home, so that the learner hears nothing of it.
                    times[kind].append(site.run("--device", kind, home="hindsight")[1])
    typical = {kind: median(found) for kind, found in times.items()}
    best = min(typical, key=lambda kind: typical[kind])
    regret = {kind: seconds / typical[best] - 1.0 for kind, seconds in typical.items()}
    chosen = tuple(kind for kind, _ in runs)
    # A planner that never learns makes the first plan again and again.
    return Told(tuple(regret[kind] for kind in chosen), regret[chosen[0]], chosen, best)


def measure(cases: Sequence[Case]) -> dict[str, float]:
    """Measure the cases.

    Returns:
        Regrets: `regret_first` and `regret_tenth` are the means of the first and the last run over the cases in which
        learning may help, and `regret_never` is that of a planner that never learns. `regret_needless_max` is the
        greatest regret of a run where learning must not help, over that of never learning there.
    """
    figures: dict[str, float] = {}
    found: dict[str, Told] = {}
    for case in cases:
        began = time.monotonic()
        found[case.name] = each = told(case)
        name = case.name.replace("-", "_")
        figures |= {f"regret_{name}_first": each.learning[0], f"regret_{name}_tenth": each.learning[-1]}
        figures |= {f"regret_{name}_never": each.never, f"regret_{name}_sum": sum(each.learning)}
        words = f"first {each.learning[0]:.2f}, tenth {each.learning[-1]:.2f}, ten {sum(each.learning):.2f}"
        announce(case.name, words, f"never {each.never:.2f}, ten {RUNS * each.never:.2f}", each.learning[-1])
        print(f"  {' '.join(each.chosen)}; best {each.best}; {time.monotonic() - began:.0f} s", file=sys.stderr)
    helped = [found[case.name] for case in cases if case.may_help]
    if helped:
        figures["regret_first"] = sum(each.learning[0] for each in helped) / len(helped)
        figures["regret_tenth"] = sum(each.learning[-1] for each in helped) / len(helped)
        figures["regret_never"] = sum(each.never for each in helped) / len(helped)
        figures["regret_ten_learning"] = sum(sum(each.learning) for each in helped) / len(helped)
        figures["regret_ten_never"] = RUNS * figures["regret_never"]
    needless = [found[case.name] for case in cases if not case.may_help]
    if needless:
        figures["regret_needless_max"] = max(max(each.learning) - each.never for each in needless)
    return figures


def learning(_: Path) -> dict[str, float]:
    """Measure all cases; each makes a folder of its own. See `measure`."""
    return measure(CASES)


if __name__ == "__main__":
    names = sys.argv[1:] or [case.name for case in CASES]
    print(json.dumps(measure([case for case in CASES if case.name in names])))
