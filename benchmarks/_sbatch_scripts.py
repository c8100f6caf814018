"""Batch scripts that sbatch and Weir read differently, of generated ones."""

import random
import sys
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import sbatch_scripts

_GENERATED = 1000
_SEED = "calls"


def measure(directory: Path) -> dict[str, float]:
    """Compare readings of scripts: those of the sbatch on the path, else those that are recorded of Debian 12's.

    Args:
        directory: Fresh folder.

    Returns:
        `sbatch_scripts` that were read, and `sbatch_differences` among them that no rule of the guide explains.
    """
    compared = _recorded() if sbatch_scripts.missing() else _generated(directory)
    found = [each for each in compared if each]
    for each in found:
        print(each, file=sys.stderr)
    return {"sbatch_scripts": float(len(compared)), "sbatch_differences": float(len(found))}


def _generated(directory: Path) -> list[str]:
    sbatch = sbatch_scripts.Sbatch(directory)
    compared = []
    for number in range(_GENERATED):
        directives = bool(number % 2)
        choices = random.Random(f"{_SEED}/{number}")
        script = sbatch_scripts.generated(choices, "#WEIR" if directives else "#SBATCH")
        read = sbatch.read(sbatch_scripts.as_directives(script) if directives else script)
        compared.append(sbatch_scripts.difference(script, read, directives=directives))
    return compared


def _recorded() -> list[str]:
    return [
        sbatch_scripts.difference(script, read, directives=each) for script, read, each in sbatch_scripts.recorded()
    ]
