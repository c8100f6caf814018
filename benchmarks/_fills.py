"""Fill values of arrays: how many random arrays give their masked cells back exactly, in every way of reading."""

import sys
from pathlib import Path

import numpy as np
from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from masked import faults_of_prefixes, faults_of_readers, faults_of_zarr, masked_array

ARRAYS = 60
"""Each is restored from 3 prefixes, in 7 ways of a reader, and from Zarr in 2."""


def measure(directory: Path) -> dict[str, float]:
    """Restore random arrays with random fill values.

    Returns:
        `fills_tried`: restored arrays; `fills_exact`: those whose masked cells, and no others, have their fill value
        bit by bit, and whose other cells are within the tolerance and the stated errors.
    """
    random = np.random.default_rng(1)
    tried = exact = 0
    for number in range(ARRAYS):
        case = masked_array(random)
        ways = [
            *faults_of_prefixes(case, random),
            *faults_of_readers(case, directory / f"{number}"),
            *faults_of_zarr(case, directory / f"{number}.zarr"),
        ]
        tried += len(ways)
        exact += sum(not faults for faults in ways)
    return {"fills_tried": tried, "fills_exact": exact}
