"""The execution of a plan: the measurements that the folder lacks, each written when it ends."""

import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from weir.errors import WeirError
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.stress import kernels
from weir.provisioning.stress.load import Specification, phases_of
from weir.provisioning.stress.places import Place, place, remove_left
from weir.provisioning.stress.plan import Planned
from weir.provisioning.stress.results import OWNER, StressFigures
from weir.provisioning.stress.systems import Candidate
from weir.simulation.sweeps import ledger
from weir.simulation.sweeps.errors import SweepError

Progress = Callable[[int, int], None]
"""Called with the number of measurements that are done, and of all."""

_PATIENCE_SECONDS = 120.0
"""Longest time of a measurement beyond its phases: bytes become durable behind a phase, on a slow or busy system."""
_END_SECONDS = 5.0
"""Longest wait for killed processes. One that waits for a server of a network may not end."""
_ANSWER_BYTES_MAX = 1 << 16
"""Longest answer of a kernel, and most of its words that a refusal repeats in part."""
_WORDS_MAX = 300


@dataclass(frozen=True)
class Refused:
    """A measurement that could not be made."""

    planned: Planned
    reason: str


@dataclass(frozen=True)
class Finished:
    """A run that ended."""

    measured: int
    """Measurements that this run made."""
    known: int
    """Measurements that the folder had."""
    refused: tuple[Refused, ...]


def run(planned: Sequence[Planned], out: Path, *, scratch: Path | None = None, progress: Progress) -> Finished:
    """Make the measurements that a folder lacks.

    A measurement that was refused is made again. SIGINT, as KeyboardInterrupt, ends the run: what is done is kept.

    Args:
        out: Folder of the run; it is made.
        scratch: Folder in which stores have their homes; None is that of temporary files.
        progress: Called behind each measurement.

    Raises:
        SweepError: Another process uses the folder.
        ProvisioningError: It is no folder of a run; or something that an earlier run left cannot be removed.
        OSError: The folder cannot be written.
    """
    _refuse_sweeps(out)
    digest = hashlib.sha256(str(kernels.VERSION).encode()).hexdigest()
    header = ledger.Header(file=OWNER, digest=digest, parts={"kernels": digest}, axes={})
    # Points of other kernels have other keys, so a folder may hold both.
    with ledger.opened(out, header, is_changed_allowed=True) as held:
        remove_left(out)
        by_key = {each.key: each for each in planned}
        missing = [
            each for key, each in by_key.items() if key not in held.records or held.records[key].refusal is not None
        ]
        known = len(by_key) - len(missing)
        refused: list[Refused] = []
        progress(known, len(by_key))
        done = known
        for (_, candidate), some in itertools.groupby(missing, key=lambda each: (each.point.repeat, each.candidate)):
            with contextlib.closing(_group(candidate, list(some), out, scratch)) as answers:
                for each, result in answers:
                    record, reason = _record(each, result)
                    held.add(record)
                    refused += [] if reason is None else [Refused(each, reason)]
                    done += 1
                    progress(done, len(by_key))
        return Finished(len(missing) - len(refused), known, tuple(refused))


def _refuse_sweeps(out: Path) -> None:
    try:
        is_other = ledger.is_sweep(out) and ledger.read_header(out).file != OWNER
    except SweepError as error:
        raise ProvisioningError(error.message, hint=error.hint) from None
    if is_other:
        raise ProvisioningError(f"{out} holds a simulated sweep", hint="choose another `out`")


def _group(
    candidate: Candidate, group: Sequence[Planned], out: Path, scratch: Path | None
) -> Generator[tuple[Planned, StressFigures | str], None, None]:
    """The measurements on one system, which is up for their time; all are refused where it does not come up."""
    answered = 0
    try:
        with place(candidate, space_bytes=max(each.space_bytes for each in group), out=out, scratch=scratch) as made:
            for each in group:
                try:
                    found: StressFigures | str = measure(each, made)
                except ProvisioningError as error:
                    found = error.message
                answered += 1
                yield each, found
    except WeirError as error:
        reason = error.message
        # A place that cannot be removed is an error of the run: the next one would measure beside it.
        if answered == len(group):
            raise
        for each in group[answered:]:
            yield each, reason


def _record(planned: Planned, result: StressFigures | str) -> tuple[ledger.Record, str | None]:
    if isinstance(result, str):
        return ledger.Record(planned.key, planned.settings, None, result), result
    return ledger.Record(planned.key, planned.settings, msgspec.to_builtins(result)), None


def measure(planned: Planned, made: Place) -> StressFigures:
    """Run a kernel in a place.

    Raises:
        ProvisioningError: A process failed, or the kernel did not end in time. None of its processes is left, but for
            those that the system cannot end.
    """
    kernel, point = planned.kernel, planned.point
    specification = Specification(
        folder=made.folder,
        kernel=kernel.name,
        processes=point.processes * kernel.factor,
        file_bytes=point.file_bytes,
        seconds=point.seconds,
        seed=int(planned.key[:8], 16),
        is_private=made.is_private,
    )
    phases = _run(specification, made, len(phases_of(kernel)) * point.seconds + _PATIENCE_SECONDS)
    rates: dict[str, float] = {}
    for phase in phases:
        seconds = float(phase["seconds"])
        moved = float(phase["bytes_written"] + phase["bytes_read"])
        count, field = {
            "write": (moved, "write_bytes_per_second"),
            "read": (moved, "read_bytes_per_second"),
            "mixed": (moved, "mixed_bytes_per_second"),
            "metadata": (float(phase["operations"]), "metadata_operations_per_second"),
        }[phase["phase"]]
        if seconds <= 0.0 or count <= 0.0:
            raise ProvisioningError(f"the phase `{phase['phase']}` of {kernel.name} did nothing")
        rates[field] = count / seconds
    return StressFigures(**rates, capacity_bytes=made.capacity_bytes)


def _run(specification: Specification, made: Place, seconds_max: float) -> list[dict[str, Any]]:
    """The processes of a kernel, in a session of their own, so that one signal ends them all.

    They also end, and remove their files, where this process is killed: they hold the other end of a pipe.
    """
    here, there = os.pipe()
    try:
        return _ended(replace(specification, lifeline=here), made, seconds_max)
    finally:
        os.close(here)
        os.close(there)


def _ended(specification: Specification, made: Place, seconds_max: float) -> list[dict[str, Any]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "weir.provisioning.stress.load", json.dumps(asdict(specification))],
        pass_fds=(specification.lifeline,),
        env={**made.environment, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, words = child.communicate(timeout=seconds_max)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_END_SECONDS)
        if isinstance(error, subprocess.TimeoutExpired):
            raise ProvisioningError(f"{specification.kernel} did not end within {seconds_max:.0f} s") from None
        raise
    if child.returncode != 0:
        last = words.strip().splitlines()[-1:] or [f"it ended with {child.returncode}"]
        # The first words are those of the process that failed, the last ones count them.
        first = next((line for line in words.splitlines() if line.startswith("error: process")), last[0])
        raise ProvisioningError(f"{specification.kernel} failed: {first.removeprefix('error: ')[:_WORDS_MAX]}")
    if len(output) > _ANSWER_BYTES_MAX:
        raise ProvisioningError(f"{specification.kernel} printed other things than its counts")
    answer: list[dict[str, Any]] = json.loads(output)
    return answer
