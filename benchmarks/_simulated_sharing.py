"""Sharing at scale in the simulator's request model: how far jobs are from the time that the policy owes them.

.venv/bin/python benchmarks/_simulated_sharing.py [--quick]

128 servers with one target each, 1,000 jobs with requests of 1 MiB queued on one to four targets. The time that the
policy owes each job is that of one division of the whole store. The error is the part of the device time that went to
others than those it was owed to, in windows of half a second. `--quick` takes 16 servers and 100 jobs.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import ROOT, announce
from _simulated_tables import Part, table

COMMAND = (
    *("cargo", "run", "--quiet", "--release", "--locked"),
    *("--package", "weir-simulator", "--example", "sharing", "--"),
)
POLICIES = (
    "job-fair",
    "user-fair",
    "size-fair",
    "priority-fair",
    "user-then-size-fair",
    "group-then-user-then-size-fair",
)
SCHEDULERS = ("virtual-time", "statistical-token", "gift", "tbf")
LAMBDAS_SECONDS = (0.01, 0.1, 1.0, 10.0)
LOSSES = (0.0, 0.01, 0.1)
POLICY = "user-then-size-fair"
"""The policy of the rows that differ in something else."""
LAMBDA_SECONDS = 0.1
RUN_SECONDS = 4.0
REQUESTS_PER_SECOND = 1e6
"""Requests a second that are asked for."""
WAIT_SECONDS = 1800


@dataclass(frozen=True)
class Case:
    """One run."""

    policy: str = POLICY
    scheduler: str = "virtual-time"
    lambda_seconds: float = LAMBDA_SECONDS
    loss: float = 0.0
    request_bytes: int = 1 << 20

    def run_seconds(self) -> float:
        """Virtual seconds of the run: three exchanges at least, and as long again."""
        return max(RUN_SECONDS, 2.4 * self.lambda_seconds)


SPEED = Case(lambda_seconds=1.0, request_bytes=1 << 16)
"""The run whose requests are counted: small ones, so that most of the work is theirs and not the divisions'."""


@dataclass(frozen=True)
class Row:
    """The outcome of one run."""

    case: Case
    first_error: float
    """Part of the device time of the first window that was given wrongly."""
    settled_error: float
    """Mean of the same over the windows of the second half."""
    total_error: float
    """The same over the whole run as one window."""
    fair_after_seconds: float | None
    """Begin of the first window from which on the error stays below 5 %; none where it never does."""
    used: float
    """Part of the targets' time that was used."""
    requests_per_second: float
    """Requests scheduled in a second of processor time, which other work on the machine does not count in."""
    peak_mib: float


def run(case: Case, machines: tuple[int, int]) -> Row:
    """Simulate one case with so many servers and jobs."""
    settings = (case.policy, case.scheduler, case.lambda_seconds, case.loss, case.request_bytes)
    command = (*COMMAND, *(str(given) for given in (*machines, case.run_seconds(), *settings)))
    output = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS)
    found = json.loads(output.stdout)
    return Row(case, **{field.name: found[field.name] for field in fields(Row) if field.name != "case"})


def percent(part: float) -> str:
    """A part as a percentage."""
    return f"{100 * part:.1f} %"


def since(seconds: float | None) -> str:
    """A time, or that there is none."""
    return "never" if seconds is None else f"{seconds:g} s"


def rows(title: str, cases: Iterable[Case], machines: tuple[int, int]) -> list[Row]:
    """Simulate cases, and say how far each is."""
    found = []
    for case in cases:
        row = run(case, machines)
        name = f"{title}: {case.policy}, {case.scheduler}, {case.lambda_seconds:g} s, {percent(case.loss)} lost"
        announce(
            name, percent(row.settled_error), f"fair after {since(row.fair_after_seconds)}", row.settled_error / 0.05
        )
        found.append(row)
    return found


def figures_of(row: Row) -> list[str]:
    """The cells that all tables have in common."""
    errors = (row.first_error, row.settled_error, row.total_error)
    return [*(percent(error) for error in errors), since(row.fair_after_seconds), percent(row.used)]


HEADS = ("error in the first 0.5 s", "settled", "of the whole run", "below 5 % after", "time used")


def sharing(_directory: Path, machines: tuple[int, int] = (128, 1000)) -> Part:
    """Policies, schedulers, intervals and losses; the speed of the request model."""
    by_policy = rows("policy", (Case(policy=policy) for policy in POLICIES), machines)
    by_scheduler = rows("scheduler", (Case(scheduler=scheduler) for scheduler in SCHEDULERS), machines)
    cases = (Case(lambda_seconds=interval, loss=loss) for interval in LAMBDAS_SECONDS for loss in LOSSES)
    by_exchange = rows("exchange", cases, machines)
    speed = run(SPEED, machines).requests_per_second
    announce(
        "request model", f"{speed:,.0f} requests/s", f"asked: {REQUESTS_PER_SECOND:,.0f}", REQUESTS_PER_SECOND / speed
    )
    exchange_heads = ("lambda", "lost", *HEADS)
    tables = {
        "sharing-policies": table(("policy", *HEADS), [[row.case.policy, *figures_of(row)] for row in by_policy]),
        "sharing-schedulers": table(
            ("scheduler", *HEADS), [[row.case.scheduler, *figures_of(row)] for row in by_scheduler]
        ),
        "sharing-exchanges": table(
            exchange_heads,
            [[f"{row.case.lambda_seconds:g} s", percent(row.case.loss), *figures_of(row)] for row in by_exchange],
        ),
    }
    figures = {
        "requests_per_second": speed,
        "request_mode_memory_mib": max(row.peak_mib for row in (*by_policy, *by_scheduler, *by_exchange)),
        "sharing_error_max": max(row.settled_error for row in by_policy),
    }
    return Part(figures, tables)


def main() -> None:
    """Print the tables, and the figures as JSON."""
    machines = (16, 100) if "--quick" in sys.argv[1:] else (128, 1000)
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        part = sharing(Path(directory), machines)
    for name, content in part.tables.items():
        print(f"{name}\n{content}\n", file=sys.stderr)
    print(json.dumps(part.figures))


if __name__ == "__main__":
    main()
