"""The slowdown of a victim beside a hog: under `fifo`, under `fifo` with the guard, and under `size-fair`.

Each round runs all of them, one after the other, each on a store of its own. A slowdown is the mean time of the
victim's writes over that of its writes alone in the same run. Writes count once all that was begun has settled: two
windows after the hog's begin, and with the guard two windows after its last action. `guard_whole_ratio` counts all
writes beside the hog.

.venv/bin/python benchmarks/_interference_guard.py
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import weir.store
from _harness import announce, finish
from hogged import WINDOW_SECONDS, configuration, hog_at_work, victim_at_work

ROUNDS = 3
ALONE_SECONDS = 3.0
HOGGED_SECONDS = 12.0
_SETTLING = 2 * WINDOW_SECONDS
_BOUNDS = ("--windows", "3", "--dwell", "8")
_WAYS: dict[str, tuple[str, str | None]] = {
    "fifo": ("fifo", None),
    "guard": ("fifo", "share,weight,limit"),
    "guard by shares alone": ("fifo", "share"),
    "size-fair": ("size-fair", None),
}
"""Policy of the store, and the actions of its guard."""


@dataclass(frozen=True)
class Run:
    """The slowdowns of one run."""

    settled: float
    whole: float
    seconds_to_act: float


def run(directory: Path, policy: str, actions: str | None) -> Run:
    """Run the victim alone, then beside the hog."""
    file = directory / "cluster.toml"
    file.write_text(configuration(policy))
    with weir.store.up(file, home=directory / "home", mount=False) as store:
        guard = _guard(store, actions) if actions else None
        try:
            with victim_at_work(store) as victim:
                time.sleep(ALONE_SECONDS)
                with hog_at_work(store):
                    begun, begun_unix = time.monotonic(), time.time()
                    time.sleep(HOGGED_SECONDS)
                    ended = time.monotonic()
                    writes = victim.writes()
        finally:
            if guard is not None:
                guard.send_signal(signal.SIGTERM)
                guard.wait()
        acted = [float(line["time"]) - begun_unix for line in _log(store) if line["did"] == "acted"] if guard else [0.0]
        store.down(discard=True)
    alone = fmean(took for at, took in writes if at < begun)
    settled_from = begun + max(acted) + _SETTLING
    settled = fmean(took for at, took in writes if settled_from <= at <= ended)
    whole = fmean(took for at, took in writes if begun <= at <= ended)
    return Run(settled / alone, whole / alone, min(acted))


def measure(directory: Path) -> dict[str, float | None]:
    """Measure all ways in each round."""
    runs: dict[str, list[Run]] = {way: [] for way in _WAYS}
    for number in range(ROUNDS):
        for way, (policy, actions) in _WAYS.items():
            folder = directory / f"{number}-{way.replace(' ', '-')}"
            folder.mkdir()
            made = run(folder, policy, actions)
            runs[way].append(made)
            print(f"{number} {way:22} {made.settled:7.2f} settled {made.whole:7.2f} whole", flush=True)
    slowdowns = {way: median(each.settled for each in of_way) for way, of_way in runs.items()}
    fair = [each.settled for each in runs["size-fair"]]

    def ratio(way: str) -> float:
        return median(each.settled / other for each, other in zip(runs[way], fair, strict=True))

    whole = [each.whole / other.whole for each, other in zip(runs["guard"], runs["size-fair"], strict=True)]
    announce("guard", f"{slowdowns['guard']:.2f}", f"size-fair {slowdowns['size-fair']:.2f}", ratio("guard"))
    return {
        "guard_slowdown_fifo": slowdowns["fifo"],
        "guard_slowdown": slowdowns["guard"],
        "guard_slowdown_by_shares": slowdowns["guard by shares alone"],
        "guard_slowdown_size_fair": slowdowns["size-fair"],
        "guard_slowdown_ratio": ratio("guard"),
        "guard_by_shares_ratio": ratio("guard by shares alone"),
        "guard_whole_ratio": median(whole),
        "guard_seconds_to_act": median(each.seconds_to_act for each in runs["guard"]),
    }


def _guard(store: weir.store.Store, actions: str) -> "subprocess.Popen[bytes]":
    words = ["--home", str(store.home), "guard", "--actions", actions, *_BOUNDS]
    return subprocess.Popen([sys.executable, "-m", "weir.cli", *words], stderr=subprocess.DEVNULL, env=os.environ)


def _log(store: weir.store.Store) -> list[dict[str, float | str]]:
    words = ["--home", str(store.home), "guard", "log", "--output", "json"]
    shown = subprocess.run([sys.executable, "-m", "weir.cli", *words], capture_output=True, text=True, check=True)
    lines: list[dict[str, float | str]] = json.loads(shown.stdout)
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weir-guard-") as place:
        finish("interference_guard", {name: value or 0.0 for name, value in measure(Path(place)).items()})
