"""Stores whose target's disk is not mounted, or whose journal's folder is gone, and whether their start is refused."""

import sys
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import lost_folders


def measure(_directory: Path) -> dict[str, float]:
    """Lose each folder of a store of its own.

    Returns:
        `unmounted_disk_refused` and `lost_journal_refused`, 1 where check and start both refuse the store.
    """
    return {
        "unmounted_disk_refused": float(lost_folders.unmounted_disk_refused()),
        "lost_journal_refused": float(lost_folders.lost_journal_refused()),
    }
