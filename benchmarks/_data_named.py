"""Named data: files that follow CF through every door, and what of them xarray does not find again."""

import sys
import tempfile
import warnings
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from cf_doors import DOORS, by_command, ncdump
from cf_samples import made, published, tolerances
from weir.adaptive import AdaptiveWarning

QUICK = ("rotated_pole", "atlantic_profiles", "vlstr_type")
"""Small files among the published ones."""


def measure(quick: bool) -> dict[str, float | int | None]:
    """Send each file through each door, with tolerances of a thousandth of the range of each measured variable.

    Returns:
        `cf_files`: the files; `cf_files_wrong`: those of which a door gives a name, an attribute, a type, a missing
        cell or a value back wrong, or whose error is above the told one or the tolerance, or which ncdump prints
        otherwise where every bit is to be kept; `xarray_roundtrip_variables_wrong`: variables that xarray finds changed
        by `Dataset.weir.write` and the engine `weir`.
    """
    wrong, unlike = set(), 0
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", AdaptiveWarning)
        folder = Path(temporary)
        samples = [*(published(QUICK) if quick else published()), *made(folder)]
        for sample in samples:
            for door, go in DOORS.items():
                place = folder / f"{sample.name}-{door}"
                place.mkdir()
                faults = go(sample.path, place, tolerances(sample.path))
                unlike += len(faults) if door == "xarray" else 0
                for fault in faults:
                    wrong.add(sample.name)
                    print(f"{sample.name} through {door}: {fault}", file=sys.stderr)
            exact = folder / f"{sample.name}-exact"
            exact.mkdir()
            if by_command(sample.path, exact, {}) or ncdump(exact / "back.nc") != ncdump(sample.path):
                wrong.add(sample.name)
                print(f"{sample.name}: ncdump prints it otherwise", file=sys.stderr)
    return {"cf_files": len(samples), "cf_files_wrong": len(wrong), "xarray_roundtrip_variables_wrong": unlike}
