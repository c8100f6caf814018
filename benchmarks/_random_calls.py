"""Random calls that a store answers otherwise than tmpfs, by four clients at once that go four ways."""

import sys
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from random_calls.__main__ import measured

_SEQUENCES = 500
_SEED = 1


def measure(directory: Path) -> dict[str, float]:
    """Play sequences on a fresh store and on tmpfs.

    Args:
        directory: Fresh folder.

    Returns:
        `random_calls` that were compared, and `random_call_differences`: sequences that ended at another answer that
        no row of the page of limits states.
    """
    calls, found = measured(directory, range(_SEED, _SEED + _SEQUENCES))
    for each in found:
        print(each, file=sys.stderr)
    return {"random_calls": float(calls), "random_call_differences": float(len(found))}
