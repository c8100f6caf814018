"""Results of stress tests, as they lie in the folder of a run: one JSON object a line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Semantics, System
from weir.simulation.sweeps import ledger
from weir.simulation.sweeps.errors import SweepError

OWNER = "weir stress"
"""The name in the header of a folder, which tells it from a folder of a simulated sweep."""

FIGURE_MAX = 1e18
"""Greatest rate, and room, of a system: more is no measurement."""
COUNT_MAX = 1 << 20
"""Most servers, and most targets of a server."""


class StressPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measurement: a kernel on a system."""

    version: Literal[1] = 1
    """Version of this document."""
    kernels: int
    """Version of the kernels."""
    system: System
    semantics: Semantics
    kernel: str
    processes: int
    """Processes, before the kernel's factor."""
    repeat: int
    """Number of the repetition, from 0."""
    seconds: float
    """Length of each phase."""
    file_bytes: int
    """Bytes of each process."""


class StressFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The figures of one measurement; None where the kernel does not have them."""

    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    mixed_bytes_per_second: float | None = None
    """Reads and writes of processes that ran beside each other."""
    metadata_operations_per_second: float | None = None
    capacity_bytes: int | None = None
    """Room of a mounted path before the measurement."""


class StressResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of `points.ndjson` in the folder of a run."""

    key: str
    """Digest of the settings."""
    settings: StressPoint
    figures: StressFigures | None
    """None where the measurement could not be made."""
    refusal: str | None
    """Reason why the measurement could not be made."""


def read_results(folders: Sequence[Path]) -> list[StressResult]:
    """Read the results of runs.

    Returns:
        The results; those of two folders stand beside each other.

    Raises:
        ProvisioningError: A folder is no folder of a run, or a line in it is no result.
    """
    found = []
    for folder in folders:
        try:
            header = ledger.read_header(folder)
            if header.file != OWNER:
                raise ProvisioningError(
                    f"{folder} is the folder of a simulated sweep", hint="name a folder that `weir stress` made"
                )
            records = ledger.read_records(folder)
        except SweepError as error:
            raise ProvisioningError(error.message, hint=error.hint or "name a folder that `weir stress` made") from None
        except OSError as error:
            raise ProvisioningError(
                f"cannot read {folder}: {error.strerror}", hint="name a folder that `weir stress` made"
            ) from None
        found += [_result(folder, record) for record in records.values()]
    return found


def _result(folder: Path, record: ledger.Record) -> StressResult:
    document: dict[str, Any] = {
        "key": record.key,
        "settings": record.settings,
        "figures": record.figures,
        "refusal": record.refusal,
    }
    try:
        found = msgspec.convert(document, StressResult)
        _check(found)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProvisioningError(
            f"{folder}: the point {record.key:.80} is no result of a stress test: {error}",
            hint="remove its line to measure it again",
        ) from None
    return found


def _check(result: StressResult) -> None:
    """Refuse figures that no system has; a table of them could not be computed with.

    Raises:
        ValueError: A figure, or a number of the system, cannot be.
    """
    for name, value in msgspec.structs.asdict(result.figures).items() if result.figures else ():
        # Not a number is in no range.
        if value is not None and not 0 < value <= FIGURE_MAX:
            raise ValueError(f"{name} is {value:g}")
    system = result.settings.system
    for name, count in (("servers", system.servers), ("targets_per_server", system.targets_per_server)):
        if not 1 <= count <= COUNT_MAX:
            raise ValueError(f"{name} is {count}")
