"""The predicted times of a job's I/O, by those of its class."""

from typing import Literal

import msgspec

from weir.provisioning.behaviour.classes import BehaviourClass, TimeName
from weir.provisioning.behaviour.identity import Identity


class JobTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A predicted time of a job, all processes together, on the storage of the runs that the class was made from."""

    name: TimeName
    seconds: float
    low_seconds: float
    """Begin of the 90 % interval."""
    high_seconds: float
    runs: int
    """Runs of the class that the interval comes from."""
    source: Literal["site", "shipped"]


def job_times(identity: Identity, of: BehaviourClass) -> tuple[JobTime, ...]:
    """Predict the times of a job, as far as its class tells them.

    Returns:
        A time for each kind of work that the job does and the class predicts to use.
    """
    work: dict[TimeName, int] = {
        "read": identity.read_bytes,
        "write": identity.written_bytes,
        "metadata": identity.metadata_operations,
    }
    return tuple(
        JobTime(
            name=name,
            seconds=each.seconds_per_unit * work[name],
            low_seconds=each.seconds_per_unit * work[name] / each.factor,
            high_seconds=each.seconds_per_unit * work[name] * each.factor,
            runs=each.runs,
            source=each.source,
        )
        for name, each in of.times.items()
        if work[name] > 0
    )
