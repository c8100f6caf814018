"""Random schedules of faults on several hosts, one after the other: `make soak`.

    python tests/soak.py --schedules 100            # a night; the seed is printed
    python tests/soak.py --seed 4711                # goes on where the run of this seed was interrupted
    python tests/soak.py --only kill,power-off      # some kinds of faults alone
    python tests/soak.py --minutes 60               # as many schedules as an hour takes
    python tests/soak.py --memory                   # a store in memory

Each schedule prints a line and adds one to target/soak/SEED.jsonl; histories with violations stay beside it.
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import hosts
from history.faults import FAULTS, NEEDS_DIRECTORIES
from history.schedule import ROOM, Outcome, errors, run
from hosts import Hosts
from seeds import seed as random_seed

SERVERS = ("node1", "node2", "node3")
LEDGERS = Path(__file__).resolve().parents[1] / "target/soak"
SHOWN = 10
"""Violations of a schedule that are shown; all of them stand beside its histories."""
AT_ONCE = 20
"""Schedules on one store, before the next ones get a new store."""


def main() -> int:
    """Run the schedules that the ledger lacks."""
    options = _options()
    missing = hosts.missing()
    if missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    seed = options.seed or random_seed()
    options.ledgers.mkdir(parents=True, exist_ok=True)
    ledger = options.ledgers / f"{seed}.jsonl"
    done = _read(ledger)
    end = time.monotonic() + options.minutes * 60
    possible = [kind for kind in FAULTS if not options.memory or kind not in NEEDS_DIRECTORIES]
    kinds = options.only.split(",") if options.only else possible
    unknown = [kind for kind in kinds if kind not in possible]
    if unknown:
        print(f"error: no fault of such a store is named {', '.join(unknown)}", file=sys.stderr)
        print(f"hint: the faults are {', '.join(possible)}", file=sys.stderr)
        return 2
    left = [number for number in range(options.schedules) if number not in done]
    while left and time.monotonic() < end:
        with hosts.hosts(["desk", *SERVERS], room=ROOM) as network:
            network.deploy_three(SERVERS, hosts.IN_MEMORY if options.memory else hosts.DURABLE)
            for number in left[:AT_ONCE]:
                if time.monotonic() >= end:
                    break
                done[number] = _run_one(network, seed + number, number, ledger, kinds)
        left = [number for number in left[AT_ONCE:] if number not in done]
    return _summary(seed, options.schedules, done)


def _run_one(network: Hosts, seed: int, number: int, ledger: Path, kinds: list[str]) -> dict[str, object]:
    begun = time.monotonic()
    outcome = run(network, SERVERS, seed, kinds=kinds)
    if outcome.violations:
        kept = ledger.with_suffix("") / str(number)
        kept.mkdir(parents=True, exist_ok=True)
        for history in outcome.files:
            shutil.copy(history, kept)
        (kept / "violations").write_text("\n".join([*outcome.faults, "", *outcome.violations]) + "\n")
    line = _line(outcome, number, time.monotonic() - begun)
    with ledger.open("a") as file:
        file.write(json.dumps(line) + "\n")
    told = f"{line['operations']} operations, {line['answered']} answered, longest {outcome.longest_seconds:.1f} s"
    print(f"schedule {number}: {told}, {len(outcome.violations)} violations", flush=True)
    for words in (*outcome.faults, *outcome.violations[:SHOWN]):
        print(f"    {words}", flush=True)
    return line


def _line(outcome: Outcome, number: int, seconds: float) -> dict[str, object]:
    return {
        "schedule": number,
        "operations": len(outcome.history),
        "answered": outcome.answered,
        "longest_seconds": round(outcome.longest_seconds, 1),
        "seconds": round(seconds, 1),
        "errors": {os.strerror(number): count for number, count in errors(outcome.history).items()},
        "faults": outcome.faults,
        "violations": outcome.violations[:SHOWN],
        "violation_count": len(outcome.violations),
    }


def _read(ledger: Path) -> dict[int, dict[str, object]]:
    """Schedules that were run before; a line that was cut is left out."""
    done = {}
    for line in ledger.read_text().splitlines() if ledger.exists() else []:
        try:
            told = json.loads(line)
        except ValueError:
            continue
        done[int(told["schedule"])] = told
    return done


def _summary(seed: int, wanted: int, done: dict[int, dict[str, object]]) -> int:
    """Print the last line; answers the exit code."""
    bad = {number: line for number, line in done.items() if line["violations"]}
    operations = sum(int(str(line["operations"])) for line in done.values())
    longest = max((float(str(line["longest_seconds"])) for line in done.values()), default=0.0)
    where = f" (schedules {', '.join(map(str, sorted(bad)))})" if bad else ""
    print(
        f"WEIR_SEED={seed}: {len(done)} of {wanted} schedules, {operations} operations, "
        f"longest {longest:.1f} s, {len(bad)} with violations{where}"
    )
    return 1 if bad or len(done) < wanted else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--memory", action="store_true", help="a store in memory, with the faults that it outlives")
    parser.add_argument("--only", default="", help=f"kinds of faults, of {', '.join(FAULTS)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
