"""Trust, as counts of what must not happen: bytes lost, strangers let in, others starved, calls that answer otherwise.

make bench-trust        every figure; the last line is one JSON object
.venv/bin/python benchmarks/trust.py power-loss strangers stalled-senders metrics-readers slow-readers kills host-calls
"""

from importlib import import_module

from _harness import measure_parts

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
    told = import_module(PARTS[name][0]).measure()
    return {figure: float(value) for figure, value in told.items() if isinstance(value, int | float)}


if __name__ == "__main__":
    measure_parts("trust", PARTS, measured)
