"""Random calls on a fresh store and on tmpfs, for as long as wanted.

    PYTHONPATH=tests .venv/bin/python -m random_calls --minutes 60
    PYTHONPATH=tests .venv/bin/python -m random_calls --seed 4711 --sequences 10
    PYTHONPATH=tests .venv/bin/python -m random_calls --seed 4711 --keep 3,17,20    # steps of one sequence

Prints each difference, shrunk, with the command that repeats it.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from seeds import seed as random_seed
from store import Store, fresh, kept_for

from random_calls.law import Law
from random_calls.players import CLIENTS, build, on_store, on_tmpfs


def main() -> int:
    """Play the sequences; returns 1 if any differed."""
    options = _options()
    seed = options.seed or random_seed()
    with fresh("weir-random-calls-") as store, law_on(store, options.clients.split(",")) as law:
        if options.keep:
            found = law.played(seed, [int(number) for number in options.keep.split(",")])
            print(found or "nothing differs", flush=True)
            return int(found is not None)
        end = time.monotonic() + options.minutes * 60
        different = count = 0
        for found in law.differences(itertools.count(seed)):
            count += 1
            if found:
                different += 1
                print(found, flush=True)
            if time.monotonic() > end or count == options.sequences:
                break
        print(
            f"WEIR_SEED={seed}: {count} sequences, {law.calls} calls, {different} sequences differ, "
            f"{law.ended_early} ended at an expected difference"
        )
    return int(different > 0)


def measured(directory: Path, seeds: Sequence[int]) -> tuple[int, list[str]]:
    """Play the sequences of seeds on a store whose home is in a fresh folder; the number of calls, and what differs."""
    with kept_for(directory) as store, law_on(store) as law:
        found = [str(each) for each in law.differences(seeds) if each]
        return law.calls, found


@contextmanager
def law_on(store: Store, clients: Collection[str] = CLIENTS) -> Iterator[Law]:
    """Two places with these clients each: on a store that is brought up, and on tmpfs."""
    store.up(servers=2, targets=2)
    second = store.root / "second"
    second.mkdir()
    store.weir("mount", second)
    program = build(store.root)
    with (
        tempfile.TemporaryDirectory(prefix="weir-random-calls-", dir="/dev/shm") as folder,
        on_store(program, store, "random", second, clients) as there,
        on_tmpfs(program, Path(folder), len(there.players)) as here,
    ):
        yield Law(here, there)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--sequences", type=int, default=0, help="at most so many")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="the ways that clients go")
    parser.add_argument("--keep", default="", help="numbers of the steps of the seed's sequence that are played")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
