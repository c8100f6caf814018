"""Rows of tables for the lines of windows that programs counted."""

from collections.abc import Mapping
from typing import Any

from weir.cli.common.output import Quantity, size

HEADINGS = ("WINDOW", "JOB", "DEVICE", "READS", "WRITES", "METADATA", "READ", "WRITTEN", "TIME", "IOPS")


def cells(line: Mapping[str, Any], window_seconds: float) -> tuple[object, ...]:
    """Make the cells of a line.

    Args:
        line: The counts of a job on a device in a window, by the names of `weir.store.client_windows.ClientLine`.

    Returns:
        A cell for each of `HEADINGS`. IOPS counts reads, writes and metadata operations together.
    """
    metadata = line["stats"] + line["opens"] + line["closes"] + line["others"]
    operations = line["reads"] + line["writes"] + metadata
    seconds = line["read_seconds"] + line["write_seconds"] + line["metadata_seconds"]
    return (
        line["window"],
        line["job"],
        line["device"],
        line["reads"],
        line["writes"],
        metadata,
        size(line["read_bytes"]),
        size(line["written_bytes"]),
        Quantity(f"{seconds:.4f} s"),
        Quantity(f"{operations / window_seconds:.0f}"),
    )
