"""Planning storage for jobs: the planner's speed, its predictions, and what its choices are worth.

make bench-plan         every figure; the last line is one JSON object
.venv/bin/python benchmarks/plan.py PART...    some of the parts below
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "speed": ("_plan_speed", ("unknown_ms", "known_ms", "cold_seconds")),
    "service": ("_plan_service", ("service_logs", "service_in_flight_seconds")),
    "prediction": (
        "_plan_prediction",
        ("mape_read", "mape_write", "mape_baseline_read", "mape_baseline_write", "interval_coverage"),
    ),
    "logs": ("_plan_logs", ("objectives_used_by_16_logs", "pmem_plans_of_16_logs")),
    "objectives": ("_plan_sslos", ()),
    "configurations": ("_plan_configurations", ()),
    "opposite": (
        "_plan_configurations",
        ("figure8_opposite_loss_reads_percent", "figure8_opposite_loss_writes_percent"),
    ),
    "applications": ("_planned_applications", ("io_time_vs_default",)),
    "equal": ("_planned_applications", ("io_time_equal_devices",)),
    "sharing": ("_planned_sharing", ()),
    "learning": ("_loop_store", ("regret_first", "regret_tenth", "regret_needless_max")),
    "month": ("_loop_month", ("month_regret_never", "month_regret_learned")),
}
"""The module of each part, and the figures that it owes."""

FUNCTIONS = {
    "speed": "speed",
    "service": "service_speed",
    "prediction": "prediction",
    "logs": "mapped_logs",
    "objectives": "sslo_model",
    "configurations": "figure_8",
    "opposite": "opposite_losses",
    "applications": "planned_applications",
    "equal": "equal_devices",
    "sharing": "measure",
    "learning": "learning",
    "month": "measure",
}
"""The function of each part that measures in a fresh directory."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0], FUNCTIONS[name])


if __name__ == "__main__":
    measure_parts("plan", PARTS, measured)
