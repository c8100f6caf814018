"""Trust, as counts of what must not happen: bytes lost, strangers let in, others starved, calls that answer otherwise.

make bench-trust        every figure; the last line is one JSON object
.venv/bin/python benchmarks/trust.py kills
"""

import sys
from collections.abc import Callable, Mapping

import _kills
from _running import finish

PARTS: dict[str, Callable[[], Mapping[str, object]]] = {
    "kills": _kills.measure,
}
FIGURES: dict[str, tuple[str, ...]] = {
    "kills": ("kill_rounds", "kill_lost_bytes"),
}
"""The figures that each part owes."""


def main() -> None:
    """Measure what the arguments name, or everything."""
    unknown = set(sys.argv[1:]) - PARTS.keys()
    if unknown:
        sys.exit(f"error: no part is named {', '.join(sorted(unknown))}\nhint: the parts are {', '.join(PARTS)}")
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(PARTS):
        measured = PARTS[name]()
        missing = [figure for figure in FIGURES[name] if figure not in measured]
        if missing:
            sys.exit(f"error: {name} did not measure {', '.join(missing)}")
        figures |= {figure: value for figure, value in measured.items() if isinstance(value, int | float)}
    finish("trust", figures)


if __name__ == "__main__":
    main()
