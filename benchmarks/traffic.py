"""Placement on measurements of production file systems: where it pays, and where it does not.

make bench-traffic      every case; the last line is one JSON object
.venv/bin/python benchmarks/traffic.py traffic slow fill weights storm

Every decision is the allocator's that places files in the store and for Lustre (`weir._core`). Round robin is
`lustre-standard` on targets that are equally full, which is what it then does.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from _harness import finish
from _traffic_data import Array, Fullness, Traffic, fullness, traffic
from weir._core import Allocator, space_factors
from weir.cli.common.output import table_lines

SEED = 4
STRIPES_PER_TARGET = 10
"""Stripes that arrive in a window for each target: fine enough that the forecast matters, not the rounding."""
STRIPE_COUNT = 4
"""Stripes of a file."""
HISTORY_WINDOWS = 12
"""An hour: the mean over it is a target's usual traffic, and the rest is a burst."""
SLOW = 0.1
"""Speed of the slow target."""
SLOW_TARGET = 14
FILLED = (0.2, 0.8, 0.95)
"""Parts of the free space that arriving files take."""
FILL_ROUNDS = 20
"""Times in which they arrive; free space is looked at before each."""
FILL_STRIPES_PER_TARGET = 100
SNAPSHOT_STEP = 10
WEIGHT_FILES = 96
WEIGHT_RUNS = 200
WEIGHT_BYTES = (1 << 20, 1 << 30)
"""Sizes of stripes, uniform in their logarithm."""
STORM_JOBS = 4
STORM_FILES = 12
STORM_RUNS = 50
STRATEGIES = ("round robin", "lustre-standard", "measured", "last hour", "half announced", "announced", "perfect")
"""Those from `measured` on are `balanced`: on the load of the last window, on the mean of the last hour, on that and
half or all of the bursts, and on what then came."""
LUSTRE = ("round robin", "lustre-standard")
Demand = tuple[int, int]
"""Stripes of a file, and bytes of each."""


@dataclass(frozen=True)
class Case:
    """One row: the result of each strategy in one case."""

    name: str
    key: str
    unit: str
    reached: dict[str, float]


def allocator_of(strategy: str) -> Allocator:
    """The allocator behind a strategy; strategies differ in the figures that the allocator gets."""
    return Allocator("lustre-standard" if strategy in LUSTRE else "balanced", seed=SEED)


