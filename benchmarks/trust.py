"""Trust, as counts of what must not happen: bytes lost, strangers let in, others starved, calls that answer otherwise.

make bench-trust        every figure; the last line is one JSON object
.venv/bin/python benchmarks/trust.py power-loss strangers stalled-senders metrics-readers slow-readers kills host-calls
"""

import sys
from importlib import import_module

from _harness import finish

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "power-loss": ("_power_loss", ("power_loss_violations", "power_loss_states")),
    "strangers": ("_strangers", ("stranger_messages_refused", "stranger_messages")),
    "stalled-senders": ("_stalled_senders", ("stalled_senders_victim_ratio",)),
    "metrics-readers": ("_metrics_readers", ("metrics_readers_ping_p99_ms",)),
    "slow-readers": ("_slow_readers", ("slow_readers_memory_mib",)),
    "kills": ("_kills", ("kill_rounds", "kill_lost_bytes")),
    "host-calls": ("_host_calls", ("host_call_differences",)),
}
"""The module of each part, whose `measure` answers figures by their names, and the figures that it owes."""


def measured(name: str) -> dict[str, float]:
    """The figures of one part. Other results of its module are for people, who run the module itself."""
    module, owed = PARTS[name]
    told = import_module(module).measure()
    figures = {figure: float(value) for figure, value in told.items() if isinstance(value, int | float)}
    missing = [figure for figure in owed if figure not in figures]
    if missing:
        sys.exit(f"error: {module} did not measure {', '.join(missing)}")
    return figures


def main() -> None:
    """Measure the parts that the arguments name, or all."""
    unknown = set(sys.argv[1:]) - PARTS.keys()
    if unknown:
        sys.exit(f"error: no part is named {', '.join(sorted(unknown))}\nhint: the parts are {', '.join(PARTS)}")
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(PARTS):
        figures |= measured(name)
    finish("trust", figures)


if __name__ == "__main__":
    main()
