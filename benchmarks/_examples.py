"""Lets benchmarks import what lies in `examples/`."""

import sys

from _harness import ROOT

sys.path.insert(0, str(ROOT / "examples"))