def files(stripes: int, total_bytes: float) -> list[Demand]:
    """Files of `STRIPE_COUNT` equal stripes, `stripes` in all."""
    return [(STRIPE_COUNT, int(total_bytes / stripes))] * (stripes // STRIPE_COUNT)


def placed_bytes(
    allocator: Allocator,
    demands: Sequence[Demand],
    *,
    load: Array,
    free: Array | None = None,
    speed: Array | None = None,
) -> Array:
    """Bytes that each target is given; where free bytes and speeds are left out they are equal."""
    placed = allocator.allocate(
        [str(number) for number in range(len(load))],
        [count for count, _ in demands],
        [size for _, size in demands],
        loads_bytes=list(load),
        free_bytes=None if free is None else [int(each) for each in free],
        speeds=None if speed is None else list(speed),
    )
    return np.array(placed.loads_bytes) - load


def means(reached: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {strategy: float(np.mean(ratios)) for strategy, ratios in reached.items()}


def on_traffic(seen: Traffic, name: str, key: str, arriving_bytes: Array, slow: int | None = None) -> Case:
    """Files that arrive in each window on top of the measured traffic, which no placement moves.

    What is told is the largest of the targets over their mean (each by its speed), on average over the windows.
    """
    windows, targets = seen.moved_bytes.shape
    speeds = np.ones(targets)
    if slow is not None:
        speeds[slow] = SLOW
    draw = np.random.default_rng(SEED)
    announcing = draw.random(seen.written_bytes.shape) < 0.5
    allocators = {strategy: allocator_of(strategy) for strategy in STRATEGIES}
    worst: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for window in range(HISTORY_WINDOWS, windows):
        before, now = seen.moved_bytes[window - 1], seen.moved_bytes[window]
        history = slice(window - HISTORY_WINDOWS, window)
        usual = seen.moved_bytes[history].mean(axis=0)
        burst = np.maximum(0.0, seen.written_bytes[window] - seen.written_bytes[history].mean(axis=0))
        loads = {
            "round robin": np.zeros(targets),
            "lustre-standard": np.zeros(targets),
            "measured": before,
            "last hour": usual,
            "half announced": usual + burst * announcing[window],
            "announced": usual + burst,
            "perfect": now,
        }
        demands = files(targets * STRIPES_PER_TARGET, arriving_bytes[window])
        for strategy, load in loads.items():
            free = seen.free_bytes[window] if strategy == "lustre-standard" else None
            added = placed_bytes(allocators[strategy], demands, load=load, free=free, speed=speeds)
            seconds = (now + added) / speeds
            worst[strategy].append(float(seconds.max() * speeds.sum() / (now + added).sum()))
    return Case(name, key, "max/mean", means(worst))


def slow_target(seen: Traffic) -> list[Case]:
    """One target at a tenth of its speed, which `balanced` has learned, under the measured traffic and without it."""
    targets = seen.moved_bytes.shape[1]
    speeds = np.ones(targets)
    speeds[SLOW_TARGET] = SLOW
    reached = {}
    for strategy in ("round robin", "lustre-standard", "measured"):
        demands = files(targets * FILL_STRIPES_PER_TARGET, 1e15)
        seconds = placed_bytes(allocator_of(strategy), demands, load=np.zeros(targets), speed=speeds) / speeds
        reached[strategy] = float(seconds.max() * speeds.sum() / 1e15)
    return [
        Case("one of 24 OSTs at 1/10 speed, else idle", "slow_idle", "slowest/mean", reached),
        on_traffic(seen, "the same, on the measured traffic", "slow", seen.moved_bytes.sum(axis=1), slow=SLOW_TARGET),
    ]


def healthy(seen: Traffic) -> list[Case]:
    """The measured day as it was."""
    moved = seen.moved_bytes.sum(axis=1)
    return [
        on_traffic(seen, "healthy; as much again arrives", "traffic", moved),
        on_traffic(seen, "healthy; the mean arrives steadily", "steady", np.full_like(moved, moved.mean())),
    ]


def filling(moments: Sequence[Sequence[Fullness]]) -> list[Case]:
    """Equal stripes that take part of the free space: the stripes that meet a full target, and the balance of the
    work.
    """
    cases = []
    systems = moments[::SNAPSHOT_STEP]
    for place, system in enumerate(systems[0]):
        snapshots = [moment[place] for moment in systems]
        who = f"{system.name}, {len(system.free_bytes)} OSTs"
        weighted = sum(not takes_turns(each) for each in snapshots)
        mode = "weighted" if weighted == len(snapshots) else "in turn" if weighted == 0 else "both"
        for filled in FILLED:
            results = {
                strategy: [filled_by(each, strategy, filled) for each in snapshots]
                for strategy in ("round robin", "lustre-standard", "measured")
            }
            key = f"fill_{round(100 * filled)}_{system.name}"
            name = f"{filled:.0%} of the free space of {who} ({mode})"
            lost = {strategy: [full for full, _ in each] for strategy, each in results.items()}
            even = {strategy: [ratio for _, ratio in each] for strategy, each in results.items()}
            cases.append(Case(f"{name}: to full targets", f"{key}_lost", "% of stripes", means(lost)))
            cases.append(Case(f"{name}: evenness", f"{key}_even", "max/mean", means(even)))
    return cases


def takes_turns(system: Fullness) -> bool:
    """Whether Lustre's allocator takes these targets in turn: then as many files as targets are one on each."""
    targets = len(system.free_bytes)
    demands = [(1, 1)] * targets
    turn = allocator_of("lustre-standard")
    return bool((placed_bytes(turn, demands, load=np.zeros(targets), free=system.free_bytes) == 1).all())


def filled_by(system: Fullness, strategy: str, filled: float) -> tuple[float, float]:
    """Percent of the stripes that a full target should have taken, and the load of the most loaded target over the
    mean.
    """
    targets = len(system.free_bytes)
    free = system.free_bytes.copy()
    stripes = targets * FILL_STRIPES_PER_TARGET // FILL_ROUNDS
    bytes_each = filled * free.sum() / (stripes * FILL_ROUNDS)
    allocator = allocator_of(strategy)
    wanted = np.zeros(targets)
    lost = 0.0
    for _ in range(FILL_ROUNDS):
        room = [int(each) for each in free]
        speed = np.array(space_factors(room, [int(each) for each in system.total_bytes]))
        added = placed_bytes(
            allocator,
            files(stripes, bytes_each * stripes),
            load=np.zeros(targets),
            free=None if strategy == "round robin" else free,
            speed=speed if strategy == "measured" else None,
        )
        wanted += added
        fits = np.minimum(added, np.floor(free / bytes_each) * bytes_each)
        lost += float((added - fits).sum())
        free -= fits
    return 100.0 * lost / float(wanted.sum()), float(wanted.max() / wanted.mean())


def weights(_seen: Traffic) -> list[Case]:
    """Files whose stripes differ in size, on idle targets: balanced by count is not balanced by bytes."""
    targets = 24
    draw = np.random.default_rng(SEED)
    low, high = np.log(WEIGHT_BYTES)
    reached: dict[str, list[float]] = {"lustre-standard": [], "announced": []}
    for _ in range(WEIGHT_RUNS):
        sizes = np.exp(draw.uniform(low, high, WEIGHT_FILES)).astype(int)
        counts = draw.integers(1, 9, WEIGHT_FILES)
        demands = [(int(count), int(size)) for count, size in zip(counts, sizes, strict=True)]
        for strategy, ratios in reached.items():
            added = placed_bytes(allocator_of(strategy), demands, load=np.zeros(targets))
            ratios.append(float(added.max() / added.mean()))
    return [Case("files of 1 to 8 stripes of 1 MiB to 1 GiB", "weights", "max/mean", means(reached))]


def storm(_seen: Traffic) -> list[Case]:
    """Jobs that begin within one measuring interval: nothing of one's work is measured when the next is placed."""
    targets = 24
    draw = np.random.default_rng(SEED)
    reached: dict[str, list[float]] = {"lustre-standard": [], "measured": [], "announced": []}
    low, high = np.log(WEIGHT_BYTES)
    for _ in range(STORM_RUNS):
        jobs = [
            [(1, int(size)) for size in np.full(STORM_FILES, np.exp(draw.uniform(low, high)))]
            for _ in range(STORM_JOBS)
        ]
        turn = allocator_of("lustre-standard")
        apart = [placed_bytes(turn, job, load=np.zeros(targets)) for job in jobs]
        alone = [placed_bytes(allocator_of("measured"), job, load=np.zeros(targets)) for job in jobs]
        together = placed_bytes(
            allocator_of("announced"), [file for job in jobs for file in job], load=np.zeros(targets)
        )
        for strategy, added in (("lustre-standard", sum(apart)), ("measured", sum(alone)), ("announced", together)):
            reached[strategy].append(float(np.max(added) / np.mean(added)))
    name = f"{STORM_JOBS} jobs of {STORM_FILES} files within one interval"
    return [Case(name, "storm", "max/mean", means(reached))]


CASES: dict[str, Callable[[Traffic], list[Case]]] = {
    "traffic": healthy,
    "slow": slow_target,
    "fill": lambda _seen: filling(fullness()),
    "weights": weights,
    "storm": storm,
}


def measured_traffic(names: Iterable[str] = CASES) -> dict[str, float]:
    """The figures of the named cases; a table of them goes to standard output."""
    seen = traffic()
    cases = [case for name in names for case in CASES[name](seen)]
    header = ("case", "of", *STRATEGIES)
    rows = [
        (case.name, case.unit, *(f"{case.reached[each]:.2f}" if each in case.reached else "-" for each in STRATEGIES))
        for case in cases
    ]
    print(*table_lines(header, rows), sep="\n", flush=True)
    figures = {
        f"{case.key}_{strategy.replace(' ', '_').replace('-', '_')}": value
        for case in cases
        for strategy, value in case.reached.items()
    }
    return {**figures, "clipped_samples": seen.clipped}


if __name__ == "__main__":
    finish("traffic", measured_traffic(sys.argv[1:] or CASES))
