"""The objectives of real jobs, and the storage that a plan gives them by default.

.venv/bin/python benchmarks/plan.py logs

The sixteen logs come with the tests. `WEIR_DARSHAN_LOGS` names a folder with more logs, whose table is printed, too.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from _harness import ROOT
from _simulated_tables import table
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.recorded import RunReader
from weir.provisioning.jobs.wishes import of_hints
from weir.provisioning.objectives import shipped, sslo_tables
from weir.provisioning.planning.mapping import ALIKE, Mapping
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources
from weir.tracing.darshan import DarshanError

sys.path.insert(0, str(ROOT / "tests"))

import logged_jobs

LOGS = Path(os.environ.get("WEIR_DARSHAN_LOGS", ROOT.parent / "shared/data/darshan"))
NODES = 32
KINDS = ("hdd", "ssd", "nvme", "pmem")
SITE = Resources(
    nodes=tuple(
        Node(
            name=f"n{number}",
            network_bytes_per_second=12.5e9,
            devices=tuple(Device(path=f"/{kind}", kind=kind, capacity_bytes=4 * 10**12) for kind in KINDS),
        )
        for number in range(NODES)
    )
)
"""The site of the plans: each node has a device of each class."""
_HEADER = ("log", "objective", "meant for", "I/O; allowed", "runner-up", "by", "by default", "performance")


def mapped_logs(directory: Path) -> dict[str, float]:
    """Map the logs to objectives, and plan their storage.

    Args:
        directory: Not used.

    Returns:
        `objectives_used_by_16_logs`, and the logs of the sixteen whose plan takes PMEM by default
        (`pmem_plans_of_16_logs`) and by the policy `performance`; where there are more logs, `logs_mapped` with the
        objectives that they use, `objectives_used_by_all_logs`.
    """
    sixteen = [logged_jobs.log(name) for name in logged_jobs.OBJECTIVES]
    planner = Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)
    used, default, fastest = _of(planner, sixteen)
    figures = {
        "objectives_used_by_16_logs": float(used),
        "pmem_plans_of_16_logs": float(default["pmem"]),
        "pmem_plans_of_16_logs_performance": float(fastest["pmem"]),
    }
    more = sorted(LOGS.rglob("*.darshan"))
    if more:
        used, *_ = _of(planner, more)
        figures |= {"logs_mapped": float(len(more)), "objectives_used_by_all_logs": float(used)}
    return figures


def _of(planner: Planner, logs: Sequence[Path]) -> tuple[int, Counter[str], Counter[str]]:
    """Print the table of logs; count their objectives, and the classes of devices of both policies."""
    rows, names = [], set()
    devices: dict[str, Counter[str]] = {"cost": Counter(), "performance": Counter()}
    reader = RunReader(note=lambda *_, **__: None)
    try:
        for path in logs:
            try:
                identity = identify(reader.read(path))
            except DarshanError as error:
                print(f"{path.name}: {error.message}", file=sys.stderr)
                continue
            mapping = planner.map(identity)
            names.add(mapping.sslo.name)
            row = [path.name.partition("_id")[0][:32], *_words(mapping)]
            for policy, counts in devices.items():
                words, device = _planned(planner, identity, policy)
                counts[device] += 1
                row.append(words)
            rows.append(row)
    finally:
        reader.end()
    print(table(_HEADER, rows), file=sys.stderr)
    return len(names), devices["cost"], devices["performance"]


def _words(mapping: Mapping) -> list[str]:
    best, other = mapping.best, mapping.runner_up
    assert other is not None
    if best.satisfaction - other.satisfaction > ALIKE:
        by = f"{best.satisfaction - other.satisfaction:.2f} of satisfaction"
    elif other.cost > best.cost:
        by = f"{other.cost / best.cost:.2g} times the price"
    elif best.purpose_part > other.purpose_part:
        by = f"{best.purpose_part - other.purpose_part:.0%} of its I/O"
    else:
        by = f"{other.io_seconds / best.io_seconds:.2g} times the I/O time"
    times = f"{best.io_seconds:.2g} s; {mapping.allowed_seconds:.3g} s"
    return [mapping.sslo.name, f"{best.purpose_part:.0%}", times, other.sslo, by]


def _planned(planner: Planner, identity: Identity, policy: str) -> tuple[str, str]:
    """The storage of a job by a policy, in words, and the class of its devices."""
    made = planner.plan(identity, None, SITE, wishes=of_hints("benchmark", {"policy": policy}))
    system = made.deployment.system
    seconds = made.selected.candidate.io_seconds
    return f"{system.servers} {system.device}, {seconds:.2g} s, {made.deployment.price:.2g}", system.device
