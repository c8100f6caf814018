"""Windows of jobs on a simple model of servers, for tests of the predictions: time grows with what others do."""

from typing import Any

import numpy as np
from weir.interference.windows import Windows, of_rows

TARGETS = 3


def made(seed: int, workloads: tuple[str, ...] = ("writer", "reader", "maker"), windows: int = 48) -> Windows:
    """Windows of two runs of each workload; a third of them is slowed by others."""
    generator = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for place, workload in enumerate(workloads):
        for run in range(2):
            others = 0.0
            for window in range(windows):
                if window % 4 == 0:
                    others = float(generator.uniform(2.0, 8.0)) if generator.random() < 0.35 else 0.0
                rows += _window(generator, (workload, place), f"{workload}-{run}", window, others)
    return of_rows(rows)


def _window(
    generator: np.random.Generator, workload: tuple[str, int], run: str, window: int, others: float
) -> list[dict[str, Any]]:
    name, place = workload
    operations = float(generator.integers(20, 200))
    slowdown = (1 + others) * float(generator.normal(1, 0.03))
    shared = {
        "run": run,
        "workload": name,
        "window": window,
        "io_seconds": operations * (place + 1) * 1e-3 * slowdown,
        "slowdown": slowdown,
    }
    rows = []
    for target in range(TARGETS):
        own = operations / TARGETS
        all_operations = own * (1 + others)
        counters = {
            "reads": all_operations if place == 1 else 0.0,
            "writes": all_operations if place != 1 else 0.0,
            "written_sectors": all_operations * 8,
            "write_milliseconds": all_operations * (1 + others),
            "busy_milliseconds": 100.0 * (1 + others),
            "queued_milliseconds": 100.0 * (1 + others) ** 2,
        }
        rows.append(
            {
                **shared,
                "server": f"{target:04d}",
                "is_metadata": False,
                "client_reads": own if place == 1 else 0.0,
                "client_writes": own if place == 0 else 0.0,
                "client_written_bytes": own * 4096 if place == 0 else 0.0,
                **{f"server_{key}_mean": value for key, value in counters.items()},
            }
        )
    metadata = operations if place == 2 else 2.0
    rows.append({**shared, "server": "mdt", "is_metadata": True, "client_opens": metadata, "client_closes": metadata})
    return rows


def of_the_authors(seed: int) -> dict[str, Any]:
    """A document in the form of the authors'."""
    generator = np.random.default_rng(seed)
    counters = ["read_ios", "write_ios", "read_merges", "write_merges", "sectors_read", "sectors_written"]
    counters += ["time_reading", "time_writing", "in_progress", "io_time", "weighted_io_time"]

    def stats(prefix: str) -> dict[str, float]:
        return {
            f"{prefix}_{name}_{kind}": float(generator.random()) for name in counters for kind in ("sum", "mean", "std")
        }

    def window() -> dict[str, Any]:
        client = ("ops", "size", "reads", "writes", "read_size", "write_size")
        osts = {f"ost{number}_total_{name}": float(generator.integers(9)) for number in range(2) for name in client}
        mdt = {f"mdt_total_{name}": float(generator.integers(9)) for name in ("ops", "stat", "open", "close")}
        trace = {"total_time": float(generator.uniform(0.5, 9)), "window_size": 1.5, "ost": osts, "mdt": mdt}
        return {"trace": trace, "ost_stats": {**stats("ost0"), **stats("ost1")}, "mdt_stats": stats("mdt")}

    return {"All": {str(number): window() for number in (3, 1, 10)}}
