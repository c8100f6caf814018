"""Adds `examples/` to the folders from which benchmarks import."""

import sys

from _harness import ROOT

sys.path.insert(0, str(ROOT / "examples"))
