"""Labelled windows and bins, for the commands of `weir interference` that learn from them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.interference_packages import needed
from weir.cli.common.parameters import PATH, Checked

if TYPE_CHECKING:
    from weir.interference.windows import Windows


def read_bins(text: str) -> tuple[float, ...]:
    """Read ascending slowdowns, such as 2,5.

    Raises:
        ValueError: The text is something else.
    """
    try:
        bins = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers, such as 2,5") from None
    if list(bins) != sorted(set(bins)) or not all(0 < each < math.inf for each in bins) or len(bins) > _BINS_MAX:
        raise ValueError(f"{text!r} is not 1 to {_BINS_MAX} numbers that ascend from above 0")
    return bins


_BINS_MAX = 8
"""Bound of `crates/interference`."""
DATA = click.argument("data", metavar="DATA...", nargs=-1, required=True, type=PATH)
BINS = click.option(
    "--bins",
    type=Checked("bins", read_bins),
    default="2",
    help="Slowdowns at which a class begins, such as 2,5.",
)


def read_windows(data: Sequence[Path]) -> "Windows":
    """Read the windows of files, or of folders of files."""
    needed()
    from weir.interference.windows import read

    return read(data)
