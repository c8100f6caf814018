"""An analysis' own I/O: writes a stream of steps onto two tiers, or reads it back at a fixed pace.

python stream.py SPECIFICATION, which `weir run` starts, with the fields of `Writing` or `Reading` as JSON. The
steps that were read go to a file; their times are printed, as JSON.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive import writer
from weir.adaptive.tiers import REQUEST_BYTES


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A stream to write."""

    fast: str
    shared: str
    codec: str
    arrays: str
    """A .npy file: steps along its first axis, which are repeated."""
    steps: int
    scale: float
    """Factor by which sizes are scaled down, also those that writer and reader choose."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A stream to read."""

    fast: str
    shared: str
    policy: str
    """`best-effort`, `isolation`, `plot` or `budget`."""
    arguments: dict[str, float]
    """Arguments of the plot or the budget."""
    forecaster: str
    warm_up_steps: int
    """Number of first steps that read everything, for the forecast to learn from."""
    steps: int
    epoch: float
    """Begin of the first step (CLOCK_MONOTONIC, seconds)."""
    period_seconds: float
    scale: float
    output: str
    """A .npy file for the arrays of the steps behind the warm-up."""


@dataclass(frozen=True)
class Read:
    """One step."""

    seconds: float
    """Time of its reads."""
    bytes_read: int
    augmentation: float
    bandwidth: float | None
    """Bandwidth of the shared tier, in bytes a second."""
    forecast: float | None


def write(what: Writing) -> dict[str, int]:
    """Write the stream."""
    arrays = np.load(what.arrays)
    tiers = (adaptive.Tier(what.fast), adaptive.Tier(what.shared))
    chunk_bytes = round(writer.CHUNK_BYTES / what.scale)
    with adaptive.Writer(tiers, codec=what.codec, chunk_bytes=chunk_bytes) as stream:
        for step in range(what.steps):
            stream.write(arrays[step % len(arrays)])
    return {"steps": what.steps}


def read(what: Reading) -> list[dict[str, Any]]:
    """Read the stream at its pace."""
    request_bytes = round(REQUEST_BYTES / what.scale)
    shared = adaptive.Tier(what.shared, forecaster=what.forecaster, request_bytes=request_bytes)
    tiers = (adaptive.Tier(what.fast), shared)
    policy: Any = what.policy
    if what.policy == "plot":
        policy = adaptive.Plot(**what.arguments)
    elif what.policy == "budget":
        policy = adaptive.Budget(**what.arguments)
    reads: list[Read] = []
    kept: list[NDArray[np.float32]] = []
    with adaptive.open(tiers, policy=policy, warm_up_steps=what.warm_up_steps) as steps:
        for number in range(what.steps):
            time.sleep(max(what.epoch + number * what.period_seconds - time.monotonic(), 0))
            step = next(steps)
            tier = step.tiers[1]
            reads.append(Read(step.seconds, step.bytes_read, step.augmentation, tier.bandwidth, tier.forecast))
            kept = [*kept, step.data] if number >= what.warm_up_steps else [step.data]
    np.save(what.output, np.stack(kept[-(what.steps - what.warm_up_steps) :]))
    return [asdict(each) for each in reads]


if __name__ == "__main__":
    specification = json.loads(sys.argv[1])
    done: Any = read(Reading(**specification)) if "policy" in specification else write(Writing(**specification))
    print(json.dumps(done))
