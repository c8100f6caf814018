"""Placement beside Lustre's own: balance, bandwidth, prediction, a slow target, allocation, look-up, measured traffic.

make bench-place        every figure; the last line is one JSON object
.venv/bin/python benchmarks/place.py balance shared slow prediction allocation lookup traffic
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import finish
from _placement import placement, shared_files
from _slow_target import slow_target
from allocation import allocation
from lookup import look_up
from prediction import predictions
from traffic import measured_traffic

PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "balance": placement,
    "shared": shared_files,
    "slow": lambda _: slow_target(),
    "prediction": lambda _: predictions(),
    "allocation": lambda _: allocation(),
    "lookup": look_up,
    "traffic": lambda _: measured_traffic(),
}


def main() -> None:
    """Run the parts that are named, or all."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part {' '.join(unknown)}; there are {' '.join(PARTS)}")
    figures: dict[str, float] = {}
    for name in names:
        with TemporaryDirectory(prefix="weir-bench-") as directory:
            figures |= PARTS[name](Path(directory))
    finish("place", figures)


if __name__ == "__main__":
    main()
