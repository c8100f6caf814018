"""The scientist's side: named data, any library, a page about a job, plug-ins and notebooks.

make bench-data                                 every figure; the last line is one JSON object
.venv/bin/python benchmarks/data.py [--quick] client named report plugins notebooks
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec

from _harness import measure_parts

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "client": (
        "_data_client",
        ("fsspec_tests_failed", "fsspec_write_vs_run", "fsspec_read_vs_run", "fsspec_read_4k_vs_run"),
    ),
    "named": ("_data_named", ("cf_files", "cf_files_wrong", "xarray_roundtrip_variables_wrong")),
    "report": ("_data_report", ("report_seconds", "report_findings_confirmed", "report_findings_planted")),
    "plugins": ("_data_plugins", ("plugins_working",)),
    "notebooks": ("_data_notebooks", ("notebooks_failed", "notebook_seconds_max")),
}
"""The module of each part, and the figures that it owes."""
QUICK = "--quick"
"""Fewer rounds and smaller files, for a look; the figures go to a file of their own."""


def measured(name: str, *, quick: bool) -> Mapping[str, float | None]:
    """The figures of one part; None where its module is not there."""
    module, owed = PARTS[name]
    if find_spec(module) is None:
        return dict.fromkeys(owed)
    found: Mapping[str, float | None] = import_module(module).measure(quick)
    return found


if __name__ == "__main__":
    is_quick = QUICK in sys.argv
    sys.argv = [word for word in sys.argv if word != QUICK]
    measure_parts("data-quick" if is_quick else "data", PARTS, lambda name: measured(name, quick=is_quick))
