"""The example notebooks, run as they stand: how many fail, and the time of the slowest."""

import sys
import tempfile
import time
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))


def measure(quick: bool) -> dict[str, float | int | None]:
    """Run the notebooks; with `quick` the first one alone."""
    from nbclient.exceptions import CellExecutionError
    from notebooks import NOTEBOOKS, executed

    failed, longest = 0, 0.0
    for name in NOTEBOOKS[:1] if quick else NOTEBOOKS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="weir-notebook-") as folder:
            try:
                executed(name, Path(folder))
            except CellExecutionError as error:
                print(f"{name}: {error}", file=sys.stderr)
                failed += 1
        seconds = time.monotonic() - begin
        print(f"{name} took {seconds:.1f} s", flush=True)
        longest = max(longest, seconds)
    return {"notebooks_failed": failed, "notebook_seconds_max": longest}
