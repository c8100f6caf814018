"""The simulator beside SimGrid, the Tarazu paper's figures and the real store; its speed.

make bench-simulate     every figure; the last line is one JSON object
.venv/bin/python benchmarks/simulate.py [--tables] [--only EXPERIMENT] [PART ...]

Parts are flows, titan, second, real, scaling, causes, sharing and tuned. `--tables` also writes the tables of the parts
that run into docs/design/simulation.md. `--only` takes one experiment of `real`, such as figure-8, and may be given
several times.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import finish
from _simulated_flows import flows
from _simulated_scaling import causes, scaling
from _simulated_sharing import sharing
from _simulated_store import EXPERIMENTS, real
from _simulated_tables import Part, write_tables
from _simulated_testbed import second
from _simulated_titan import titan
from _tuned_store import tuned_store

PARTS: dict[str, Callable[[Path], Part]] = {
    "flows": flows,
    "titan": titan,
    "second": second,
    "real": real,
    "scaling": scaling,
    "causes": lambda _: causes(),
    "sharing": sharing,
    "tuned": tuned_store,
}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="write the tables into docs/design/simulation.md")
    parser.add_argument("--only", action="append", choices=EXPERIMENTS, help="experiments of the part `real`")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"among {' '.join(PARTS)}")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for name in given.parts or PARTS:
        part = partial(real, only=given.only) if name == "real" and given.only else PARTS[name]
        with TemporaryDirectory(prefix="weir-bench-") as directory:
            found = part(Path(directory))
        figures |= found.figures
        if given.tables:
            write_tables(found.tables)
    finish("simulate", figures)


if __name__ == "__main__":
    main()
