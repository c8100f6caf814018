"""The first hour of a new user: the commands of the documentation, and the demo from a fresh clone."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import documentation  # noqa: E402

_DEMO_SECONDS = 3600.0
"""Longest time of the demo, which builds everything first."""


def first_hour(directory: Path) -> dict[str, float]:
    """Run every command of README and guides, and the demo of a fresh clone.

    Args:
        directory: An empty folder.

    Returns:
        `documented_commands`, `documented_commands_failed`, and `demo_minutes`, which is infinite where the demo fails.
    """
    outcomes = [outcome for page in documentation.PAGES for outcome in _page(page, directory / Path(page).stem)]
    for outcome in outcomes:
        if outcome.failed:
            _say(f"failed with {outcome.code}: {outcome.command}")
    return {
        "documented_commands": len(outcomes),
        "documented_commands_failed": sum(outcome.failed for outcome in outcomes),
        "demo_minutes": _demo_minutes(directory / "clone"),
    }


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _page(page: str, folder: Path) -> list[documentation.Outcome]:
    _say(f"the commands of {page}")
    folder.mkdir()
    programs = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    environment |= {"WEIR_HOME": str(folder / "home"), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}
    reader = folder / "reader"
    reader.mkdir()
    try:
        return documentation.run(ROOT / page, reader, environment)[0]
    finally:
        down = [str(programs / "weir"), "down", "--force", "--discard", "--yes"]
        subprocess.run(down, env=environment, capture_output=True, timeout=600, check=False)


def _demo_minutes(clone: Path) -> float:
    """The time of `make demo` in a fresh clone, with its build."""
    _say("make demo, from a fresh clone")
    subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(clone)], check=True, timeout=600)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "CARGO_TARGET"))}
    began = time.monotonic()
    answer = subprocess.run(["make", "demo"], cwd=clone, env=environment, timeout=_DEMO_SECONDS, check=False)
    minutes = (time.monotonic() - began) / 60
    shutil.rmtree(clone, ignore_errors=True)
    return minutes if answer.returncode == 0 else float("inf")
