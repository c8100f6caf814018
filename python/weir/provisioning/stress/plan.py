"""The plan of a run: each kernel on each system, at each number of processes, several times."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.stress import kernels
from weir.provisioning.stress.results import StressPoint
from weir.provisioning.stress.systems import Candidate

POINTS_MAX = 100_000
"""Most measurements of a run: at two seconds each they take two days."""
PROCESSES_MAX = 256
"""Most processes before the factor of a kernel: their counts and pipes are those of one machine."""


@dataclass(frozen=True)
class Planned:
    """A measurement, and the system that it is made on."""

    candidate: Candidate
    point: StressPoint

    @property
    def kernel(self) -> kernels.Kernel:
        """The kernel."""
        return kernels.KERNELS[self.point.kernel]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the measurement as values for JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self.point)
        return found

    @property
    def key(self) -> str:
        """Digest of the settings."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def space_bytes(self) -> int:
        """Space that the kernel takes at most."""
        return kernels.space_bytes(self.kernel, self.point.processes, self.point.file_bytes)


def plan(
    candidates: Sequence[Candidate],
    *,
    names: Sequence[str],
    processes: Sequence[int],
    repeats: int,
    seconds: float,
    file_bytes: int,
) -> list[Planned]:
    """Make the plan of a run.

    Args:
        names: Names of the kernels.
        processes: Numbers of processes, before the factor of a kernel.
        repeats: Number of times that each measurement is made.
        seconds: Length of each phase.
        file_bytes: Bytes of each process.

    Returns:
        The measurements. The repetition is the outermost loop: a disturbance of the machine then falls on one
        repetition of some systems, and not on all of one.

    Raises:
        ProvisioningError: There are more than `POINTS_MAX`.
    """
    count = repeats * len(candidates) * len(processes) * len(names)
    if count > POINTS_MAX:
        raise ProvisioningError(
            f"the run would have {count} measurements, and at most {POINTS_MAX} are made",
            hint="give fewer systems, processes, kernels or repeats",
        )
    return [
        Planned(
            candidate,
            StressPoint(
                kernels=kernels.VERSION,
                system=candidate.system,
                semantics=candidate.semantics,
                kernel=name,
                processes=number,
                repeat=repeat,
                seconds=seconds,
                file_bytes=file_bytes,
            ),
        )
        for repeat in range(repeats)
        for candidate in candidates
        for number in dict.fromkeys(processes)
        for name in kernels.KERNELS
        if name in names
    ]


def seconds_of(planned: Sequence[Planned]) -> float:
    """Tell about how long measurements take, without the start of stores and processes.

    Returns:
        The time in seconds; files of readers are written first, for as long as a phase takes.
    """
    phases = sum(len(each.kernel.phases) + (each.kernel.phases[0] in ("read", "mixed")) for each in planned)
    return phases * planned[0].point.seconds if planned else 0.0
